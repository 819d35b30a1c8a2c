"""Device functions made of inline PTX: how the other modules of the kit define theirs."""

from llvmlite import ir
from numba.cuda import cgutils, types
from numba.cuda.api_util import normalize_indices
from numba.cuda.core.errors import NumbaTypeError, RequireLiteralValue
from numba.cuda.extending import _intrinsic

LLVM = {
    types.int32: ir.IntType(32),
    types.uint32: ir.IntType(32),
    types.uint64: ir.IntType(64),
    types.float32: ir.FloatType(),
    types.float64: ir.DoubleType(),
    types.boolean: ir.IntType(1),
}
CONSTRAINT = {types.int32: "r", types.uint32: "r", types.uint64: "l", types.float32: "f", types.float64: "d"}
SHARED, GLOBAL = 3, 1

intrinsic = _intrinsic(target="cuda")
intrinsic_of_constants = _intrinsic(target="cuda", prefer_literal=True)


def place(context, builder, sig, args, array: int, index: int, space: int):
    """Address of an argument `array` at an argument `index`, as PTX takes it: 32 bits in shared memory, else 64."""
    kind = sig.args[array]
    _, indices = normalize_indices(context, builder, sig.args[index], args[index], kind, kind.dtype)
    view = context.make_array(kind)(context, builder, value=args[array])
    pointer = cgutils.get_item_pointer(context, builder, kind, view, indices, wraparound=False)
    byte = ir.IntType(8).as_pointer()
    there = builder.addrspacecast(builder.bitcast(pointer, byte), ir.PointerType(ir.IntType(8), addrspace=space))
    return builder.ptrtoint(there, ir.IntType(32 if space == SHARED else 64))


def need_array(what: str, kind, nbytes: int = 0) -> None:
    """A typing error with a sentence, unless `kind` is an array of which some whole elements fill `nbytes`."""
    if not isinstance(kind, types.Array):
        raise NumbaTypeError(f"{what} takes arrays, each followed by an index; it was given {kind}")
    width = kind.dtype.bitwidth // 8
    if nbytes and nbytes % width:
        raise NumbaTypeError(f"{what} moves {nbytes} bytes, which is no whole number of elements of {kind}")


def constant(what: str, kind, choices=None) -> int:
    """The value of an argument that must be known when the kernel is compiled."""
    if not isinstance(kind, types.IntegerLiteral):
        raise RequireLiteralValue(f"{what} must be a constant")
    if choices is not None and kind.literal_value not in choices:
        raise NumbaTypeError(f"{what} must be one of {', '.join(map(str, choices))}, not {kind.literal_value}")
    return kind.literal_value


def emit(builder, text: str, args: list, kinds: list, result=None):
    """Inline PTX with `$n` operands; it may touch memory, and is neither moved nor dropped."""
    outputs = ["=" + CONSTRAINT[result]] if result else []
    constraints = ",".join([*outputs, *(CONSTRAINT[k] for k in kinds), "~{memory}"])
    function = ir.FunctionType(LLVM[result] if result else ir.VoidType(), [LLVM[k] for k in kinds])
    return builder.call(ir.InlineAsm(function, text, constraints, side_effect=True), args)


def as_int(context, builder, value, kind, to=types.uint32):
    """A Python-side integer argument as the type that PTX wants."""
    return context.cast(builder, value, kind, to)
