"""vote, shfl, match, redux, elect: all lanes, some lanes, partial warps, and lanes that come with different masks."""

import numpy as np
import pytest
from harness import run_text

FULL = 0xFFFFFFFF
RNG = np.random.default_rng(11)
DATA = RNG.integers(0, 1 << 32, 64, np.uint32)
DATA[:12] = [0, 1, 0xFFFFFFFF, 0x80000000, 0x7FFFFFFF, 5, 5, 5, 1, 0, 0xFFFFFFFF, 5]
BITS = [int(b) for b in RNG.integers(0, 2, 32)]
LOADS = "mad.wide.u32 %d1, %tid, 4, %in; mad.wide.u32 %d2, %tid, 4, %out; ld.global.u32 %r1, [%d1]; mov.u32 %r30, %laneid;\n"


def run(body, words, data=DATA, block=32, **more):
    """-> out[word][thread], after a launch without a fault or a finding."""
    out, result = run_text(
        LOADS + body, inputs=np.asarray(data, np.uint32).tobytes(), out_bytes=4 * block * words, block=block, **more
    )
    assert result.fault is None, result.fault
    assert not result.findings, result.findings
    return np.frombuffer(out, np.uint32).reshape(words, block)


def shuffled(mode, lane, b, c):
    """PTX ISA, shfl.sync, in its words. -> (source lane, predicate)"""
    segment, clamp = c >> 8 & 31, c & 31
    bval = b & 31
    max_lane = (lane & segment) | (clamp & ~segment & 31)
    min_lane = lane & segment
    j, ok = {
        "up": lambda: (lane - bval, lane - bval >= max_lane),
        "down": lambda: (lane + bval, lane + bval <= max_lane),
        "bfly": lambda: (lane ^ bval, (lane ^ bval) <= max_lane),
        "idx": lambda: (min_lane | (bval & ~segment & 31), (min_lane | (bval & ~segment & 31)) <= max_lane),
    }[mode]()
    return (j, 1) if ok else (lane, 0)


@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
def test_shuffles_in_segments_of_every_width(mode):
    body, want, word = "", [], 0
    for width in (32, 16, 8, 4, 2, 1):
        c = (32 - width) << 8 | (0 if mode == "up" else 31)
        for b in (0, 1, 3, 7, 16, 31, 33):
            body += f"shfl.sync.{mode}.b32 %r2|%p1, %r1, {b}, {c}, -1; selp.b32 %r3, 1, 0, %p1;\n"
            body += f"st.global.u32 [%d2+{128 * word}], %r2; st.global.u32 [%d2+{128 * (word + 1)}], %r3;\n"
            pairs = [shuffled(mode, lane, b, c) for lane in range(32)]
            want += [[int(DATA[j]) for j, _ in pairs], [p for _, p in pairs]]
            word += 2
    body += f"xor.b32 %r4, %r30, 5; shfl.sync.{mode}.b32 %r2, %r1, %r4, {0 if mode == 'up' else 31}, 0xffffffff; st.global.u32 [%d2+{128 * word}], %r2;"
    want.append([int(DATA[shuffled(mode, lane, lane ^ 5, 0 if mode == "up" else 31)[0]]) for lane in range(32)])
    assert run(body, word + 1).tolist() == want


def test_shuffles_of_floats_and_uniform_values():
    body = "mov.b32 %f1, %r1; shfl.sync.bfly.b32 %f2, %f1, 1, 31, -1; mov.b32 %r2, %f2; st.global.u32 [%d2], %r2;\n"
    body += "mov.u32 %r3, %ntid.x; shfl.sync.idx.b32 %r4, %r3, 7, 31, -1; st.global.u32 [%d2+128], %r4;"
    got = run(body, 2)
    assert (got[0] == DATA[np.arange(32) ^ 1]).all() and (got[1] == 32).all()


def test_votes():
    cases = [("all", 0), ("all", 1), ("all", 2), ("any", 0), ("any", 1), ("any", 2), ("uni", 0), ("uni", 1), ("uni", 2)]
    sets = [np.zeros(32, int), np.ones(32, int), np.array(BITS)]
    body = "".join(
        f"mad.wide.u32 %d3, %tid, 4, %in; ld.global.u32 %r2, [%d3+{128 * k}]; setp.ne.u32 %p{k}, %r2, 0;\n"
        for k in range(3)
    )
    want, word = [], 0
    for mode, k in cases:
        body += (
            f"vote.sync.{mode}.pred %p9, %p{k}, -1; selp.b32 %r3, 1, 0, %p9; st.global.u32 [%d2+{128 * word}], %r3;\n"
        )
        body += f"vote.sync.{mode}.pred %p9, !%p{k}, -1; selp.b32 %r3, 1, 0, %p9; st.global.u32 [%d2+{128 * (word + 1)}], %r3;\n"
        for v in (sets[k], 1 - sets[k]):
            want.append(int({"all": v.all(), "any": v.any(), "uni": v.all() or not v.any()}[mode]))
        word += 2
    for k in range(3):
        body += f"vote.sync.ballot.b32 %r3, %p{k}, -1; st.global.u32 [%d2+{128 * word}], %r3;\n"
        want.append(int(sum(int(b) << n for n, b in enumerate(sets[k]))))
        word += 1
    got = run(body, word, np.concatenate(sets))
    assert (got == np.array(want, np.uint32)[:, None]).all()


def test_some_lanes_vote_and_shuffle_in_a_branch():
    """Odd and even lanes take different ways, each with a mask of its own; each sees its own kind only."""
    body = "and.b32 %r2, %r30, 1; setp.eq.u32 %p1, %r2, 0; setp.lt.u32 %p2, %r30, 20;\n@%p1 bra $EVEN;\n"
    body += "vote.sync.ballot.b32 %r3, %p2, 0xaaaaaaaa; shfl.sync.idx.b32 %r4, %r1, 3, 31, 0xaaaaaaaa; redux.sync.add.u32 %r5, %r1, 0xaaaaaaaa;\n"
    body += "activemask.b32 %r6; bra $END;\n$EVEN:\n"
    body += "vote.sync.ballot.b32 %r3, %p2, 0x55555555; shfl.sync.idx.b32 %r4, %r1, 4, 31, 0x55555555; redux.sync.add.u32 %r5, %r1, 0x55555555;\n"
    body += "activemask.b32 %r6;\n$END:\nbar.warp.sync -1; activemask.b32 %r7;\n"
    body += "".join(f"st.global.u32 [%d2+{128 * k}], %r{3 + k};\n" for k in range(5))
    got = run(body, 5)
    for odd, mask in ((0, 0x55555555), (1, 0xAAAAAAAA)):
        rows = got[:, odd::2]
        assert (rows[0] == (mask & (1 << 20) - 1)).all()
        assert (rows[1] == DATA[3 + (1 - odd)]).all()
        assert (rows[2] == DATA[:32][odd::2].sum(dtype=np.uint32)).all()
        assert (rows[3] == mask).all() and (rows[4] == FULL).all()


def test_a_partial_warp_and_lanes_that_have_left():
    body = "setp.ge.u32 %p1, %tid, 45; @%p1 exit; setp.ne.u32 %p2, %tid, 99;\n"
    body += "vote.sync.ballot.b32 %r2, %p2, -1; vote.sync.all.pred %p3, %p2, -1; selp.b32 %r3, 1, 0, %p3; match.any.sync.b32 %r4, %ntid.x, -1;\n"
    body = body.replace(
        "match.any.sync.b32 %r4, %ntid.x, -1;", "mov.u32 %r9, %ntid.x; match.any.sync.b32 %r4, %r9, -1;"
    )
    body += "redux.sync.max.u32 %r5, %tid, -1; elect.sync %r6|%p4, -1; selp.b32 %r7, 1, 0, %p4;\n"
    body += "".join(f"st.global.u32 [%d2+{200 * k}], %r{2 + k};\n" for k in range(6))
    got = run(body, 6, block=50)
    first, second = got[:, :32], got[:, 32:45]
    live = (1 << 13) - 1
    assert (got[:, 45:] == 0).all()
    for rows, mask, top in ((first, FULL, 31), (second, live, 44)):
        assert (rows[0] == mask).all() and (rows[1] == 1).all() and (rows[2] == mask).all() and (rows[3] == top).all()
        assert (rows[4] == 0).all() and rows[5].tolist() == [1] + [0] * (rows.shape[1] - 1)


@pytest.mark.parametrize("bits", [32, 64])
def test_match(bits):
    values = [int(v) % 5 for v in range(32)]
    values[3] = values[9] = 0xFFFFFFFF
    load = "" if bits == 32 else "cvt.u64.u32 %d3, %r1; shl.b64 %d3, %d3, 20;"
    reg = "%r1" if bits == 32 else "%d3"
    body = f"{load} match.any.sync.b{bits} %r2, {reg}, -1; match.all.sync.b{bits} %r3|%p1, {reg}, -1; selp.b32 %r4, 1, 0, %p1;\n"
    body += f"mov.b{bits} {reg}, 9; match.all.sync.b{bits} %r5|%p1, {reg}, -1; selp.b32 %r6, 1, 0, %p1;\n"
    body += "".join(f"st.global.u32 [%d2+{128 * k}], %r{2 + k};\n" for k in range(5))
    got = run(body, 5, values + values)
    assert got[0].tolist() == [sum(1 << j for j in range(32) if values[j] == v) for v in values]
    assert (got[1:3] == 0).all() and (got[3] == FULL).all() and (got[4] == 1).all()


@pytest.mark.parametrize("kind", ["u32", "s32", "b32"])
def test_redux(kind):
    ops = ("and", "or", "xor") if kind == "b32" else ("add", "min", "max")
    body = "".join(
        f"redux.sync.{op}.{kind} %r2, %r1, -1; st.global.u32 [%d2+{128 * k}], %r2;\n" for k, op in enumerate(ops)
    )
    body += (
        f"mov.u32 %r9, %ntid.x; redux.sync.{ops[0]}.{kind} %r2, %r9, -1; st.global.u32 [%d2+{128 * len(ops)}], %r2;\n"
    )
    got = run(body, len(ops) + 1)
    x = DATA[:32].view(np.int32) if kind == "s32" else DATA[:32]
    fold = {
        "add": lambda: x.sum(dtype=x.dtype),
        "min": x.min,
        "max": x.max,
        "and": lambda: np.bitwise_and.reduce(x),
        "or": lambda: np.bitwise_or.reduce(x),
        "xor": lambda: np.bitwise_xor.reduce(x),
    }
    for row, op in zip(got, ops, strict=False):
        assert (row == np.array([fold[op]()]).view(np.uint32)).all(), op
    assert (got[len(ops)] == (1024 if ops[0] == "add" else 32)).all()


def test_each_lane_with_the_mask_of_its_own_group():
    """Lanes grouped by value go on with their group's mask, all through the same instruction (labeled partitions)."""
    values = [v * v % 7 for v in range(32)]
    body = "match.any.sync.b32 %r2, %r1, -1; redux.sync.add.u32 %r3, %tid, %r2; brev.b32 %r4, %r2; clz.b32 %r4, %r4;\n"
    body += (
        "shfl.sync.idx.b32 %r5, %tid, %r4, 31, %r2; setp.lt.u32 %p1, %tid, 13; vote.sync.ballot.b32 %r6, %p1, %r2;\n"
    )
    body += "elect.sync %r7|%p2, %r2; bar.warp.sync %r2; match.any.sync.b32 %r8, %r1, %r2; activemask.b32 %r9;\n"
    body += "bar.warp.sync -1; activemask.b32 %r10;\n"
    body += "".join(f"st.global.u32 [%d2+{128 * k}], %r{k + 2};\n" for k in (0, 1, 3, 4, 5, 6, 8))
    got = run(body, 9, values + values)
    for lane in range(32):
        group = [j for j in range(32) if values[j] == values[lane]]
        mask = sum(1 << j for j in group)
        want = [mask, sum(group), min(group), mask & (1 << 13) - 1, min(group), mask]
        assert [int(got[k, lane]) for k in (0, 1, 3, 4, 5, 6)] == want
    assert (got[8] == FULL).all()


def test_groups_wait_for_lanes_that_come_another_way():
    """A group's last lane takes a detour; the group waits for it, and only that group."""
    body = "shr.u32 %r2, %r30, 3; shl.b32 %r2, %r2, 3; mov.b32 %r3, 255; shl.b32 %r3, %r3, %r2; and.b32 %r4, %r30, 7; setp.ne.u32 %p1, %r4, 7;\n"
    body += "@%p1 bra $MEET; add.u32 %r1, %r1, 1;\n$MEET:\nredux.sync.add.u32 %r5, %r1, %r3; st.global.u32 [%d2], %r5;"
    data = np.arange(64, dtype=np.uint32)
    got = run(body, 1, data)
    assert got[0].tolist() == [int(data[8 * (k // 8) : 8 * (k // 8) + 8].sum()) + 1 for k in range(32)]


def test_a_named_lane_that_never_comes_is_reported():
    """Half of the warp names all of it, and the other half is past: a deadlock with a reason, not a hang."""
    body = "setp.lt.u32 %p1, %r30, 16; mov.b32 %r3, -1; sub.u32 %r3, %r3, %r30;\n@%p1 bra $LOW; bar.sync 0;\n$LOW:\n"
    body += "and.b32 %r4, %r30, 0; sub.u32 %r5, %r4, 1; vote.sync.ballot.b32 %r2, %p1, %r5; st.global.u32 [%d2], %r2; bar.sync 0;"
    body = "setp.lt.u32 %p1, %r30, 16; @!%p1 bra $HIGH; vote.sync.ballot.b32 %r2, %p1, -1; st.global.u32 [%d2], %r2; bra $END;\n"
    body += "$HIGH: bar.sync 0;\n$END:\n"
    _, result = run_text(LOADS + body, inputs=DATA.tobytes(), out_bytes=128)
    assert result.fault is not None and result.fault.kind == "deadlock"


def test_a_lane_that_its_mask_leaves_out_is_reported():
    _, result = run_text(LOADS + "vote.sync.ballot.b32 %r2, %p1, 0x0000ffff;", inputs=DATA.tobytes(), out_bytes=8)
    assert [f.tool for f in result.findings] == ["synccheck"]


def test_an_operation_ruled_out_by_its_guard_waits_for_nobody():
    body = "setp.lt.u32 %p1, %r30, 16; setp.lt.u32 %p2, %r30, 0; mov.b32 %r2, 7; @!%p1 bra $END; @%p2 vote.sync.ballot.b32 %r2, %p1, -1;\n"
    body += "$END:\nst.global.u32 [%d2], %r2;"
    assert (run(body, 1) == 7).all()


def test_guarded_operations_of_the_lanes_that_their_guard_lets():
    body = "and.b32 %r2, %r30, 1; setp.eq.u32 %p1, %r2, 1; mov.b32 %r3, 9; @%p1 redux.sync.add.u32 %r3, %r30, 0xaaaaaaaa; st.global.u32 [%d2], %r3;"
    assert run(body, 1)[0].tolist() == [256 if k & 1 else 9 for k in range(32)]
