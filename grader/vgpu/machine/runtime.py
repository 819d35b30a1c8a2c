"""The functions that compiled kernels call, made known to LLVM once a process."""

import functools

import llvmlite.binding as llvm

from ..jit import access, compile
from ..jit.raw import MachineFunction
from . import copies, count, dispatch, heap, observe, slow, warp

MODULES = (dispatch, slow, observe, count, copies, warp, heap)


def functions() -> dict[str, MachineFunction]:
    """The functions that kernels call, by name."""
    return {name: fn for module in MODULES for name, fn in vars(module).items() if isinstance(fn, MachineFunction)}


@functools.cache
def install():
    """Give LLVM the addresses of all vg_* functions."""
    for name, fn in functions().items():
        llvm.add_symbol(name, fn.address)
    text = str(access.build_module())
    key = compile.cache_key(text)
    obj = compile.load_cached(key)
    if obj is None:
        obj = compile.compile_object(text)
        compile.store_cached(key, obj)
    names = [name for name, *_ in access.functions()] + ["vg_permute"]
    addresses = compile.load(obj, tuple(names))
    for name, address in addresses.items():
        llvm.add_symbol(name, address)
