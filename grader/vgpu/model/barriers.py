"""Barriers and mbarriers of the simulated SM: who waits, until when, and for what."""

from ..machine import copies as M
from .sm import AT_BARRIER, AT_MBARRIER, BAR, LONG, RUN, TO_FETCH, part, waited

BARRIER_CYCLES = 12.0


@part
def go_on(warp, scheduler, since):
    """The warp is to run again, from then on."""
    warp.state, warp.since, warp.reason = RUN, since, TO_FETCH
    scheduler.dirty = 1


@part
def arrive(warp, first, end, wanted, warps, schedulers, stalls, now):
    """A warp is at a barrier; the last that is waited for opens it. first, end: the warps of its block."""
    arrived, alive = 0, 0
    for v in range(first, end):
        other = warps[v]
        if other.state == RUN or other.state == AT_BARRIER or other.state == AT_MBARRIER:
            alive += 1
        if other.state == AT_BARRIER and other.barrier == warp.barrier:
            arrived += 1
    if arrived == alive or (wanted and arrived * 32 >= wanted):
        number = warp.barrier
        for v in range(first, end):
            other = warps[v]
            if other.state == AT_BARRIER and other.barrier == number:
                cycles = now + BARRIER_CYCLES - other.since
                if cycles > 0:
                    waited(stalls, other.ip - 1, BAR, cycles)
                go_on(other, schedulers[v & 3], now + BARRIER_CYCLES)


@part
def left_by(first, end, warps, schedulers, now):
    """A warp of the block has ended: if all others wait at one barrier, they go on."""
    alive, waiting, number = 0, 0, -1
    for v in range(first, end):
        warp = warps[v]
        if warp.state == RUN or warp.state == AT_MBARRIER:
            alive += 1
        elif warp.state == AT_BARRIER:
            waiting += 1
            number = warp.barrier
    if waiting and alive == 0:
        for v in range(first, end):
            warp = warps[v]
            if warp.state == AT_BARRIER and warp.barrier == number:
                go_on(warp, schedulers[v & 3], max(warp.since, now) + BARRIER_CYCLES)


@part
def row_of(bars, r, address):
    """The row of the block's mbarrier at this address; a new one if it has none, the last if there are too many."""
    last = bars.shape[1] - 1
    for k in range(last):
        if bars[r, k].address == address:
            return k
        if bars[r, k].address < 0:
            bars[r, k].address = address
            return k
    return last


@part
def note(bar, when, why):
    """Something that the phase under way waits for happens then; the phase ends when nothing is outstanding."""
    if when >= bar.latest:
        bar.latest, bar.why = when, why
    if bar.pending <= 0 and bar.nbytes == 0 and bar.count > 0:
        bar.done, bar.done_why = bar.latest, bar.why
        bar.phase += 1
        bar.pending = bar.count
        bar.latest = 0.0


@part
def at_mbarriers(words, at, end, site, bars, r, clock, when, copied):
    """Do what the trace's entries of one instruction say.

    when: the time; copied: when the warp's cp.async are over.
    """
    p = at
    while p < end and (words[p] >> 32) & 0xFFFFFFF == site:
        code, word = words[p] & 0xFF, words[p + 1]
        arrivals, nbytes = (word >> 20) & 0xFFF, word >> 32
        row = row_of(bars, r, word & 0xFFFFF)
        bar = bars[r, row]
        p += 2
        if code == M.INIT or code == M.INVAL:
            bar.count = bar.pending = arrivals if code == M.INIT else 0
            bar.nbytes, bar.phase, bar.latest, bar.done, bar.why, bar.done_why = 0, 0, 0.0, 0.0, 0, 0
        elif code == M.TEST or code == M.TEST_PARITY:
            clock.waits, clock.parity = row, arrivals & 1
        elif code == M.EXPECT:
            bar.nbytes += nbytes
        else:
            why, then = BAR, when  # what may complete the phase, and when
            if code == M.COMPLETE:
                bar.nbytes -= nbytes
                why = LONG
            elif code == M.ARRIVE_EXPECT:
                bar.nbytes += nbytes
            elif code == M.ARRIVE_DROP:
                bar.count -= arrivals
            elif (code == M.ARRIVE_COPIED or code == M.ARRIVE_COPIED_INC) and copied > when:
                why, then = LONG, copied
            if code != M.COMPLETE and code != M.ARRIVE_COPIED_INC:
                bar.pending -= arrivals
            note(bar, then, why)


@part
def open_mbarriers(first, end, warps, bars, r, schedulers, stalls):
    """Those of the block whose phase is over go on."""
    for v in range(first, end):
        warp = warps[v]
        if warp.state != AT_MBARRIER:
            continue
        bar = bars[r, warp.awaited]
        if bar.phase & 1 != warp.parity:
            until = max(bar.done, warp.since)
            warp.held, warp.held_why = until - warp.since, bar.done_why
            waited(stalls, warp.ip - 1, bar.done_why, warp.held)
            go_on(warp, schedulers[v & 3], until)
