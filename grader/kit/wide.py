"""Loads and stores of 16 bytes a thread: one instruction where float32 would need four.

| here | PTX | CUDA C++ |
|---|---|---|
| `load4(a, i)` | `ld.global.v4.f32` | `reinterpret_cast<const float4*>(a)[i / 4]` |
| `store4(a, i, v)` | `st.global.v4.f32` | the same on the left-hand side |

The address of a[i] must be a multiple of 16 bytes.
"""

from llvmlite import ir
from numba.cuda import cgutils, types
from numba.cuda.core.errors import NumbaTypeError

from grader.kit._asm import GLOBAL, emit, intrinsic, place

_FOUR = types.UniTuple(types.float32, 4)


@intrinsic
def load4(typing, a, i):
    """a[i], a[i + 1], a[i + 2], a[i + 3] of a float32 array in global memory, as a tuple."""
    _need_float32("load4", a)

    def codegen(context, builder, sig, args):
        address = place(context, builder, sig, args, 0, 1, GLOBAL)
        float32 = ir.FloatType()
        function = ir.FunctionType(ir.LiteralStructType([float32] * 4), [ir.IntType(64)])
        text = "ld.global.v4.f32 {$0, $1, $2, $3}, [$4];"
        got = builder.call(ir.InlineAsm(function, text, "=f,=f,=f,=f,l,~{memory}", side_effect=True), [address])
        return cgutils.pack_array(builder, [builder.extract_value(got, k) for k in range(4)])

    return _FOUR(a, i), codegen


@intrinsic
def store4(typing, a, i, v):
    """Write the four float32 of the tuple `v` to a[i], a[i + 1], a[i + 2], a[i + 3] in global memory."""
    _need_float32("store4", a)
    if v != _FOUR:
        raise NumbaTypeError(f"store4 writes a tuple of four float32; it was given {v}")

    def codegen(context, builder, sig, args):
        address = place(context, builder, sig, args, 0, 1, GLOBAL)
        values = cgutils.unpack_tuple(builder, args[2], 4)
        text = "st.global.v4.f32 [$0], {$1, $2, $3, $4};"
        emit(builder, text, [address, *values], [types.uint64, *[types.float32] * 4])
        return context.get_dummy_value()

    return types.void(a, i, v), codegen


def _need_float32(what: str, kind) -> None:
    if not (isinstance(kind, types.Array) and kind.dtype == types.float32):
        raise NumbaTypeError(f"{what} takes a float32 array and an index; it was given {kind}")
