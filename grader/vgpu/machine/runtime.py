"""The functions that compiled kernels call, made known to LLVM once a process."""

import functools

import llvmlite.binding as llvm

from ..jit import access, compile
from . import copies, count, dispatch, heap, observe, slow, warp

MODULES = (dispatch, slow, observe, count, copies, warp, heap)


@functools.cache
def install():
    """Give LLVM the addresses of all vg_* functions."""
    for module in MODULES:
        for name, fn in vars(module).items():
            if name.startswith("vg_"):
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
