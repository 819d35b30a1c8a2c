"""PTX instructions that numba-cuda has no name for, as device functions.

Addresses in shared memory are 32-bit offsets (`shared(array, index)`), those in global memory 64-bit (`address(array, index)`).
"""

from llvmlite import ir
from numba.cuda import cgutils, types
from numba.cuda.api_util import normalize_indices
from numba.cuda.extending import intrinsic

u32, u64, f32 = types.uint32, types.uint64, types.float32
LLVM = {u32: ir.IntType(32), u64: ir.IntType(64), f32: ir.FloatType(), types.void: ir.VoidType()}
LETTER = {u32: "r", u64: "l", f32: "f"}


def instruction(text, returns, *takes):
    """A device function that is this line of PTX: $0 is the result, if there is one, then come the arguments."""
    constraints = ["=" + LETTER[returns]] if returns != types.void else []
    constraints = ",".join([*constraints, *(LETTER[t] for t in takes), "~{memory}"])

    def build(context, builder, signature, args):
        kind = ir.FunctionType(LLVM[returns], [LLVM[t] for t in takes])
        result = builder.call(ir.InlineAsm(kind, text, constraints, side_effect=True), list(args))
        return result if returns != types.void else context.get_dummy_value()

    if len(takes) == 0:
        return intrinsic(lambda typing: (returns(), build))
    if len(takes) == 1:
        return intrinsic(lambda typing, a: (returns(*takes), build))
    if len(takes) == 2:
        return intrinsic(lambda typing, a, b: (returns(*takes), build))
    if len(takes) == 3:
        return intrinsic(lambda typing, a, b, c: (returns(*takes), build))
    if len(takes) == 4:
        return intrinsic(lambda typing, a, b, c, d: (returns(*takes), build))
    return intrinsic(lambda typing, a, b, c, d, e: (returns(*takes), build))


def pointer(context, builder, array, given, index_type, index):
    index_type, indices = normalize_indices(context, builder, index_type, index, array, array.dtype)
    view = context.make_array(array)(context, builder, value=given)
    return cgutils.get_item_pointer(context, builder, array, view, indices, wraparound=False)


@intrinsic
def shared(typing, array, index):
    """Offset of array[index] in shared memory."""

    def build(context, builder, signature, args):
        p = pointer(context, builder, signature.args[0], args[0], signature.args[1], args[1])
        p = builder.bitcast(p, ir.IntType(8).as_pointer())
        return builder.ptrtoint(builder.addrspacecast(p, ir.PointerType(ir.IntType(8), addrspace=3)), ir.IntType(32))

    return u32(array, index), build


@intrinsic
def address(typing, array, index):
    """Address of array[index] in global memory."""

    def build(context, builder, signature, args):
        p = pointer(context, builder, signature.args[0], args[0], signature.args[1], args[1])
        p = builder.bitcast(p, ir.IntType(8).as_pointer())
        return builder.ptrtoint(builder.addrspacecast(p, ir.PointerType(ir.IntType(8), addrspace=1)), ir.IntType(64))

    return u64(array, index), build


void = types.void
copy4 = instruction("cp.async.ca.shared.global [$0], [$1], 4;", void, u32, u64)
copy4_part = instruction("cp.async.ca.shared.global [$0], [$1], 4, $2;", void, u32, u64, u32)
copy16 = instruction("cp.async.cg.shared.global [$0], [$1], 16;", void, u32, u64)
commit = instruction("cp.async.commit_group;", void)
wait_all = instruction("cp.async.wait_all;", void)
wait_0 = instruction("cp.async.wait_group 0;", void)
wait_1 = instruction("cp.async.wait_group 1;", void)
wait_2 = instruction("cp.async.wait_group 2;", void)

mbar_init = instruction("mbarrier.init.shared.b64 [$0], $1;", void, u32, u32)
mbar_inval = instruction("mbarrier.inval.shared.b64 [$0];", void, u32)
mbar_arrive = instruction("mbarrier.arrive.shared.b64 $0, [$1];", u64, u32)
mbar_test = instruction("{ .reg .pred p; mbarrier.test_wait.shared.b64 p, [$1], $2; selp.u32 $0, 1, 0, p; }", u32, u32, u64)
mbar_test_parity = instruction(
    "{ .reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [$1], $2; selp.u32 $0, 1, 0, p; }", u32, u32, u32
)
mbar_arrive_after_copies = instruction("cp.async.mbarrier.arrive.noinc.shared.b64 [$0];", void, u32)

bar_sync = instruction("bar.sync $0, $1;", void, u32, u32)
bar_arrive = instruction("bar.arrive $0, $1;", void, u32, u32)

load_volatile = instruction("ld.volatile.global.u32 $0, [$1];", u32, u64)
store_volatile = instruction("st.volatile.global.u32 [$0], $1;", void, u64, u32)
load_acquire = instruction("ld.acquire.gpu.global.u32 $0, [$1];", u32, u64)
store_release = instruction("st.release.gpu.global.u32 [$0], $1;", void, u64, u32)
load4 = instruction("{ .reg .f32 b, c, d; ld.global.v4.f32 {$0, b, c, d}, [$1]; }", f32, u64)
store4 = instruction("st.global.v4.f32 [$0], {$1, $2, $3, $4};", void, u64, f32, f32, f32, f32)
load2_shared = instruction("{ .reg .f32 b; ld.shared.v2.f32 {$0, b}, [$1]; }", f32, u32)
shuffle_down = instruction("shfl.sync.down.b32 $0, $1, $2, 31, $3;", u32, u32, u32, u32)
vote_ballot = instruction("{ .reg .pred p; setp.ne.u32 p, $1, 0; vote.sync.ballot.b32 $0, p, $2; }", u32, u32, u32)
