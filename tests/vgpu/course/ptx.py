"""Device functions that numba-cuda does not have, each of them one PTX instruction."""

from __future__ import annotations

import inspect

from llvmlite import ir
from numba.cuda import cgutils, types
from numba.cuda.api_util import normalize_indices
from numba.cuda.extending import intrinsic
from numba.cuda.types import float32, uint32, uint64

_LLVM = {uint32: ir.IntType(32), uint64: ir.IntType(64), float32: ir.FloatType()}
_CONSTRAINT = {uint32: "r", uint64: "l", float32: "f"}


def asm(text: str, result, *arguments):
    """An intrinsic of these types from PTX text with $0, $1, ...: the result first if there is one."""

    def define(typingctx, *given):
        def generate(context, builder, signature, values):
            outs = [] if result is None else ["=" + _CONSTRAINT[result]]
            constraints = ",".join(outs + [_CONSTRAINT[a] for a in arguments] + ["~{memory}"])
            kind = ir.FunctionType(_LLVM.get(result, ir.VoidType()), [_LLVM[a] for a in arguments])
            value = builder.call(ir.InlineAsm(kind, text, constraints, side_effect=True), list(values))
            return context.get_dummy_value() if result is None else value

        return (types.void if result is None else result)(*arguments), generate

    positional = inspect.Parameter.POSITIONAL_OR_KEYWORD
    names = ["typingctx", *(f"a{k}" for k in range(len(arguments)))]
    define.__signature__ = inspect.Signature([inspect.Parameter(name, positional) for name in names])
    return intrinsic(define)


def _address(space: int, result):
    """An intrinsic for the address of array[index] in a state space."""

    @intrinsic
    def address(typingctx, array, index):
        def generate(context, builder, signature, values):
            kind, index_kind = signature.args
            index_kind, indices = normalize_indices(context, builder, index_kind, values[1], kind, kind.dtype)
            struct = context.make_array(kind)(context, builder, value=values[0])
            place = cgutils.get_item_pointer(context, builder, kind, struct, indices, wraparound=False)
            place = builder.bitcast(place, ir.IntType(8).as_pointer())
            place = builder.addrspacecast(place, ir.PointerType(ir.IntType(8), addrspace=space))
            return builder.ptrtoint(place, _LLVM[result])

        return result(array, index), generate

    return address


shared_address = _address(3, uint32)
global_address = _address(1, uint64)

copy_4 = asm("cp.async.ca.shared.global [$0], [$1], 4;", None, uint32, uint64)
copy_4_of = asm("cp.async.ca.shared.global [$0], [$1], 4, $2;", None, uint32, uint64, uint32)
copy_16 = asm("cp.async.cg.shared.global [$0], [$1], 16;", None, uint32, uint64)
commit = asm("cp.async.commit_group;", None)
wait_1 = asm("cp.async.wait_group 1;", None)
wait_2 = asm("cp.async.wait_group 2;", None)

mbarrier_init = asm("mbarrier.init.shared.b64 [$0], $1;", None, uint32, uint32)
mbarrier_arrive = asm("mbarrier.arrive.shared.b64 $0, [$1];", uint64, uint32)
mbarrier_expect = asm("mbarrier.arrive.expect_tx.shared::cta.b64 $0, [$1], $2;", uint64, uint32, uint32)
mbarrier_done = asm(
    "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [$1], $2; selp.u32 $0, 1, 0, p; }",
    uint32,
    uint32,
    uint32,
)
fence_mbarrier_init = asm("fence.mbarrier_init.release.cluster;", None)
fence_async = asm("fence.proxy.async.shared::cta;", None)
bulk_load = asm(
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [$0], [$1], $2, [$3];",
    None, uint32, uint64, uint32, uint32,
)  # fmt: skip
bulk_store = asm("cp.async.bulk.global.shared::cta.bulk_group [$0], [$1], $2;", None, uint64, uint32, uint32)
bulk_commit = asm("cp.async.bulk.commit_group;", None)
bulk_wait_read = asm("cp.async.bulk.wait_group.read 0;", None)

barrier_sync = asm("bar.sync $0, $1;", None, uint32, uint32)
barrier_arrive = asm("bar.arrive $0, $1;", None, uint32, uint32)
cluster_rank = asm("mov.u32 $0, %cluster_ctarank;", uint32)
cluster_size = asm("mov.u32 $0, %cluster_nctarank;", uint32)
cluster_arrive = asm("barrier.cluster.arrive.aligned;", None)
cluster_wait = asm("barrier.cluster.wait.aligned;", None)
map_rank = asm("mapa.shared::cluster.u32 $0, $1, $2;", uint32, uint32, uint32)
load_cluster = asm("ld.shared::cluster.f32 $0, [$1];", float32, uint32)

clock = asm("mov.u64 $0, %clock64;", uint64)
global_timer = asm("mov.u64 $0, %globaltimer;", uint64)
sm = asm("mov.u32 $0, %smid;", uint32)
store_4 = asm("st.global.v4.f32 [$0], {$1, $2, $3, $4};", None, uint64, float32, float32, float32, float32)


@intrinsic
def load_4(typingctx, address):
    """Four float32 at a global address, in one load."""

    def generate(context, builder, signature, values):
        four = ir.FunctionType(ir.LiteralStructType([ir.FloatType()] * 4), [ir.IntType(64)])
        text = "ld.global.v4.f32 {$0, $1, $2, $3}, [$4];"
        loaded = builder.call(ir.InlineAsm(four, text, "=f,=f,=f,=f,l", side_effect=True), list(values))
        return cgutils.pack_array(builder, [builder.extract_value(loaded, k) for k in range(4)])

    return types.UniTuple(float32, 4)(uint64), generate
