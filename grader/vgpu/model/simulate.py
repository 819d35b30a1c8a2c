"""One SM, cycle by cycle, from the traces of a few blocks: a scoreboard for each warp, and servers.

Four schedulers issue in order, one instruction a cycle each, from their warps (oldest first); an instruction waits for
its operands (scoreboard) and for its pipe. A pipe, the L1's data stage, the way to L2 and that to DRAM are servers:
each takes a piece of work after the other, at its own rate. Why a warp waited is added up under Nsight Compute's names.
"""

import numba
import numpy as np

from ..machine import copies as M
from . import program as P
from .traces import more

STALLS = (
    "selected", "not selected", "wait", "math pipe throttle", "short scoreboard", "long scoreboard", "barrier",
    "lg throttle", "mio throttle", "membar", "dispatch stall",
)  # fmt: skip
SELECTED, NOT_SELECTED, WAIT, MATH, SHORT, LONG, BAR, LG, MIO, MEMBAR, DISPATCH = range(len(STALLS))

# Parameters of the machine, by place in the array `m`
(
    M_L1_LATENCY, M_SHARED_LATENCY, M_L2_LATENCY, M_DRAM_LATENCY, M_L1_MIN, M_L2_RATE, M_DRAM_RATE, M_L1_SETS,
    M_WRITE_DRAM, M_RETOUCH, M_BUDGET, M_WAVEFRONT_CYCLES, M_PIPE,
) = (*range(12), 16)  # fmt: skip
M_WORDS = 32
WAYS = 8
QUEUE = 16.0  # cycles of work that may wait before the L1's data stage
L2_QUEUE = 200.0  # cycles of requests that may wait on their way to L2
L2_REQUEST = 64.0  # bytes: a slice of L2 takes a request of up to two sectors each clock (A100 white paper: 64 bytes)
BARRIER_CYCLES = 12.0
BLOCK_CYCLES = 100.0  # from a block's end to the first instruction of the next in its place

# Results, by place in the array `out`
(
    O_CYCLES, O_INSTRUCTIONS, O_L1_HITS, O_L1_SECTORS, O_L2_SECTORS, O_DRAM_READ, O_DRAM_WRITE, O_SHARED, O_L1_BUSY,
    O_DONE, O_SLOTS, O_L2_FREE, O_DRAM_FREE, O_FIRST_WAVE, O_L2_BUSY,
) = range(15)  # fmt: skip
O_WORDS = 24

NEVER = 1e30
BARS = M.MAX_MBARRIERS
# Of an mbarrier in the block, by place
(B_COUNT, B_PENDING, B_BYTES, B_PHASE, B_LATEST, B_DONE, B_WHY, B_DONE_WHY) = range(8)


def _jit(fn):
    return numba.njit(cache=True, nogil=True, error_model="numpy")(fn)


@_jit
def seen_before(table, masks, key, sectors):
    """Mark sectors of a line as touched. -> those that were so before. The table is open, of a power of two."""
    size = len(table)
    k = (key * 0x9E3779B97F4A7C15 >> 30) & (size - 1)
    for _ in range(size):
        if table[k] == key:
            old = masks[k]
            masks[k] = old | sectors
            return old & sectors
        if table[k] == 0:
            table[k] = key
            masks[k] = sectors
            return 0
        k = (k + 1) & (size - 1)
    return sectors


@_jit
def bits(x):
    return (x & 1) + (x >> 1 & 1) + (x >> 2 & 1) + (x >> 3 & 1)


@_jit
def l1_lookup(tags, masks, fill, age, sets, line, sectors, now):
    """-> (sectors present, way's index). A line that is not there takes the place of the one used longest ago."""
    s = (line * 0x9E3779B97F4A7C15 >> 33 & 0x7FFFFFFF) % sets * WAYS  # hashed: strides of a power of two spread too
    oldest = s
    for k in range(s, s + WAYS):
        if tags[k] == line:
            age[k] = now
            return masks[k] & sectors, k
        if age[k] < age[oldest]:
            oldest = k
    tags[oldest] = line
    masks[oldest] = 0
    fill[oldest] = 0.0
    age[oldest] = now
    return 0, oldest


@_jit
def bar_row(addresses, address):
    """The row of the mbarrier at this address; a new one if it has none, the last if there are too many."""
    for k in range(len(addresses)):
        if addresses[k] == address:
            return k
        if addresses[k] < 0:
            addresses[k] = address
            return k
    return len(addresses) - 1


@_jit
def note(bars, row, when, why):
    """Something that the phase under way waits for happens then; the phase ends when nothing is outstanding."""
    if when >= bars[row, B_LATEST]:
        bars[row, B_LATEST], bars[row, B_WHY] = when, why
    if bars[row, B_PENDING] <= 0 and bars[row, B_BYTES] == 0 and bars[row, B_COUNT] > 0:
        bars[row, B_DONE], bars[row, B_DONE_WHY] = bars[row, B_LATEST], bars[row, B_WHY]
        bars[row, B_PHASE] += 1
        bars[row, B_PENDING] = bars[row, B_COUNT]
        bars[row, B_LATEST] = 0.0


@_jit
def at_mbarriers(words, at, end, site, addresses, bars, when, copied, by_copy, by_warp):
    """Do what the trace's entries of one instruction say. -> the wait that is not over (row << 1 | parity), or -1.

    when: the time; copied: when the warp's cp.async are over.
    """
    waits = -1
    p = at
    while p < end and (words[p] >> 32) & 0xFFFFFFF == site:
        code, word = words[p] & 0xFF, words[p + 1]
        arrivals, nbytes = (word >> 20) & 0xFFF, word >> 32
        row = bar_row(addresses, word & 0xFFFFF)
        if code == M.INIT:
            bars[row] = 0.0
            bars[row, B_COUNT] = bars[row, B_PENDING] = arrivals
        elif code == M.INVAL:
            bars[row] = 0.0
        elif code == M.TEST or code == M.TEST_PARITY:
            waits = row << 1 | arrivals
        elif code == M.EXPECT:
            bars[row, B_BYTES] += nbytes
        elif code == M.COMPLETE:
            bars[row, B_BYTES] -= nbytes
            note(bars, row, when, by_copy)
        elif code == M.ARRIVE_COPIED or code == M.ARRIVE_COPIED_INC:
            if code == M.ARRIVE_COPIED:
                bars[row, B_PENDING] -= arrivals
            note(bars, row, max(when, copied), by_copy if copied > when else by_warp)
        else:
            if code == M.ARRIVE_EXPECT:
                bars[row, B_BYTES] += nbytes
            if code == M.ARRIVE_DROP:
                bars[row, B_COUNT] -= arrivals
            bars[row, B_PENDING] -= arrivals
            note(bars, row, when, by_warp)
        p += 2
    return waits


@_jit
def simulate(
    first, kind, pipe, slots, latency, site, arg, regs_first, dests_first, regs, nregs,
    words, starts, nwarps, ntraces, resident, total, m, miss, out, stalls, line_stalls, samples,
):  # fmt: skip
    """Run `total` blocks, `resident` at once, on one SM. Fills `out`, `stalls` and `line_stalls` (instruction, reason).

    `miss`: per site, the part of its sectors' first touches that nobody brought to L2 before.
    """
    W = resident * nwarps
    sets = int(m[M_L1_SETS])
    tags = np.full(sets * WAYS, -1, np.int64)
    masks, fill, age = np.zeros(sets * WAYS, np.int64), np.zeros(sets * WAYS), np.full(sets * WAYS, -1.0)
    touched, touched_masks = np.zeros(1 << 18, np.int64), np.zeros(1 << 18, np.int64)
    ntouched = 0
    pos, end = np.zeros(W, np.int64), np.zeros(W, np.int64)
    ip, ip_end = np.zeros(W, np.int64), np.zeros(W, np.int64)
    entry = np.zeros(W, np.int64)  # position in the trace of the block of code under way
    ready, reason = np.zeros(W), np.zeros(W, np.int64)
    since = np.zeros(W)  # end of its last issue
    reg_time, reg_why = np.zeros((W, max(nregs, 1))), np.zeros((W, max(nregs, 1)), np.int64)
    state = np.zeros(W, np.int64)  # 0: to run, 1: at a barrier, 2: done, 3: not there, 5: at an mbarrier
    bar_number = np.zeros(W, np.int64)
    bar_since = np.zeros(W)
    # Groups of cp.async, and of bulk copies: when they end
    groups, ngroups = np.zeros((2, W, 64)), np.zeros((2, W), np.int64)
    copies = np.zeros((2, W))  # when the copies since the last commit end
    copied = np.zeros(W)  # when all cp.async so far end
    bar_at, bars = np.full((resident, BARS), -1, np.int64), np.zeros((resident, BARS, 8))
    held, held_why = np.zeros(W), np.zeros(W, np.int64)  # how long it waited at an mbarrier, for the samples
    awaited = np.zeros(W, np.int64)  # the mbarrier at which it waits: row << 1 | parity
    pending = np.zeros(W)  # when the last of its memory operations ends
    replica = np.zeros(resident, np.int64)
    left = np.zeros(resident, np.int64)  # warps of the block that are not done
    order = np.zeros(W)  # when its block started, for oldest first
    sched_free = np.zeros(4)
    pipe_free = np.zeros((4, 8))
    pipe_busy, sched_busy = np.zeros((4, 8)), np.zeros(4)
    lsu_free, l2_free, dram_free = 0.0, 0.0, 0.0
    acc_miss = np.zeros(len(miss) + 1)
    acc_write = 0.0
    started, finished = 0, 0
    best, best_warp = np.full(4, NEVER), np.full(4, -1, np.int64)
    dirty = np.ones(4, np.bool_)
    issued = 0
    now = 0.0
    last = 0.0
    slots_used = 0.0
    fresh = np.zeros(resident, np.int64)
    for r in range(resident):
        fresh[r] = 1
    nfresh = resident
    fresh_time = np.zeros(resident)
    budget = m[M_BUDGET]
    nsamples = 0
    waits = -1
    while True:
        # -------------------------------------------------- blocks into free places
        if nfresh:
            for r in range(resident):
                if not fresh[r]:
                    continue
                fresh[r] = 0
                bar_at[r] = -1
                t = started % ntraces
                for v in range(nwarps):
                    w = r * nwarps + v
                    if started >= total:
                        state[w] = 3
                        continue
                    pos[w], end[w] = starts[t * nwarps + v], starts[t * nwarps + v + 1]
                    ip[w] = ip_end[w] = 0
                    state[w] = 0
                    since[w] = ready[w] = fresh_time[r]
                    order[w] = started
                    ngroups[:, w] = 0
                    copies[:, w] = 0.0
                    copied[w] = pending[w] = 0.0
                    for k in range(nregs):
                        reg_time[w, k] = 0.0
                        reg_why[w, k] = 0
                    reason[w] = -1  # to be fetched
                if started < total:
                    replica[r] = started // ntraces
                    left[r] = nwarps
                    started += 1
            nfresh = 0
            for s in range(4):
                dirty[s] = True
        # -------------------------------------------------- who goes next
        pick = -1
        for s in range(4):
            if dirty[s]:
                dirty[s] = False
                best[s], best_warp[s] = NEVER, -1
                best_order = NEVER
                for w in range(s, W, 4):
                    if state[w] != 0:
                        continue
                    if reason[w] == -1:
                        # the next instruction
                        reason[w] = WAIT
                        while True:
                            if ip[w] >= ip_end[w]:
                                if pos[w] >= end[w]:
                                    state[w] = 4
                                    break
                                b = (words[pos[w]] >> 32) & 0xFFFFFFF
                                ip[w], ip_end[w] = first[b], first[b + 1]
                                p = pos[w] + 1
                                entry[w] = p
                                while p < end[w] and words[p] >> 60 != 1:
                                    p += 1 + more(words[p])
                                pos[w] = p
                                continue
                            i = ip[w]
                            t = since[w]
                            why = WAIT
                            for k in range(regs_first[i], regs_first[i + 1]):
                                if reg_time[w, regs[k]] > t:
                                    t = reg_time[w, regs[k]]
                                    why = reg_why[w, regs[k]]
                            if kind[i] == P.ALIAS:
                                for k in range(dests_first[i], regs_first[i + 1]):
                                    reg_time[w, regs[k]] = t
                                    reg_why[w, regs[k]] = why
                                ip[w] += 1
                                continue
                            if kind[i] == P.WAIT_GROUP:
                                g = arg[i] >> 16
                                n = ngroups[g, w] - (arg[i] & 0xFFFF)
                                if n > 0:
                                    n = min(n, 64)
                                    for k in range(n):
                                        if groups[g, w, k] > t:
                                            t = groups[g, w, k]
                                            why = LONG
                                    for k in range(n, ngroups[g, w]):
                                        groups[g, w, k - n] = groups[g, w, k]
                                    ngroups[g, w] -= n
                            if kind[i] == P.FENCE and pending[w] > t:
                                t = pending[w]
                                why = MEMBAR
                            ready[w] = t
                            reason[w] = why
                            break
                        if state[w] == 4:  # its trace has ended
                            state[w] = 2
                            r = w // nwarps
                            left[r] -= 1
                            last = max(last, since[w])
                            if left[r] == 0:
                                finished += 1
                                if finished == resident:
                                    out[O_FIRST_WAVE] = max(since[w], now)
                                fresh[r] = 1
                                fresh_time[r] = max(since[w], now) + BLOCK_CYCLES
                                nfresh += 1
                            # those that wait for it at a barrier
                            release_all(
                                w // nwarps, nwarps, state, bar_number, bar_since, since, ready, reason, dirty, now
                            )
                            continue
                    i = ip[w]
                    c = max(ready[w], sched_free[s])
                    q = pipe[i]
                    if q == 4:
                        c = max(c, lsu_free - QUEUE)
                        if kind[i] != P.SHARED_LOAD and kind[i] != P.SHARED_STORE and kind[i] != P.SHUFFLE:
                            c = max(c, l2_free - L2_QUEUE)
                    elif q < 6:
                        c = max(c, pipe_free[s, q])
                    if c < best[s] or (c == best[s] and order[w] < best_order):
                        best[s], best_warp[s], best_order = c, w, order[w]
            if best_warp[s] >= 0 and (pick < 0 or best[s] < best[pick]):
                pick = s
        if nfresh:
            if started < total:
                continue
            nfresh = 0
        if pick < 0:
            again = False
            for s in range(4):
                again = again or dirty[s]
            if again:
                continue
            break
        w = best_warp[pick]
        i = ip[w]
        c = max(ready[w], sched_free[pick])
        q = pipe[i]
        k_ = kind[i]
        c_free = c
        if q == 4:
            c = max(c, lsu_free - QUEUE)
            if k_ != P.SHARED_LOAD and k_ != P.SHARED_STORE and k_ != P.SHUFFLE:
                c = max(c, l2_free - L2_QUEUE)
        elif q < 6:
            c = max(c, pipe_free[pick, q])
        if c > best[pick] + 1e-9:
            dirty[pick] = True
            continue
        t = c
        now = t
        # -------------------------------------------------- why it waited
        gap = ready[w] - since[w]
        if gap > 0:
            stalls[reason[w]] += gap
            line_stalls[i, reason[w]] += gap
        blocked = t - max(ready[w], since[w])
        if blocked > 0:
            by_pipe = t - c_free
            if q < 6 and now > 0:
                taken = out[O_L1_BUSY] if q == 4 else pipe_busy[pick, q]
                share = taken / (taken + 1.0 + (0.25 if q == 4 else 1.0) * sched_busy[pick])
                by_pipe = max(by_pipe, (blocked - by_pipe) * share)
            if by_pipe > 0:
                why = MATH
                if q == 4:
                    why = LG if (k_ == P.LOAD or k_ == P.STORE or k_ == P.ATOMIC or k_ == P.COPY) else MIO
                stalls[why] += by_pipe
                line_stalls[i, why] += by_pipe
            stalls[NOT_SELECTED] += blocked - by_pipe
            line_stalls[i, NOT_SELECTED] += blocked - by_pipe
        n = slots[i]
        stalls[SELECTED] += n
        line_stalls[i, SELECTED] += n
        issued += 1
        slots_used += n
        sched_free[pick] = t + n
        sched_busy[pick] += n
        since[w] = t + n
        done = t + n - 1 + latency[i]
        why = WAIT
        # -------------------------------------------------- what it does
        if q == 4:
            passes, nlines, at = 1.0, 0, -1
            if site[i] >= 0:
                p = entry[w]
                while p < pos[w]:
                    if (words[p] >> 32) & 0xFFFFFFF == site[i]:
                        at = p
                        break
                    p += 1 + more(words[p])
            if at >= 0:
                passes = words[at] & 0xFF
                nlines = (words[at] >> 8) & 0xFFFFFF
            tag = words[at] >> 60 if at >= 0 else 0
            begin = max(t + 1, lsu_free)
            if site[i] >= 0 and at < 0:  # no lane did it
                lsu_free = begin + 1
                done = begin + 1
            elif k_ == P.MBARRIER:
                lsu_free = begin + 1
                out[O_L1_BUSY] += 1
                done = begin + m[M_SHARED_LATENCY]
                why = SHORT
                waits = at_mbarriers(
                    words, at, pos[w], site[i], bar_at[w // nwarps], bars[w // nwarps], done, copied[w], LONG, BAR
                )
            elif k_ == P.BULK:
                lsu_free = begin + 1
                p = at
                while p < pos[w] and (words[p] >> 32) & 0xFFFFFFF == site[i]:
                    n_lines = ((words[p + 1] >> 32) + 127) >> 7
                    arrives = begin + m[M_L2_LATENCY]
                    for k in range(n_lines):
                        line = ((words[p + 2] & ~(1 << 62)) >> 4) + k
                        if not words[p + 2] >> 62 & 1:
                            line |= (replica[w // nwarps] + 1) << 44
                        old = 15
                        if ntouched < 200000:
                            touch = 15 if words[p] & 1 else 15 << 4 | 15
                            was = seen_before(touched, touched_masks, line + 1, touch)
                            if was == 0:
                                ntouched += 1
                            old = was & 15 if words[p] & 1 else was >> 4
                        took = 128.0 / m[M_L2_RATE]
                        l2_free = max(l2_free, begin) + took
                        out[O_L2_BUSY] += took
                        out[O_L2_SECTORS] += 4
                        arrives = max(arrives, l2_free + m[M_L2_LATENCY] - 1)
                        n_dram = 0.0
                        if words[p] & 1:
                            acc_miss[site[i]] += (4 - bits(old)) * miss[site[i]] + bits(old) * m[M_RETOUCH]
                            n_dram = np.floor(acc_miss[site[i]])
                            acc_miss[site[i]] -= n_dram
                            out[O_DRAM_READ] += n_dram
                        else:
                            acc_write += (4 - bits(old)) * m[M_WRITE_DRAM]
                            n_dram = np.floor(acc_write)
                            acc_write -= n_dram
                            out[O_DRAM_WRITE] += n_dram
                        if n_dram > 0:
                            dram_free = max(dram_free, l2_free) + n_dram * 32.0 / m[M_DRAM_RATE]
                            if words[p] & 1:
                                arrives = max(arrives, dram_free + m[M_DRAM_LATENCY] - 1)
                    if words[p] & 1:
                        row = bar_row(bar_at[w // nwarps], words[p + 1] & 0xFFFFF)
                        bars[w // nwarps, row, B_BYTES] -= words[p + 1] >> 32
                        note(bars[w // nwarps], row, arrives, LONG)
                    copies[1, w] = max(copies[1, w], arrives)
                    p += 3
                done = begin + 1
            elif tag == 2 or k_ == P.SHUFFLE or k_ == P.COMMIT or k_ == P.WAIT_GROUP or (tag == 0):
                cost = passes * m[M_WAVEFRONT_CYCLES]
                if k_ == P.COMMIT or k_ == P.WAIT_GROUP:
                    cost = 0.0  # they move no data
                lsu_free = begin + cost
                out[O_L1_BUSY] += cost
                out[O_SHARED] += passes if tag == 2 else 0.0
                done = begin + (latency[i] if k_ == P.SHUFFLE else m[M_SHARED_LATENCY]) + cost - 1
                why = SHORT
                if k_ == P.COMMIT:
                    g = arg[i] >> 16
                    if ngroups[g, w] < 64:
                        groups[g, w, ngroups[g, w]] = copies[g, w]
                        ngroups[g, w] += 1
                    copies[g, w] = 0.0
                    done = t + 2
                elif k_ == P.WAIT_GROUP:
                    done = t + 2
            else:
                store = k_ == P.STORE
                cost = max(passes * m[M_WAVEFRONT_CYCLES], nlines / 4.0)
                if not store:
                    cost = max(cost, m[M_L1_MIN])
                if k_ == P.COPY:
                    cost += (arg[i] >> 8) * m[M_WAVEFRONT_CYCLES]  # and into shared memory
                done = begin + m[M_L1_LATENCY] + cost - 1
                why = LONG
                bypass = store or k_ == P.ATOMIC or ((k_ == P.LOAD or k_ == P.COPY) and arg[i] & P.BYPASS)
                if tag == 3:
                    r = w // nwarps
                    for k in range(nlines):
                        word = words[at + 1 + k]
                        line = (word >> 4) & 0xFFFFFFFFFFFFF
                        if not word >> 62 & 1:
                            line |= (replica[r] + 1) << 44
                        sectors = word & 15
                        out[O_L1_SECTORS] += bits(sectors)
                        got, place = 0, -1
                        if not bypass:
                            got, place = l1_lookup(tags, masks, fill, age, sets, line, sectors, t)
                            if got:
                                done = max(done, fill[place])
                                out[O_L1_HITS] += bits(got)
                        missing = sectors & ~got
                        if missing == 0:
                            continue
                        count = bits(missing)
                        out[O_L2_SECTORS] += count
                        old = missing
                        if ntouched < 200000:
                            touch = missing << 4 | missing if store else missing  # the high bits: written
                            was = seen_before(touched, touched_masks, line + 1, touch)
                            if was == 0:
                                ntouched += 1
                            old = was >> 4 if store else was
                        took = max(count * 32.0, L2_REQUEST) / m[M_L2_RATE]
                        l2_free = max(l2_free, begin) + took
                        out[O_L2_BUSY] += took
                        if store:
                            acc_write += (count - bits(old)) * m[M_WRITE_DRAM]
                            if acc_write >= 1:
                                n_dram = np.floor(acc_write)
                                acc_write -= n_dram
                                out[O_DRAM_WRITE] += n_dram
                                dram_free = max(dram_free, l2_free) + n_dram * 32.0 / m[M_DRAM_RATE]
                            continue
                        arrives = l2_free + m[M_L2_LATENCY] - 1
                        acc_miss[site[i]] += (count - bits(old)) * miss[site[i]] + bits(old) * m[M_RETOUCH]
                        if acc_miss[site[i]] >= 1:
                            n_dram = np.floor(acc_miss[site[i]])
                            acc_miss[site[i]] -= n_dram
                            out[O_DRAM_READ] += n_dram
                            dram_free = max(dram_free, l2_free) + n_dram * 32.0 / m[M_DRAM_RATE]
                            arrives = dram_free + m[M_DRAM_LATENCY] - 1
                        done = max(done, arrives)
                        if place >= 0:
                            masks[place] |= missing
                            fill[place] = max(fill[place], arrives)
                lsu_free = begin + cost
                out[O_L1_BUSY] += cost
                if store:
                    pending[w] = max(pending[w], l2_free + m[M_L2_LATENCY])
                    if dram_free - l2_free > 4 * L2_QUEUE:
                        l2_free = dram_free - 4 * L2_QUEUE
                elif k_ == P.COPY:
                    copies[0, w] = max(copies[0, w], done)
                    copied[w] = max(copied[w], done)
                elif k_ == P.ATOMIC:
                    pending[w] = max(pending[w], done)
        elif q < 6:
            pipe_free[pick, q] = t + n * m[M_PIPE + q]
            pipe_busy[pick, q] += n * m[M_PIPE + q]
            done = t + n * m[M_PIPE + q] - m[M_PIPE + q] + latency[i]
            if q == 3:
                why = SHORT
        for k in range(dests_first[i], regs_first[i + 1]):
            reg_time[w, regs[k]] = done
            reg_why[w, regs[k]] = why
        last = max(last, t + n)
        if nsamples < len(samples):
            samples[nsamples, 0], samples[nsamples, 1], samples[nsamples, 2], samples[nsamples, 3] = t, w, i, t + n
            samples[nsamples, 4], samples[nsamples, 5] = reason[w], gap
            if held[w] > gap:
                samples[nsamples, 4], samples[nsamples, 5] = held_why[w], held[w]
            samples[nsamples, 6] = order[w]
            nsamples += 1
        held[w] = 0.0
        ip[w] += 1
        reason[w] = -1
        dirty[pick] = True
        if k_ == P.MBARRIER:
            r = w // nwarps
            if waits >= 0:
                state[w], awaited[w] = 5, waits
            for v in range(r * nwarps, (r + 1) * nwarps):  # whose phase is over?
                if state[v] != 5:
                    continue
                row = awaited[v] >> 1
                if np.int64(bars[r, row, B_PHASE]) & 1 != awaited[v] & 1:
                    until, cause = max(bars[r, row, B_DONE], since[v]), np.int64(bars[r, row, B_DONE_WHY])
                    held[v], held_why[v] = until - since[v], cause
                    stalls[cause] += held[v]
                    line_stalls[ip[v] - 1, cause] += held[v]
                    state[v], since[v], reason[v] = 0, until, -1
                    dirty[v & 3] = True
        if k_ == P.BARRIER:
            state[w] = 1
            bar_number[w] = arg[i] >> 16
            bar_since[w] = t + n
            wanted = arg[i] & 0xFFFF
            arrived, alive = 0, 0
            r = w // nwarps
            for v in range(r * nwarps, (r + 1) * nwarps):
                if state[v] == 0 or state[v] == 1 or state[v] == 5:
                    alive += 1
                if state[v] == 1 and bar_number[v] == bar_number[w]:
                    arrived += 1
            if arrived == alive or (wanted and arrived * 32 >= wanted):
                release(
                    r,
                    nwarps,
                    bar_number[w],
                    state,
                    bar_number,
                    bar_since,
                    since,
                    ready,
                    reason,
                    dirty,
                    t + n,
                    stalls,
                    line_stalls,
                    ip,
                )
        if issued >= budget:
            break
    out[O_CYCLES] = max(last, now)
    out[O_L2_FREE], out[O_DRAM_FREE] = l2_free, dram_free
    out[O_INSTRUCTIONS] = issued
    out[O_SLOTS] = slots_used
    out[O_DONE] = finished
    return nsamples


@_jit
def release(r, nwarps, number, state, bar_number, bar_since, since, ready, reason, dirty, now, stalls, line_stalls, ip):
    """All that wait at this barrier of the block go on."""
    for v in range(r * nwarps, (r + 1) * nwarps):
        if state[v] == 1 and bar_number[v] == number:
            state[v] = 0
            waited = now + BARRIER_CYCLES - since[v]
            if waited > 0:
                stalls[BAR] += waited
                line_stalls[ip[v] - 1, BAR] += waited
            since[v] = now + BARRIER_CYCLES
            reason[v] = -1
            dirty[v & 3] = True


@_jit
def release_all(r, nwarps, state, bar_number, bar_since, since, ready, reason, dirty, now):
    """A warp of the block has ended: if all others wait at one barrier, they go on."""
    alive, waiting, number = 0, 0, -1
    for v in range(r * nwarps, (r + 1) * nwarps):
        if state[v] == 0 or state[v] == 5:
            alive += 1
        elif state[v] == 1:
            waiting += 1
            number = bar_number[v]
    if waiting and alive == 0:
        for v in range(r * nwarps, (r + 1) * nwarps):
            if state[v] == 1 and bar_number[v] == number:
                state[v] = 0
                since[v] = max(since[v], now) + BARRIER_CYCLES
                reason[v] = -1
                dirty[v & 3] = True
