"""What a launch's traces say of memory: the lines that blocks share, and how much of what they read comes from DRAM."""

from dataclasses import dataclass

import numba
import numpy as np

from ..jit import layout as L
from ..jit import raw

_WRITES = {L.STORE, L.ATOMIC, L.ASYNC_WRITE}
T_ENTER, T_SHARED, T_GLOBAL, T_LOCAL, T_MBARRIER, T_BULK = range(1, 7)  # as machine/count.py has them
COMMON = 1 << 62  # flag of a line that blocks far from each other touch
ALLOCATION_SHIFT = 30  # of lines: an allocation's index in a line's number


def _jit(fn):
    with raw.kept():
        return numba.njit(cache=True, nogil=True, error_model="numpy")(fn)


@_jit
def bits(x):
    """Of four sectors, how many."""
    return (x & 1) + (x >> 1 & 1) + (x >> 2 & 1) + (x >> 3 & 1)


@_jit
def more(word):
    """Words that follow this one and belong to it."""
    tag = word >> 60
    return (word >> 8) & 0xFFFFFF if tag == T_GLOBAL or tag == T_MBARRIER or tag == T_BULK else 0


@_jit
def renumber(words, starts, nwarps, lows, ranks, nblocks_code):
    """Rewrite lines as (allocation's rank, offset), so that nothing depends on where memory lies.

    -> (words, entries per block of threads and of code).
    """
    out = words.copy()
    entries = np.zeros((max(1, (len(starts) - 1) // nwarps), nblocks_code), np.int64)
    row = 0
    for v in range(len(starts) - 1):
        p = starts[v]
        while p < starts[v + 1]:
            tag = words[p] >> 60
            if tag == 1:
                entries[v // nwarps, (words[p] >> 32) & 0xFFFFFFF] += 1
            k = more(words[p])
            first = p + 1 if tag == T_GLOBAL else p + 2 if tag == T_BULK else p + 1 + k
            for j in range(first, p + 1 + k):
                address = ((words[j] >> 4) << 7) + 127 if tag == T_GLOBAL else words[j]
                if not (lows[row] <= address and (row + 1 == len(lows) or address < lows[row + 1])):
                    row, high = 0, len(lows) - 1
                    while row < high:
                        mid = (row + high + 1) >> 1
                        if lows[mid] <= address:
                            row = mid
                        else:
                            high = mid - 1
                line = (ranks[row] << ALLOCATION_SHIFT) + (address >> 7) - (lows[row] >> 7)
                out[j] = (line << 4) | (words[j] & 15 if tag == T_GLOBAL else 15)
            p += 1 + k
    return out, entries


@_jit
def place(table, line):
    """Where a line is, or goes, in an open table of a power of two; table holds line + 1, 0 for none."""
    size = len(table)
    k = (line * 0x9E3779B97F4A7C15 >> 30) & (size - 1)
    while table[k] != 0 and table[k] != line + 1:
        k = (k + 1) & (size - 1)
    return k


@_jit
def survey(words, starts, nwarps, table, blocks, first, weight, common, unique):
    """Fill in, and flag in `words` the lines that two or more blocks of threads touch.

    table, blocks: line -> four bits of sectors for each block of threads; first: (site, block) -> its first line, -1
    for none; weight: (allocation, site) -> sectors; common: (site) -> lines that are not shared; unique: (allocation)
    -> sectors that the blocks touch, each for itself.
    """
    for turn in range(2):
        for v in range(len(starts) - 1):
            block = v // nwarps
            p = starts[v]
            while p < starts[v + 1]:
                tag, k = words[p] >> 60, more(words[p])
                if tag != T_GLOBAL and tag != T_BULK:
                    p += 1 + k
                    continue
                site = (words[p] >> 32) & 0xFFFFFFF
                n = k if tag == T_GLOBAL else ((words[p + 1] >> 32) + 127) >> 7
                for i in range(n):
                    j = p + 1 + i if tag == T_GLOBAL else p + 2  # a bulk copy's lines follow its first
                    line, sectors = (words[j] & ~COMMON) >> 4, words[j] & 15
                    if tag == T_BULK:
                        line += i
                    at = place(table, line)
                    if turn == 0:
                        if table[at] == 0:
                            table[at] = line + 1
                        fresh = sectors & ~(blocks[at] >> (4 * block))
                        blocks[at] |= sectors << (4 * block)
                        unique[line >> ALLOCATION_SHIFT] += bits(fresh)
                        weight[line >> ALLOCATION_SHIFT, site] += bits(sectors)
                        if first[site, block] < 0:
                            first[site, block] = line
                    elif blocks[at] >> (4 * block) << (4 * block) != blocks[at] or blocks[at] >> (4 * block + 4) != 0:
                        words[j] |= COMMON
                    else:
                        common[site] += 1
                p += 1 + k


@_jit
def moved(words, starts):
    """(sectors of global memory that accesses touch, wavefronts of shared memory), in all the traces."""
    sectors, wavefronts = 0, 0
    for v in range(len(starts) - 1):
        p = starts[v]
        while p < starts[v + 1]:
            tag, k = words[p] >> 60, more(words[p])
            if tag == T_GLOBAL:
                for j in range(p + 1, p + 1 + k):
                    sectors += bits(words[j] & 15)
            elif tag == T_SHARED:
                wavefronts += words[p] & 0xFF
            p += 1 + k
    return sectors, wavefronts


@_jit
def _bulk_lines(words, starts):
    """Lines that bulk copies touch, in all."""
    n = 0
    for v in range(len(starts) - 1):
        p = starts[v]
        while p < starts[v + 1]:
            if words[p] >> 60 == T_BULK:
                n += ((words[p + 1] >> 32) + 127) >> 7
            p += 1 + more(words[p])
    return n


@dataclass(frozen=True)
class Traffic:
    """Traces ready for the simulation, and what they say of DRAM."""

    words: np.ndarray
    entries: np.ndarray  # (block of threads, block of code): times that warps entered it
    miss: np.ndarray  # per site: of a block's first touches, the part that no other block brought to L2 before
    footprint: float  # bytes that the grid touches
    wave: float  # bytes that the blocks that run together touch
    written: float  # bytes that the grid writes
    touched: dict[int, float]  # allocation's rank -> bytes that the grid touches
    moved: tuple[float, float]  # by a traced block: sectors of global memory, wavefronts of shared memory


def rank(trace) -> np.ndarray:
    """Of the allocations, by address: their order of creation, from 1."""
    order = np.argsort(trace.allocations[:, 2], kind="stable")
    return np.argsort(order, kind="stable").astype(np.int64) + 1


def analyse(trace, sites, nwarps: int, nblocks_code: int, grid, wave_blocks: int, l2_bytes: float) -> Traffic:
    """`sites`: lowered sites of the kernel; `wave_blocks`: blocks that run at once on the device."""
    n, nsites = len(trace.blocks), max(1, len(sites))
    lows, ends, ranks = trace.allocations[:, 0].copy(), trace.allocations[:, 1], rank(trace)
    words, entries = renumber(trace.words, trace.starts, nwarps, lows, ranks, nblocks_code)
    size = 1 << max(8, int(2 * (len(words) + _bulk_lines(words, trace.starts))).bit_length())
    table, blocks = np.zeros(size, np.int64), np.zeros(size, np.int64)
    first, own = np.full((nsites, n), -1, np.int64), np.zeros(nsites, np.int64)
    weight, unique = np.zeros((len(ranks) + 1, nsites)), np.zeros(len(ranks) + 1)
    survey(words, trace.starts, nwarps, table, blocks, first, weight, own, unique)
    total = grid[0] * grid[1] * grid[2]
    whole, together = np.ones(nsites), np.ones(nsites)
    for site in np.flatnonzero(weight.sum(axis=0)):
        whole[site], together[site] = _shares(first[site], trace.blocks, grid, wave_blocks, own[site] == 0 and n > 1)
    sizes = dict(zip(ranks.tolist(), (ends - lows).tolist(), strict=True))
    footprint = wave = written = 0.0
    touched = {}
    for number in np.flatnonzero(unique):
        block = 32 * unique[number] / n  # bytes of one block of threads
        all_of_it = block * total * np.average(whole, weights=weight[number])
        limit = min(1.0, sizes[int(number)] / all_of_it)
        used = np.flatnonzero(weight[number])
        whole[used] *= limit
        touched[int(number)] = float(all_of_it * limit)
        footprint += all_of_it * limit
        wave += min(block * min(total, wave_blocks) * np.average(together, weights=weight[number]), sizes[int(number)])
        if any(sites[site].kind in _WRITES for site in used):
            written += all_of_it * limit
    kept = min(1.0, l2_bytes / max(footprint, 1.0))  # what one wave of blocks leaves in L2 for a later one
    miss = whole + (np.maximum(together, whole) - whole) * (1 - kept)
    own_share = tuple(count / n for count in moved(words, trace.starts))
    return Traffic(words, entries, miss, float(footprint), float(wave), float(written), touched, own_share)


def _shares(first, blocks, grid, wave_blocks: int, shared: bool) -> tuple[float, float]:
    """(of the whole grid, of a wave): different data / data touched, for one site.

    first: the first line that each traced block touches, -1 for none. How it depends on (blockIdx.x, y, z) is read off
    the traces; a coordinate on which it does not depend is one along which blocks share.
    """
    total = grid[0] * grid[1] * grid[2]
    if shared:
        return 1.0 / total, 1.0 / min(total, wave_blocks)
    present = np.flatnonzero(first >= 0)
    if len(present) < 3:
        return 1.0, 1.0
    axes = [k for k in range(3) if grid[k] > 1]
    where = np.array([_coordinates(blocks[b], grid) for b in present], float)[:, axes]
    matrix = np.column_stack([np.ones(len(present)), where])
    if np.linalg.matrix_rank(matrix) < matrix.shape[1]:
        return 1.0, 1.0
    lines = (first[present] - first[present[0]]).astype(float)
    solution, *_ = np.linalg.lstsq(matrix, lines, rcond=None)
    if np.abs(matrix @ solution - lines).max() > 2.0:
        return 1.0, 1.0
    wave = _extent(grid, wave_blocks)
    whole = together = 1.0
    for k, d in zip(axes, solution[1:], strict=True):
        if abs(d) * grid[k] < 0.5:
            whole /= grid[k]
            together /= wave[k]
    return whole, together


def _coordinates(index: int, grid):
    return index % grid[0], index // grid[0] % grid[1], index // (grid[0] * grid[1])


def _extent(grid, n: int):
    """How far n blocks in a row reach along each axis."""
    x = min(grid[0], n)
    y = min(grid[1], -(-n // grid[0]))
    z = min(grid[2], -(-n // (grid[0] * grid[1])))
    return x, y, z
