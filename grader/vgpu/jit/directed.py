"""Arithmetic rounded up, down or toward zero, by the processor's own rounding mode.

LLVM keeps constrained operations between the two changes of the mode; ordinary ones it may move across. So each
operation is a function of its own, `void round_add_f64_rp(char *warp)`, with its operands and its result in the warp's
scratch area.
"""

from llvmlite import ir

from . import layout as L
from .values import F32, I32, I64, PTR, constant, elem, is_vec, vec

MODES = {"rz": (0, "round.towardzero"), "rp": (2, "round.upward"), "rm": (3, "round.downward")}
NEAREST = 1
RESULT = L.SCRATCH_VALUE + 3 * 256


def directed(lw, name: str, values: list, mode: str):
    """fadd, fmul, fdiv, fma or sqrt of f32 or f64 values, rounded once as `mode` (rz, rm or rp) says."""
    uniform = not any(is_vec(v) for v in values)
    t = elem(values[0])
    full = f"round_{name}_{'f32' if t == F32 else 'f64'}_{mode}"
    fn = lw.module.globals.get(full)
    if fn is None:
        fn = define(lw.module, full, name, t, len(values), mode)
    for k, v in enumerate(values):
        lw.b.store(lw.bx.splat(v), lw.address(L.SCRATCH_VALUE + 256 * k))
    lw.b.call(fn, [lw.warp])
    return lw.b.load(lw.address(RESULT), typ=t if uniform else vec(t))


def define(module, full, name, t, count, mode):
    fn = ir.Function(module, ir.FunctionType(ir.VoidType(), [PTR]), full)
    fn.linkage = "internal"
    fn.attributes.add("noinline")
    fn.attributes.add("nounwind")
    b = ir.IRBuilder(fn.append_basic_block("entry"))

    def at(offset):
        return b.gep(fn.args[0], [constant(I64, offset)], source_etype=ir.IntType(8))

    values = [b.load(at(L.SCRATCH_VALUE + 256 * k), typ=vec(t)) for k in range(count)]
    set_rounding = module.globals.get("llvm.set.rounding")
    if set_rounding is None:
        set_rounding = ir.Function(module, ir.FunctionType(ir.VoidType(), [I32]), "llvm.set.rounding")
    meta = ir.MetaDataType()
    operation = f"llvm.experimental.constrained.{name}.v{L.LANES}{'f32' if t == F32 else 'f64'}"
    compute = module.globals.get(operation)
    if compute is None:
        compute = ir.Function(module, ir.FunctionType(vec(t), [vec(t)] * count + [meta, meta]), operation)
    number, text = MODES[mode]
    b.call(set_rounding, [constant(I32, number)])
    words = [ir.MetaDataString(module, text), ir.MetaDataString(module, "fpexcept.ignore")]
    result = b.call(compute, [*values, *words])
    b.call(set_rounding, [constant(I32, NEAREST)])
    b.store(result, at(RESULT))
    b.ret_void()
    return fn
