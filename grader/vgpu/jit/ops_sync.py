"""Barriers, warp operations, fences, calls (PTX ISA: "Parallel Synchronization and Communication", "Miscellaneous")."""

from llvmlite import ir

from ..ptx.parse import Imm, PtxError, Reg, Special, Vec
from . import layout as L
from .ops_memory import put_addresses
from .state import GIVE_WAY
from .table import op
from .values import I1, I32, I64, Builder, constant, is_vec, kind_type, vec

LANE = ir.Constant(vec(I32), list(range(L.LANES)))


# ---------------------------------------------------------------- barriers of a block
@op("bar barrier", "u32 pred", "sync arrive red popc and or cta aligned")
def bar(lw, i):
    """Leaves the compiled code: the machine counts arrivals and lets the warps go on together.

    bar is aligned; barrier is not unless it says so. Either way all lanes of a warp must get here, and the machine
    reports those that do not.
    """
    bx, b = lw.bx, lw.b
    args = list(i.args)
    kind = L.BAR_ARRIVE if "arrive" in i.parts else L.BAR_SYNC
    if "red" in i.parts:
        kind = {"popc": L.BAR_POPC, "and": L.BAR_AND, "or": L.BAR_OR}[
            next(p for p in ("popc", "and", "or") if p in i.parts)
        ]
        args.pop(0)  # written by bar.result in the next block
        p = lw.src(args.pop(), "pred")
        bits = b.and_(bx.bitcast_mask(p), lw.mask)
        if kind == L.BAR_POPC:
            votes = bx.cast("trunc", bx.call("llvm.ctpop", bits), I32)
        elif kind == L.BAR_AND:
            votes = b.zext(b.icmp_unsigned("!=", bits, lw.mask), I32)  # lanes against
        else:
            votes = b.zext(b.icmp_unsigned("!=", bits, constant(I32, 0)), I32)
        lw.set_field(L.BAR_ACC, b.add(lw.field(L.BAR_ACC), votes))
    number = lw.first_lane(lw.src(args[0], "u32")) if args else constant(I32, 0)
    count = lw.first_lane(lw.src(args[1], "u32")) if len(args) > 1 else constant(I32, 0)
    site = lw.site(i)
    wait_at(lw, i, number, count, kind, site)


def wait_at(lw, i, number, count, kind, site):
    lw.call_machine("vg_barrier", ir.VoidType(), [number, count, constant(I32, kind), constant(I32, site)])
    block = lw.body.blocks[lw.index]
    lw.suspend(L.WAIT_BARRIER, block.succs[0])


@op("bar.result", "u32 pred")
def bar_result(lw, i):
    """First instruction after bar.red (put there by ptx/cfg.py): take what the machine counted."""
    value = lw.field(L.BAR_RESULT)
    if i.parts[-1] == "pred":
        value = lw.b.icmp_unsigned("!=", value, constant(I32, 0))
    lw.dst(i.args[0], lw.bx.splat(value))


# ---------------------------------------------------------------- warp operations
def need_lanes(lw, i, operand):
    """All live lanes that the member mask names must be here; else this group waits for them, in the dispatcher.

    Leaves the builder where they all are. The block starts with this instruction, so that it is run again. Lanes that
    come together with different masks are as many groups, which go on one after the other.
    """
    members = lw.src(operand, "b32")
    if is_vec(members):
        members = choose_group(lw, members, lw.site(i))
    b = lw.b
    if lw.guard is not None:  # a group that its guard rules out takes no part
        members = b.select(b.icmp_unsigned("==", lw.active(), constant(I32, 0)), constant(I32, 0), members)
    alive = lw.field(L.ALIVE)
    absent = b.and_(b.and_(members, alive), b.not_(lw.mask))
    wait = lw.fn.append_basic_block("wait_lanes")
    here = lw.fn.append_basic_block("all_here")
    b.cbranch(b.icmp_unsigned("!=", absent, constant(I32, 0)), wait, here)
    site = lw.site(i)
    lw.bx = Builder(ir.IRBuilder(wait), lw.module)
    lw.call_machine("vg_wait_lanes", ir.VoidType(), [lw.mask, constant(I32, lw.index), constant(I32, site)])
    lw.b.branch(lw.dispatch)
    lw.bx, lw._mask_vec = Builder(ir.IRBuilder(here), lw.module), None
    check_member(lw, members, site)


def check_member(lw, members, site):
    """A lane that takes part must be named in the mask that it passes."""
    b = lw.b
    active = lw.active()
    missing = b.and_(active, b.not_(members))
    bad = lw.fn.append_basic_block("not_named")
    good = lw.fn.append_basic_block("named")
    b.cbranch(b.icmp_unsigned("!=", missing, constant(I32, 0)), bad, good)
    lw.bx = Builder(ir.IRBuilder(bad), lw.module)
    lw.call_machine("vg_not_named", ir.VoidType(), [missing, constant(I32, site)])
    lw.b.branch(good)
    lw.bx = Builder(ir.IRBuilder(good), lw.module)
    lw._mask_vec = None


def choose_group(lw, members, site):
    """Run on with the lanes of one mask; the others are left at this block. -> the mask"""
    b = lw.b
    b.store(members, lw.address(L.SCRATCH_VALUE))
    chosen = lw.call_machine("vg_members", I32, [lw.active(), constant(I32, lw.index), constant(I32, site)])
    none, some = lw.fn.append_basic_block("no_group"), lw.fn.append_basic_block("group")
    b.cbranch(b.icmp_unsigned("==", chosen, constant(I32, 0)), none, some)
    lw.bx = Builder(ir.IRBuilder(none), lw.module)
    lw.b.branch(lw.dispatch)
    lw.bx, lw._mask_vec = Builder(ir.IRBuilder(some), lw.module), None
    lw.mask = lw.field(L.MASK)
    return chosen


@op("bar.warp barrier.warp", "", "sync")
def bar_warp(lw, i):
    if not (isinstance(i.args[0], Imm) and i.args[0].value & 0xFFFFFFFF == 0xFFFFFFFF):
        lw.uses_partial = True
    need_lanes(lw, i, i.args[0])
    lw.call_machine("vg_syncwarp", ir.VoidType(), [lw.active()])


def gather_lanes(lw, value, lanes):
    """value[lanes] for a vector of lane numbers, by way of scratch memory."""
    b = lw.b
    v = lw.bx.splat(value)
    b.store(v, lw.address(L.SCRATCH_VALUE))
    b.store(lanes, lw.address(L.SCRATCH_ADDRESS))
    lw.call_machine("vg_permute", ir.VoidType(), [])
    return b.load(lw.address(L.SCRATCH_VALUE + 256), typ=v.type)


@op("shfl.sync", "b32", "up down bfly idx")
def shfl(lw, i):
    """PTX ISA, shfl.sync: the segment mask and clamp are packed in operand c."""
    need_lanes(lw, i, i.args[4])
    bx = lw.bx
    dest, pred = i.args[0].items if isinstance(i.args[0], Vec) else (i.args[0], None)
    value = lw.src(i.args[1], "b32")
    b_, c = lw.src(i.args[2], "b32"), lw.src(i.args[3], "b32")
    mode = next(p for p in ("up", "down", "bfly", "idx") if p in i.parts)
    bval = bx.and_(b_, constant(I32, 31))
    cval = bx.and_(c, constant(I32, 31))
    segment = bx.and_(bx.lshr(c, constant(I32, 8)), constant(I32, 31))
    outside = bx.not_(segment)
    max_lane = bx.or_(bx.and_(LANE, segment), bx.and_(cval, outside))
    min_lane = bx.and_(LANE, segment)
    if mode == "up":
        j = bx.sub(LANE, bval)
        ok = bx.icmp(">=", j, max_lane, True)
    elif mode == "down":
        j = bx.add(LANE, bval)
        ok = bx.icmp("<=", j, max_lane, True)
    elif mode == "bfly":
        j = bx.xor(LANE, bval)
        ok = bx.icmp("<=", j, max_lane, True)
    else:
        j = bx.or_(min_lane, bx.and_(bval, bx.not_(segment)))
        ok = bx.icmp("<=", j, max_lane, True)
    j = bx.select(ok, j, LANE)
    lw.dst(dest, gather_lanes(lw, value, bx.splat(j)))
    if pred is not None:
        lw.dst(pred, ok)


@op("vote.sync", "pred b32", "all any uni ballot")
def vote(lw, i):
    need_lanes(lw, i, i.args[2])
    b = lw.b
    bits = b.and_(lw.bx.bitcast_mask(lw.src(i.args[1], "pred")), lw.active())
    mode = i.parts[2]
    active = lw.active()
    if mode == "ballot":
        return lw.dst(i.args[0], lw.bx.splat(bits))
    none, every = b.icmp_unsigned("==", bits, constant(I32, 0)), b.icmp_unsigned("==", bits, active)
    value = {"all": every, "any": b.not_(none), "uni": b.or_(none, every)}[mode]
    return lw.dst(i.args[0], lw.bx.splat(value))


@op("match.any.sync match.all.sync", "b32 b64")
def match(lw, i):
    need_lanes(lw, i, i.args[2])
    b = lw.b
    every = "all" in i.parts
    v = lw.bx.cast("zext", lw.bx.splat(lw.src(i.args[1], i.parts[-1])), I64)
    b.store(v, lw.address(L.SCRATCH_VALUE))
    lw.call_machine("vg_match", ir.VoidType(), [lw.active(), constant(I32, int(every))])
    found = b.load(lw.address(L.SCRATCH_VALUE + 256), typ=vec(I32))
    dest, pred = i.args[0].items if isinstance(i.args[0], Vec) else (i.args[0], None)
    lw.dst(dest, found)
    if pred is not None:
        lw.dst(pred, lw.bx.icmp("!=", found, constant(I32, 0)))


REDUX = {"add": 0, "min": 1, "max": 2, "and": 3, "or": 4, "xor": 5}


@op("redux.sync", "s32 u32 b32", "add min max and or xor")
def redux(lw, i):
    need_lanes(lw, i, i.args[2])
    b = lw.b
    b.store(lw.bx.splat(lw.src(i.args[1], "b32")), lw.address(L.SCRATCH_VALUE))
    code = REDUX[i.parts[2]] * 2 + (i.parts[-1] == "s32")
    lw.dst(i.args[0], lw.bx.splat(lw.call_machine("vg_redux", I32, [lw.active(), constant(I32, code)])))


@op("elect.sync")
def elect(lw, i):
    need_lanes(lw, i, i.args[1])
    lane = lw.bx.intrinsic("llvm.cttz", I32, [lw.active(), constant(I1, 0)], [I32])
    dest, pred = i.args[0].items
    lw.dst(dest, lw.bx.splat(lane))
    lw.dst(pred, lw.bx.icmp("==", LANE, lane))


@op("activemask", "b32")
def activemask(lw, i):
    lw.dst(i.args[0], lw.bx.splat(lw.active()))


# ---------------------------------------------------------------- fences, time
@op(
    "membar fence",
    "",
    "cta gl sys gpu cluster sc acq_rel acquire release proxy proxy.async async global shared::cta shared::cluster alias generic mbarrier_init tensormap",
)
def fence(lw, i):
    """Memory is sequentially consistent here; the fence matters to the race detector and to asynchronous copies."""
    scope = 0 if "cta" in i.parts or "shared::cta" in i.parts else 1
    proxy = int("proxy" in i.parts or "async" in i.parts)
    lw.call_machine("vg_fence", ir.VoidType(), [lw.active(), constant(I32, scope), constant(I32, proxy)])


@op("nanosleep", "u32")
def nanosleep(lw, i):
    """Gives way to other warps at the next backward branch."""
    lw.set_field(L.BUDGET, constant(I32, GIVE_WAY))


# ---------------------------------------------------------------- mbarrier
MBAR_MODS = "shared shared::cta shared::cluster noComplete expect_tx relaxed acquire release cta cluster parity"


def mbarrier(lw, i, code, address, count, result):
    """One call of the machine for each mbarrier operation; see machine/copies.py."""
    lw.uses_mbarrier = True
    put_addresses(lw, address)
    lw.b.store(
        lw.bx.cast("zext", lw.bx.splat(count), I64) if count is not None else ir.Constant(vec(I64), [1] * 32),
        lw.address(L.SCRATCH_VALUE),
    )
    site = lw.site(i, 8, L.SPACE_SHARED, L.ATOMIC)
    lw.call_machine("vg_mbarrier", ir.VoidType(), [lw.active(), constant(I32, site), constant(I32, code)])
    if result is not None and not (isinstance(result, Special) and result.name == "_"):
        value = lw.b.load(lw.address(L.SCRATCH_VALUE + 256), typ=vec(I64))
        if isinstance(result, Reg) and result.kind == "pred":
            value = lw.bx.icmp("!=", value, constant(I64, 0))
        lw.dst(result, value)


(
    MB_INIT,
    MB_INVAL,
    MB_ARRIVE,
    MB_ARRIVE_DROP,
    MB_TEST,
    MB_TEST_PARITY,
    MB_EXPECT,
    MB_ARRIVE_EXPECT,
    MB_PENDING,
    MB_COMPLETE,
) = range(10)


@op("mbarrier.init", "b64", MBAR_MODS)
def mbarrier_init(lw, i):
    mbarrier(lw, i, MB_INIT, i.args[0], lw.src(i.args[1], "u32"), None)


@op("mbarrier.inval", "b64", MBAR_MODS)
def mbarrier_inval(lw, i):
    mbarrier(lw, i, MB_INVAL, i.args[0], None, None)


@op("mbarrier.expect_tx", "b64", MBAR_MODS)
def mbarrier_expect_tx(lw, i):
    mbarrier(lw, i, MB_EXPECT, i.args[0], lw.src(i.args[1], "u32"), None)


@op("mbarrier.complete_tx", "b64", MBAR_MODS)
def mbarrier_complete_tx(lw, i):
    mbarrier(lw, i, MB_COMPLETE, i.args[0], lw.src(i.args[1], "u32"), None)


@op("mbarrier.arrive mbarrier.arrive_drop", "b64", MBAR_MODS)
def mbarrier_arrive(lw, i):
    from ..ptx.parse import Mem

    args = list(i.args)
    result = None if isinstance(args[0], Mem) else args.pop(0)
    drop = i.parts[1] == "arrive_drop"
    if "expect_tx" in i.parts:
        if drop:
            raise PtxError(f"line {i.line}: {i.op} is not supported by the virtual GPU")
        return mbarrier(lw, i, MB_ARRIVE_EXPECT, args[0], lw.src(args[1], "u32"), result)
    count = lw.src(args[1], "u32") if len(args) > 1 else None
    return mbarrier(lw, i, MB_ARRIVE_DROP if drop else MB_ARRIVE, args[0], count, result)


@op("mbarrier.test_wait mbarrier.try_wait", "b64", MBAR_MODS)
def mbarrier_wait(lw, i):
    bx = lw.bx
    parity = "parity" in i.parts
    state = lw.src(i.args[2], "u32" if parity else "b64")
    if not parity:
        lw.uses_mbarrier = True
        put_addresses(lw, i.args[1])
        lw.b.store(bx.splat(state), lw.address(L.SCRATCH_VALUE))
        site = lw.site(i, 8, L.SPACE_SHARED, L.ATOMIC)
        lw.call_machine("vg_mbarrier", ir.VoidType(), [lw.active(), constant(I32, site), constant(I32, MB_TEST)])
        value = lw.b.load(lw.address(L.SCRATCH_VALUE + 256), typ=vec(I64))
        return lw.dst(i.args[0], bx.icmp("!=", value, constant(I64, 0)))
    return mbarrier(lw, i, MB_TEST_PARITY, i.args[1], state, i.args[0])


@op("mbarrier.pending_count", "b64")
def mbarrier_pending_count(lw, i):
    state = lw.src(i.args[1], "b64")
    lw.dst(i.args[0], lw.bx.cast("trunc", lw.bx.and_(state, constant(I64, 0xFFFFF)), I32))


# ---------------------------------------------------------------- clusters: each block is a cluster of one
@op("barrier.cluster.arrive", "", "aligned release relaxed acquire")
def cluster_arrive(lw, i):
    lw.call_machine("vg_fence", ir.VoidType(), [lw.active(), constant(I32, 0), constant(I32, 0)])
    leave_block(lw)


@op("barrier.cluster.wait", "", "aligned acquire")
def cluster_wait(lw, i):
    """In a cluster of one block, the cluster's barrier is the block's."""
    wait_at(lw, i, constant(I32, 0), constant(I32, 0), L.BAR_SYNC, lw.site(i))


def leave_block(lw):
    block = lw.body.blocks[lw.index]
    lw.spill(block)
    lw.goto(block.succs[0])


# ---------------------------------------------------------------- leaving and calling
@op("trap brkpt")
def trap(lw, i):
    lw.call_machine("vg_trap", ir.VoidType(), [lw.active(), constant(I32, lw.site(i)), constant(I32, L.FAULT_TRAP)])
    lw.spill(lw.body.blocks[lw.index])
    lw.lower_exit(lw.body.blocks[lw.index])


@op("call", "", "uni")
def call(lw, i):
    label, returns, args = i.args
    site = constant(I32, lw.site(i))
    if label.name == "vprintf":
        put_addresses(lw, args[1], L.SCRATCH_VALUE)
        put_addresses(lw, args[0])
        lw.call_machine("vg_printf", ir.VoidType(), [lw.active(), site])
        lw.dst(returns[0], constant(I32, 0))
    elif label.name in ("__assertfail", "__assert_fail"):
        lw.call_machine("vg_trap", ir.VoidType(), [lw.active(), site, constant(I32, L.FAULT_ASSERT)])
    elif label.name == "malloc":
        lw.uses_atomics = True
        put_addresses(lw, args[0])
        lw.call_machine("vg_malloc", ir.VoidType(), [lw.active()])
        lw.dst(returns[0], lw.b.load(lw.address(L.SCRATCH_VALUE), typ=vec(I64)))
    elif label.name == "free":
        lw.uses_atomics = True
        put_addresses(lw, args[0])
        lw.call_machine("vg_free", ir.VoidType(), [lw.active(), site])
    elif label.name == "cudaCGGetIntrinsicHandle":
        lw.dst(returns[0], constant(kind_type(returns[0].kind), 1))
    elif label.name == "cudaCGSynchronize":
        lw.uses_grid = True
        lw.dst(returns[0], constant(kind_type(returns[0].kind), 0))
        wait_at(lw, i, constant(I32, 0), constant(I32, 0), L.BAR_GRID, lw.site(i))
    else:
        raise PtxError(f"line {i.line}: {label.name} is not supported by the virtual GPU")
