"""Barriers of a block, asynchronous copies, mbarriers, bulk copies, fences."""

import numpy as np
import pytest
from harness import run_text

RNG = np.random.default_rng(5)


def run(body, words, *, data=None, block=32, grid=1, decls="", shared=0, findings=()):
    """-> out as uint32, after a launch without a fault."""
    data = np.arange(block, dtype=np.uint32) if data is None else data
    out, result = run_text(
        body, inputs=np.asarray(data).tobytes(), out_bytes=4 * words, block=block, grid=grid, decls=decls, shared=shared
    )
    assert result.fault is None, result.fault
    assert [f.tool for f in result.findings] == list(findings), result.findings
    return np.frombuffer(out, np.uint32)


PLACES = "mad.wide.u32 %d1, %tid, 4, %in; mad.wide.u32 %d2, %tid, 4, %out; ld.global.u32 %r1, [%d1];\n"
AREA = ".shared .align 16 .b8 area[4096]; .shared .align 8 .b64 bar;"


@pytest.mark.parametrize(
    "barrier",
    [
        "bar.sync 0;",
        "barrier.sync.aligned 3;",
        "bar.cta.sync 0;",
        "barrier.cta.sync.aligned 1;",
        "bar.sync %r20, %r21;",
        "bar.sync 2, 96;",
    ],
)
def test_what_was_written_before_a_barrier_is_read_after_it(barrier):
    body = (
        PLACES
        + "mov.u32 %r20, 5; mov.u32 %r21, %ntid.x; mov.u32 %r3, area; mad.lo.u32 %r4, %tid, 4, %r3; st.shared.u32 [%r4], %r1;\n"
    )
    body += f"{barrier}\nsub.u32 %r5, 95, %tid; mad.lo.u32 %r5, %r5, 4, %r3; ld.shared.u32 %r6, [%r5]; st.global.u32 [%d2], %r6;"
    data = RNG.integers(0, 1 << 32, 96, np.uint32)
    assert (run(body, 96, data=data, block=96, decls=AREA) == data[::-1]).all()


@pytest.mark.parametrize("threads", [32, 50, 96])
def test_reductions_at_a_barrier(threads):
    """Only threads that are there count; all of them get the result."""
    body = (
        PLACES
        + "setp.ne.u32 %p1, %r1, 0;\nbar.red.popc.u32 %r2, 0, %p1; barrier.cta.red.popc.aligned.u32 %r3, 1, !%p1;\n"
    )
    body += "bar.red.and.pred %p2, 0, %p1; bar.red.or.pred %p3, 0, %p1; setp.ge.u32 %p4, %tid, 0; bar.cta.red.and.pred %p5, 2, %p4;\n"
    body += "bar.red.or.pred %p6, 0, !%p4; bar.red.and.pred %p7, 0, %p4;\n"
    body += "".join(f"selp.b32 %r{3 + k}, 1, 0, %p{k};\n" for k in (2, 3, 5, 6, 7))
    body += "mad.wide.u32 %d2, %tid, 32, %out;\n" + "".join(
        f"st.global.u32 [%d2+{4 * k}], %r{r};\n" for k, r in enumerate((2, 3, 5, 6, 8, 9, 10))
    )
    data = (np.arange(threads) % 3 == 0).astype(np.uint32)
    body = body.replace("barrier.cta.red.popc.aligned.u32 %r3", "barrier.cta.red.popc.aligned.u32 %r3")
    got = run(body, 8 * threads, data=data, block=threads).reshape(threads, 8)
    yes = int(data.sum())
    assert (got[:, :7] == [yes, threads - yes, 0, 1, 1, 0, 1]).all()


def test_warps_that_have_left_are_not_waited_for():
    body = (
        PLACES
        + "setp.ge.u32 %p1, %tid, 64; @%p1 exit; setp.eq.u32 %p2, 0, 0; bar.red.popc.u32 %r2, 0, %p2; st.global.u32 [%d2], %r2;"
    )
    body = body.replace("setp.eq.u32 %p2, 0, 0;", "setp.ge.u32 %p2, %tid, 0;")
    got = run(body, 96, block=96)
    assert (got[:64] == 64).all() and (got[64:] == 0).all()


def test_producers_arrive_and_consumers_wait():
    """bar.arrive does not wait: warp 0 fills a box for warp 1, which waits at the same barrier."""
    body = (
        PLACES
        + "mov.u32 %r3, area; and.b32 %r5, %tid, 31; mad.lo.u32 %r4, %r5, 4, %r3; setp.ge.u32 %p1, %tid, 32; @%p1 bra $TAKE;\n"
    )
    body += "st.shared.u32 [%r4], %r1; bar.arrive 4, 64; bra $END;\n$TAKE:\nbar.sync 4, 64; ld.shared.u32 %r6, [%r4]; st.global.u32 [%d2], %r6;\n$END:"
    data = RNG.integers(0, 1 << 32, 64, np.uint32)
    assert (run(body, 64, data=data, block=64, decls=AREA)[32:] == data[:32]).all()


# ---------------------------------------------------------------- cp.async
COPY = "mov.u32 %r3, area; mad.lo.u32 %r4, %tid, 16, %r3; mad.wide.u32 %d3, %tid, 16, %in; mad.wide.u32 %d4, %tid, 16, %out;\n"
GIVE = "ld.shared.v4.u32 {%r10, %r11, %r12, %r13}, [%r4]; st.global.v4.u32 [%d4], {%r10, %r11, %r12, %r13};\n"
CLEAR = "mov.b32 %r9, 0xffffffff; st.shared.v4.u32 [%r4], {%r9, %r9, %r9, %r9};\n"


@pytest.mark.parametrize(
    ("copy", "taken", "written"),
    [
        ("cp.async.ca.shared.global [%r4], [%d3], 4;", 4, 4),
        ("cp.async.ca.shared.global [%r4], [%d3], 8;", 8, 8),
        ("cp.async.ca.shared.global [%r4], [%d3], 16;", 16, 16),
        ("cp.async.cg.shared.global [%r4], [%d3], 16;", 16, 16),
        ("cp.async.cg.shared::cta.global.L2::128B [%r4], [%d3], 16;", 16, 16),
        ("cp.async.ca.shared.global [%r4], [%d3], 16, 5;", 5, 16),
        ("cp.async.ca.shared.global [%r4], [%d3], 16, 0;", 0, 16),
        ("cp.async.ca.shared.global [%r4], [%d3], 8, %r20;", 4, 8),
        ("cp.async.ca.shared.global [%r4], [%d3], 16, %p1;", 0, 16),
        ("cp.async.ca.shared.global [%r4], [%d3], 4, %p2;", 4, 4),
    ],
)
@pytest.mark.parametrize("wait", ["cp.async.wait_all;", "cp.async.commit_group; cp.async.wait_group 0;"])
def test_asynchronous_copies_take_and_zero_fill(copy, taken, written, wait):
    body = (
        COPY + CLEAR + f"mov.u32 %r20, 4; setp.ge.u32 %p1, %tid, 0; setp.lt.u32 %p2, %tid, 0;\n{copy}\n{wait}\n" + GIVE
    )
    data = RNG.integers(0, 256, 512, np.uint8)
    got = run(body, 128, data=data, decls=AREA).view(np.uint8).reshape(32, 16)
    want = np.full((32, 16), 255, np.uint8)
    want[:, :written] = 0
    want[:, :taken] = data.reshape(32, 16)[:, :taken]
    assert (got == want).all()


def test_wait_group_leaves_the_newest_pending():
    """Three groups, one of them empty: after wait_group 1 the last is not there yet, and a read of it is reported."""
    body = "mov.u32 %r3, area; mad.lo.u32 %r4, %tid, 16, %r3; mad.wide.u32 %d3, %tid, 16, %in; mad.wide.u32 %d4, %tid, 16, %out;\n"
    body += "cp.async.ca.shared.global [%r4], [%d3], 4; cp.async.commit_group; cp.async.commit_group;\n"
    body += "cp.async.ca.shared.global [%r4+4], [%d3+4], 4; cp.async.commit_group; cp.async.wait_group 1;\n"
    body += "ld.shared.u32 %r10, [%r4]; st.global.u32 [%d4], %r10; cp.async.wait_group 0; ld.shared.u32 %r11, [%r4+4]; st.global.u32 [%d4+4], %r11;"
    data = RNG.integers(0, 1 << 32, 128, np.uint32)
    got = run(body, 128, data=data, decls=AREA).reshape(32, 4)
    assert (got[:, :2] == data.reshape(32, 4)[:, :2]).all()
    early = body.replace("wait_group 0; ld", "commit_group; ld")
    assert run(early, 128, data=data, decls=AREA, findings=["racecheck"]) is not None


def test_copies_of_another_thread_need_a_barrier():
    body = (
        COPY
        + "cp.async.cg.shared.global [%r4], [%d3], 16; cp.async.wait_all; bar.sync 0; xor.b32 %r5, %tid, 33; mad.lo.u32 %r4, %r5, 16, %r3;\n"
    )
    data = RNG.integers(0, 1 << 32, 256, np.uint32)
    got = run(body + GIVE, 256, data=data, block=64, decls=AREA).reshape(64, 4)
    assert (got == data.reshape(64, 4)[np.arange(64) ^ 33]).all()


# ---------------------------------------------------------------- mbarrier
INIT = "mov.u32 %r7, bar; setp.ne.u32 %p10, %tid, 0; @%p10 bra $READY; mbarrier.init.shared.b64 [%r7], {n};\n$READY:\nbar.sync 0;\n"
SPIN = "$WAIT{k}: mbarrier.{wait} %p11, [%r7], {token}; @!%p11 bra $WAIT{k};\n"


@pytest.mark.parametrize("wait", ["test_wait.shared.b64", "try_wait.shared::cta.b64"])
def test_arrivals_complete_a_phase(wait):
    """All arrive, wait for their token's phase, and read what the others wrote; twice, with the state kept in between."""
    body = (
        PLACES
        + INIT.format(n=96)
        + "mov.u32 %r3, area; mad.lo.u32 %r4, %tid, 4, %r3; sub.u32 %r5, 95, %tid; mad.lo.u32 %r5, %r5, 4, %r3;\n"
    )
    for k in range(2):
        body += f"add.u32 %r1, %r1, {k}; st.shared.u32 [%r4], %r1; mbarrier.arrive.shared.b64 %d5, [%r7];\n"
        body += (
            SPIN.format(k=k, wait=wait, token="%d5")
            + f"ld.shared.u32 %r6, [%r5]; st.global.u32 [%d2+{384 * k}], %r6; bar.sync 0;\n"
        )
    got = run(body, 192, data=np.arange(96, dtype=np.uint32), block=96, decls=AREA).reshape(2, 96)
    assert (got == [np.arange(96)[::-1], np.arange(96)[::-1] + 1]).all()


def test_phases_by_parity_counts_and_drops():
    body = "mov.u32 %r7, bar; mbarrier.init.shared.b64 [%r7], 3; mbarrier.arrive.shared.b64 %d1, [%r7];\n"
    checks = []

    def ask(parity, want):
        nonlocal body
        n = len(checks)
        body += f"mbarrier.test_wait.parity.shared.b64 %p1, [%r7], {parity}; selp.b32 %r1, 1, 0, %p1; st.global.u32 [%out+{4 * n}], %r1;\n"
        checks.append(want)

    def state(want):
        nonlocal body
        n = len(checks)
        body += f"mbarrier.pending_count.b64 %r1, %d1; st.global.u32 [%out+{4 * n}], %r1;\n"
        checks.append(want)

    state(3)
    ask(1, 1), ask(0, 0)
    body += "mbarrier.arrive.shared.b64 %d1, [%r7], 2;\n"  # the phase is over
    state(2)
    ask(0, 1), ask(1, 0)
    body += "mbarrier.arrive_drop.shared.b64 %d1, [%r7]; mbarrier.arrive.shared.b64 _, [%r7], 2;\n"  # 3 in this one, 2 in the next
    ask(1, 1), ask(0, 0)
    body += "mbarrier.arrive.release.cta.shared::cta.b64 %d1, [%r7]; mbarrier.arrive.shared.b64 %d2, [%r7];\n"
    state(2)
    ask(0, 1)
    body += (
        "mbarrier.inval.shared.b64 [%r7]; mbarrier.init.shared.b64 [%r7], 1; mbarrier.arrive.shared.b64 %d1, [%r7];\n"
    )
    ask(0, 1)
    assert run(body, len(checks), block=1, decls=AREA).tolist() == checks


def test_expected_bytes_hold_a_phase_until_bulk_copies_bring_them():
    body = PLACES + INIT.format(n=1)
    body += "mov.u32 %r3, area; @%p10 bra $GO; mbarrier.arrive.expect_tx.shared::cta.b64 %d5, [%r7], 512;\n"
    body += "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%in], 256, [%r7];\n"
    body += (
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3+256], [%in+256], 256, [%r7];\n$GO:\n"
    )
    body += SPIN.format(k=0, wait="try_wait.parity.shared::cta.b64", token="0")
    body += (
        "mad.lo.u32 %r4, %tid, 4, %r3; ld.shared.u32 %r6, [%r4]; add.u32 %r6, %r6, 1; st.shared.u32 [%r4+2048], %r6;\n"
    )
    body += "fence.proxy.async.shared::cta; bar.sync 0; @%p10 bra $END; cp.async.bulk.global.shared::cta.bulk_group [%out], [%r3+2048], 512;\n"
    body += "cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0; cp.async.bulk.wait_group 0;\n$END:"
    data = RNG.integers(0, 1 << 31, 128, np.uint32)
    assert (run(body, 128, data=data, block=128, decls=AREA) == data + 1).all()


def test_copies_that_arrive_at_an_mbarrier():
    """cp.async.mbarrier.arrive.noinc: the thread's copies, once over, are its arrival."""
    body = (
        COPY
        + INIT.format(n=64)
        + "cp.async.cg.shared.global [%r4], [%d3], 16; cp.async.mbarrier.arrive.noinc.shared.b64 [%r7];\n"
    )
    body += (
        SPIN.format(k=0, wait="try_wait.parity.shared.b64", token="0")
        + "xor.b32 %r5, %tid, 35; mad.lo.u32 %r4, %r5, 16, %r3;\n"
        + GIVE
    )
    data = RNG.integers(0, 1 << 32, 256, np.uint32)
    got = run(body, 256, data=data, block=64, decls=AREA).reshape(64, 4)
    assert (got == data.reshape(64, 4)[np.arange(64) ^ 35]).all()


def test_fences_and_hints_are_read():
    hints = [
        "membar.cta;",
        "membar.gl;",
        "membar.sys;",
        "fence.acq_rel.gpu;",
        "fence.sc.sys;",
        "fence.acq_rel.cta;",
        "fence.proxy.async;",
        "fence.proxy.async.global;",
        "fence.mbarrier_init.release.cluster;",
        "fence.acq_rel.cluster;",
        "nanosleep.u32 20;",
        "prefetch.global.L1 [%in];",
        "prefetch.global.L2 [%in];",
        "prefetchu.L1 [%in];",
        "griddepcontrol.wait;",
        "griddepcontrol.launch_dependents;",
        "barrier.cluster.arrive.aligned;",
        "barrier.cluster.wait.aligned;",
        "discard.global.L2 [%out+1024], 128;",
        "pmevent 1;",
    ]
    assert (
        run(PLACES + "\n".join(hints) + "\nst.global.u32 [%d2], %r1;", 512, data=np.arange(32, dtype=np.uint32))[:32]
        == np.arange(32)
    ).all()


def test_a_cluster_of_one_block():
    body = (
        PLACES
        + "mov.u32 %r3, area; mad.lo.u32 %r4, %tid, 4, %r3; st.shared.u32 [%r4], %r1; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n"
    )
    body += "mapa.shared::cluster.u32 %r5, %r4, 0; ld.shared::cluster.u32 %r6, [%r5]; getctarank.shared::cluster.u32 %r7, %r5; add.u32 %r6, %r6, %r7;\n"
    body += "mov.u32 %r8, %cluster_ctarank; mov.u32 %r9, %cluster_nctarank; mad.lo.u32 %r6, %r9, 1000, %r6; add.u32 %r6, %r6, %r8; st.global.u32 [%d2], %r6;"
    assert (run(body, 32, decls=AREA) == np.arange(32) + 1000).all()


@pytest.mark.parametrize(("rank", "kind"), [("1", "u32"), ("%tid", "u32"), ("7", "u64"), ("256", "u32")])
def test_the_memory_of_another_block_of_the_cluster_is_nobodys(rank, kind):
    """Its address can be made, and says whose it is; it is the access that is an error."""
    address = "mov.u32 %r3, area; st.shared.u32 [%r3], 1; bar.sync 0;\n"
    if kind == "u32":
        address += f"mapa.shared::cluster.u32 %r5, %r3, {rank}; getctarank.shared::cluster.u32 %r7, %r5;\n"
        access = "ld.shared::cluster.u32 %r6, [%r5];"
    else:
        address += "mov.u64 %d3, area; cvta.shared.u64 %d3, %d3;\n"
        address += f"mapa.u64 %d4, %d3, {rank}; getctarank.u64 %r7, %d4;\n"
        access = "ld.u32 %r6, [%d4];"
    told = run(PLACES + address + "st.global.u32 [%d2], %r7;", 32, decls=AREA)
    assert told.tolist() == (list(range(32)) if rank == "%tid" else [min(int(rank), 127)] * 32)
    _, result = run_text(PLACES + address + access, inputs=bytes(128), out_bytes=128, block=32, grid=1, decls=AREA)
    which = 1 if rank == "%tid" else min(int(rank), 127)
    assert result.fault.kind == "illegal_address"
    assert f"block {which} of its cluster, which is a cluster of one" in result.fault.message
