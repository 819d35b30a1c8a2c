"""Memory accesses of the simulated SM: what they cost the L1's data stage, L2 and DRAM, and when their data is there.

The L1's data stage, the way to L2 and that to DRAM are servers: each takes a piece of work after the other.
"""

import numpy as np

from . import program as P
from .barriers import at_mbarriers, note, row_of
from .sm import GROUPS, LONG, SHORT, WAIT, WAYS, part
from .traces import COMMON, T_GLOBAL, T_SHARED, bits, more

L2_QUEUE = 200.0  # cycles of requests that may wait on their way to L2
L2_REQUEST = 64.0  # bytes: a slice of L2 takes a request of up to two sectors each clock (A100 white paper: 64 bytes)
KNOWN_LINES = 200_000  # of which touches are told apart; the table has room for more


@part
def touch(touched, clock, key, sectors, marks):
    """Mark sectors of a line as touched. -> the marks that it had. The table is open, of a power of two."""
    if clock.touched >= KNOWN_LINES:
        return marks
    size = len(touched)
    k = (key * 0x9E3779B97F4A7C15 >> 30) & (size - 1)
    while touched[k].line != key and touched[k].line != 0:
        k = (k + 1) & (size - 1)
    entry = touched[k]
    was = entry.sectors & marks
    if was == 0:
        clock.touched += 1
    entry.line = key
    entry.sectors |= marks
    return was


@part
def look_up(lines, sets, line, now):
    """The way of the L1 that has the line: a line that is not there takes the place of the one used longest ago."""
    s = (line * 0x9E3779B97F4A7C15 >> 33 & 0x7FFFFFFF) % sets * WAYS  # hashed: strides of a power of two spread too
    place = s
    for k in range(s, s + WAYS):
        if lines[k].tag == line:
            lines[k].age = now
            return k
        if lines[k].age < lines[place].age:
            place = k
    way = lines[place]
    way.tag, way.sectors, way.fill, way.age = line, 0, 0.0, now
    return place


@part
def to_l2(m, out, clock, count, begin):
    """So many sectors of a line are asked for, or sent, from then on."""
    out.l2_sectors += count
    took = max(count * 32.0, L2_REQUEST) / m.l2_rate
    clock.l2_free = max(clock.l2_free, begin) + took
    out.l2_busy += took


@part
def read_line(m, out, clock, touched, site, line, sectors, begin):
    """Read sectors of a line from L2 or, where nobody brought them there, from DRAM. -> when they arrive."""
    count, old = bits(sectors), bits(touch(touched, clock, line + 1, sectors, sectors))
    to_l2(m, out, clock, count, begin)
    site.due += (count - old) * site.miss + old * m.retouched
    if site.due < 1:
        return clock.l2_free + m.l2_latency - 1
    n = np.floor(site.due)
    site.due -= n
    out.dram_read += n
    clock.dram_free = max(clock.dram_free, clock.l2_free) + n * 32.0 / m.dram_rate
    return clock.dram_free + m.dram_latency - 1


@part
def write_line(m, out, clock, touched, line, sectors, begin):
    """Write sectors of a line to L2, which sends some on to DRAM. -> when they have arrived in L2."""
    count, old = bits(sectors), bits(touch(touched, clock, line + 1, sectors, sectors << 4 | sectors) >> 4)
    to_l2(m, out, clock, count, begin)
    clock.due += (count - old) * m.written
    if clock.due >= 1:
        n = np.floor(clock.due)
        clock.due -= n
        out.dram_write += n
        clock.dram_free = max(clock.dram_free, clock.l2_free) + n * 32.0 / m.dram_rate
    return clock.l2_free + m.l2_latency - 1


@part
def own_line(word, copy):
    """The line of a word of a trace; blocks that replay one trace have lines of their own, unless they share them."""
    line = (word & ~COMMON) >> 4
    return line if word & COMMON else line | (copy + 1) << 44


@part
def bulk_copies(words, at, end, site, sites, copy, m, out, clock, touched, bars, r, begin):
    """Bulk copies of one instruction. -> when the last has arrived; the mbarriers that wait for them are told."""
    last = 0.0
    p = at
    while p < end and (words[p] >> 32) & 0xFFFFFFF == site:
        read, arrives = words[p] & 1, begin + m.l2_latency
        line = own_line(words[p + 2], copy)
        for k in range(((words[p + 1] >> 32) + 127) >> 7):
            if read:
                arrives = max(arrives, read_line(m, out, clock, touched, sites[site], line + k, 15, begin))
            else:
                arrives = max(arrives, write_line(m, out, clock, touched, line + k, 15, begin))
        if read:
            bar = bars[r, row_of(bars, r, words[p + 1] & 0xFFFFF)]
            bar.nbytes -= words[p + 1] >> 32
            note(bar, arrives, LONG)
        last = max(last, arrives)
        p += 3
    return last


@part
def global_access(instruction, words, at, nlines, done, copy, m, out, clock, lines, touched, sites, begin, now):
    """An access of a warp to lines of global memory. done: when the L1 has done its part. -> when the data is there."""
    store, bypass = instruction.kind == P.STORE, instruction.kind == P.ATOMIC
    if instruction.kind == P.LOAD or instruction.kind == P.COPY:
        bypass = instruction.arg & P.BYPASS != 0
    for k in range(at + 1, at + 1 + nlines):
        line, sectors = own_line(words[k], copy), words[k] & 15
        out.l1_sectors += bits(sectors)
        if store:
            write_line(m, out, clock, touched, line, sectors, begin)
            continue
        place, missing = -1, sectors
        if not bypass:
            place = look_up(lines, m.sets, line, now)
            got = lines[place].sectors & sectors
            if got:
                done = max(done, lines[place].fill)
                out.l1_hits += bits(got)
            missing = sectors & ~got
            if missing == 0:
                continue
        arrives = read_line(m, out, clock, touched, sites[instruction.site], line, missing, begin)
        done = max(done, arrives)
        if place >= 0:
            lines[place].sectors |= missing
            lines[place].fill = max(lines[place].fill, arrives)
    return done


@part
def entry_of(words, at, end, site):
    """Where the trace tells of this site in the block of code under way; -1: no lane did it."""
    while at < end:
        if (words[at] >> 32) & 0xFFFFFFF == site:
            return at
        at += 1 + more(words[at])
    return -1


@part
def access(instruction, words, warp, w, queues, ends, copy, bars, r, m, out, clock, lines, touched, sites, now):
    """Issue an instruction to the LSU. -> (when its result is there, what is waited for until then)."""
    kind, site = instruction.kind, instruction.site
    at, tag, passes, nlines = -1, 0, 1.0, 0
    begin = max(now + 1, clock.l1_free)
    if site >= 0:
        at = entry_of(words, warp.entry, warp.pos, site)
        if at < 0:
            clock.l1_free = begin + 1
            return begin + 1, WAIT
        tag, passes, nlines = words[at] >> 60, words[at] & 0xFF, (words[at] >> 8) & 0xFFFFFF
    if kind == P.MBARRIER:
        clock.l1_free = begin + 1
        out.l1_busy += 1
        at_mbarriers(words, at, warp.pos, site, bars, r, clock, begin + m.shared_latency, warp.copied)
        return begin + m.shared_latency, SHORT
    if kind == P.BULK:
        clock.l1_free = begin + 1
        last = bulk_copies(words, at, warp.pos, site, sites, copy, m, out, clock, touched, bars, r, begin)
        queues[1, w].latest = max(queues[1, w].latest, last)
        return begin + 1, WAIT
    if kind == P.COMMIT or kind == P.WAIT_GROUP:  # they move no data
        clock.l1_free = begin
        if kind == P.COMMIT:
            group = instruction.arg >> 16
            queue = queues[group, w]
            if queue.n < GROUPS:
                ends[group, w, queue.n] = queue.latest
                queue.n += 1
            queue.latest = 0.0
        return now + 2, SHORT
    if tag == T_SHARED or tag == 0 or kind == P.SHUFFLE:
        cost = passes * m.wavefront
        clock.l1_free = begin + cost
        out.l1_busy += cost
        if tag == T_SHARED:
            out.shared += passes
        return begin + (instruction.latency if kind == P.SHUFFLE else m.shared_latency) + cost - 1, SHORT
    cost = max(passes * m.wavefront, nlines / 4.0)
    if kind != P.STORE:
        cost = max(cost, m.l1_least)
    if kind == P.COPY:
        cost += (instruction.arg >> 8) * m.wavefront  # and into shared memory
    done = begin + m.l1_latency + cost - 1
    if tag == T_GLOBAL:  # local memory stays in the L1
        done = global_access(
            instruction, words, at, nlines, done, copy, m, out, clock, lines, touched, sites, begin, now
        )  # fmt: skip
    clock.l1_free = begin + cost
    out.l1_busy += cost
    if kind == P.STORE:
        warp.pending = max(warp.pending, clock.l2_free + m.l2_latency)
        clock.l2_free = max(clock.l2_free, clock.dram_free - 4 * L2_QUEUE)  # writes that wait for DRAM hold up the rest
    elif kind == P.COPY:
        queues[0, w].latest = max(queues[0, w].latest, done)
        warp.copied = max(warp.copied, done)
    elif kind == P.ATOMIC:
        warp.pending = max(warp.pending, done)
    return done, LONG
