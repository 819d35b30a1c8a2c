"""Loads and stores at plain addresses, and calls through them: for the numba-compiled part of the machine, and for Python."""

import ctypes
import functools
from contextlib import contextmanager

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from . import compile

PTR = ir.PointerType()
_LLVM = {
    types.int8: ir.IntType(8), types.uint8: ir.IntType(8), types.int16: ir.IntType(16), types.uint16: ir.IntType(16),
    types.int32: ir.IntType(32), types.uint32: ir.IntType(32), types.int64: ir.IntType(64), types.uint64: ir.IntType(64),
    types.float32: ir.FloatType(), types.float64: ir.DoubleType(),
}  # fmt: skip


def _loader(ty):
    @intrinsic
    def load(typingctx, address):
        def codegen(context, builder, signature, args):
            p = builder.inttoptr(args[0], PTR)
            return builder.load(p, typ=_LLVM[ty], align=1)

        return ty(types.int64), codegen

    return load


def _storer(ty):
    @intrinsic
    def store(typingctx, address, value):
        def codegen(context, builder, signature, args):
            builder.store(args[1], builder.inttoptr(args[0], PTR), align=1)
            return context.get_dummy_value()

        return types.void(types.int64, ty), codegen

    return store


load_i8, load_u8, load_i16, load_u16 = (_loader(t) for t in (types.int8, types.uint8, types.int16, types.uint16))
load_i32, load_u32, load_i64, load_u64 = (_loader(t) for t in (types.int32, types.uint32, types.int64, types.uint64))
load_f32, load_f64 = _loader(types.float32), _loader(types.float64)
store_u8, store_u16, store_i32, store_u32 = (_storer(t) for t in (types.uint8, types.uint16, types.int32, types.uint32))
store_i64, store_u64, store_f32, store_f64 = (
    _storer(t) for t in (types.int64, types.uint64, types.float32, types.float64)
)


@intrinsic
def lanes_apart(typingctx, addresses, first, offsets):
    """Lanes, as bits, whose address (int64, 32 of them at `addresses`) is not `first` plus its offset (32 at `offsets`)."""

    def codegen(context, builder, signature, args):
        lanes = ir.VectorType(ir.IntType(64), 32)
        given, known = (builder.load(builder.inttoptr(args[k], PTR), typ=lanes, align=8) for k in (0, 2))
        one = builder.insert_element(ir.Constant(lanes, ir.Undefined), args[1], ir.Constant(ir.IntType(32), 0))
        splat = builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(ir.IntType(32), 32), [0] * 32))
        apart = builder.icmp_unsigned("!=", builder.sub(given, splat), known)
        return builder.bitcast(apart, ir.IntType(32))

    return types.int32(types.int64, types.int64, types.int64), codegen


@intrinsic
def call_kernel(typingctx, function, warp):
    """int32 (*function)(char *warp)."""

    def codegen(context, builder, signature, args):
        fnty = ir.FunctionType(ir.IntType(32), [PTR])
        fn = builder.inttoptr(args[0], fnty.as_pointer())  # llvmlite reads the callee's type off its pointer
        return builder.call(fn, [builder.inttoptr(args[1], PTR)])

    return types.int32(types.int64, types.int64), codegen


def _bitcast(source, target):
    @intrinsic
    def cast(typingctx, value):
        def codegen(context, builder, signature, args):
            return builder.bitcast(args[0], _LLVM[target])

        return target(source), codegen

    return cast


bits_f32 = _bitcast(types.uint32, types.float32)
f32_bits = _bitcast(types.float32, types.uint32)
bits_f64 = _bitcast(types.uint64, types.float64)
f64_bits = _bitcast(types.float64, types.uint64)


@intrinsic
def popcount(typingctx, value):
    """Bits set in a uint32."""

    def codegen(context, builder, signature, args):
        return builder.ctpop(args[0])

    return types.uint32(types.uint32), codegen


class MachineFunction:
    """A C function that compiled kernels call. It is compiled, or taken from the disk, when its address is asked for."""

    def __init__(self, signature: str, fn):
        self._signature, self._fn = signature, fn

    @functools.cached_property
    def address(self) -> int:
        """Where its machine code is, for the rest of the process."""
        with kept():
            self._compiled = numba.cfunc(self._signature, cache=True, nopython=True, error_model="numpy")(self._fn)
        return self._compiled.address


def machine_function(signature: str):
    """Make a MachineFunction of a Python function."""
    return functools.partial(MachineFunction, signature)


WORDS = types.int64[::1]
ARRAYS = {"s": WORDS, "slots": WORDS, "active": WORDS}  # parameters of these names are arrays of int64


def inner(fn):
    """A function used by machine functions, inlined where LLVM sees fit.

    Its parameters are int64 unless an annotation or ARRAYS says otherwise: numba would else compile it again for every
    mixture of integer types that it is called with.
    """
    names = fn.__code__.co_varnames[: fn.__code__.co_argcount]
    signature = tuple(fn.__annotations__.get(name, ARRAYS.get(name, types.int64)) for name in names)
    with kept():
        dispatcher = numba.njit(cache=True, nogil=True, error_model="numpy")(fn)
    resolve = dispatcher.get_call_template

    def call_template(args, kws):
        """Asked for when a caller is compiled: callers that come from the disk need nothing of this."""
        if not dispatcher.signatures:
            dispatcher.compile(signature)
            dispatcher.disable_compile()
        return resolve(args, kws)

    dispatcher.get_call_template = call_template
    return dispatcher


@contextmanager
def kept():
    """What numba compiles in here is kept in a folder of this version's own, unless the user has said where.

    numba's own cache does not notice changes in what a function calls.
    """
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = before or str(compile.version_dir() / "numba")
    try:
        yield
    finally:
        numba.config.CACHE_DIR = before


# ---------------------------------------------------------------- from Python
def raw_view(address: int, nbytes: int) -> np.ndarray:
    """Unchecked: the bytes at `address` as a uint8 array that shares them."""
    return np.frombuffer((ctypes.c_uint8 * nbytes).from_address(address), np.uint8) if nbytes else np.empty(0, np.uint8)


def peek64(address: int) -> int:
    """The int64 there."""
    return ctypes.c_int64.from_address(address).value


def poke64(address: int, value: int) -> None:
    """Write an int64."""
    ctypes.c_int64.from_address(address).value = value


def poke32(address: int, value: int) -> None:
    """Write an int32."""
    ctypes.c_int32.from_address(address).value = value
