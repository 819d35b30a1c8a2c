"""What a launch's traces say of memory: the lines that blocks share, and how much of what they read comes from DRAM."""

from dataclasses import dataclass

import numba
import numpy as np

COMMON = 1 << 62  # flag of a line that blocks far from each other touch
ALLOCATION_SHIFT = 30  # of lines: an allocation's index in a line's number


def _jit(fn):
    return numba.njit(cache=True, nogil=True, error_model="numpy")(fn)


@_jit
def renumber(words, starts, nwarps, lows, ends, ranks, nblocks_code):
    """Rewrite lines as (allocation's rank, offset), so that nothing depends on where memory lies.

    -> (words, for each line its site, its block of threads, its place, entries per block of threads and of code).
    """
    out = words.copy()
    n = len(words)
    sites, owners, places = np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, np.int64)
    entries = np.zeros((max(1, (len(starts) - 1) // nwarps), nblocks_code), np.int64)
    found = 0
    for v in range(len(starts) - 1):
        p = starts[v]
        while p < starts[v + 1]:
            tag = words[p] >> 60
            if tag == 1:
                entries[v // nwarps, (words[p] >> 32) & 0xFFFFFFF] += 1
            if tag != 3:
                p += 1
                continue
            site, k = (words[p] >> 32) & 0xFFFFFFF, (words[p] >> 8) & 0xFFFFFF
            for j in range(p + 1, p + 1 + k):
                address = (words[j] >> 4) << 7
                low, high = 0, len(lows) - 1
                while low < high:
                    mid = (low + high + 1) >> 1
                    if lows[mid] <= address + 127:
                        low = mid
                    else:
                        high = mid - 1
                line = (ranks[low] << ALLOCATION_SHIFT) + (address >> 7) - (lows[low] >> 7)
                out[j] = (line << 4) | (words[j] & 15)
                sites[found], owners[found], places[found] = site, v // nwarps, j
                found += 1
            p += 1 + k
    return out, sites[:found], owners[:found], places[:found], entries


@dataclass(frozen=True)
class Traffic:
    """Traces ready for the simulation, and what they say of DRAM."""

    words: np.ndarray
    entries: np.ndarray  # (block of threads, block of code): times that warps entered it
    miss: np.ndarray  # per site: of a block's first touches, the part that no other block brought to L2 before
    footprint: float  # bytes that the grid touches
    wave: float  # bytes that the blocks that run together touch
    written: float  # bytes that the grid writes
    touched: dict[int, float]  # allocation's first address -> bytes that the grid touches


def analyse(trace, sites, nwarps: int, nblocks_code: int, grid, wave_blocks: int, l2_bytes: float) -> Traffic:
    """`sites`: lowered sites of the kernel; `wave_blocks`: blocks that run at once on the device."""
    n = len(trace.blocks)
    lows, ends = trace.allocations[:, 0], trace.allocations[:, 1]
    ranks = np.argsort(np.argsort(trace.allocations[:, 2], kind="stable"), kind="stable") + 1
    words, of_site, of_block, places, entries = renumber(
        trace.words, trace.starts, nwarps, lows, ends, ranks.astype(np.int64), nblocks_code
    )
    nsites = max(1, len(sites))
    miss = np.ones(nsites)
    if not len(places):
        return Traffic(words, entries, miss, 0.0, 0.0, 0.0, {})
    lines = words[places] >> 4
    sectors = _popcount(words[places] & 15)
    shared = _mark_common(words, places, lines, of_block, n)
    blocks = grid[0] * grid[1] * grid[2]
    sizes = dict(zip(ranks.tolist(), (ends - lows).tolist(), strict=True))
    whole, together = np.ones(nsites), np.ones(nsites)
    for site in np.unique(of_site):
        own = of_site == site
        whole[site], together[site] = _shares(lines[own], of_block[own], trace.blocks, grid, wave_blocks, shared[own])
    footprint = wave = written = 0.0
    touched = {}
    first_of = dict(zip(ranks.tolist(), lows.tolist(), strict=True))
    allocation = lines >> ALLOCATION_SHIFT
    for rank in np.unique(allocation):
        own = allocation == rank
        unique = _unique_bytes(lines[own], of_block[own], sectors[own]) / n  # of one block
        weight = sectors[own]
        all_of_it = unique * blocks * np.average(whole[of_site[own]], weights=weight)
        limit = min(1.0, sizes.get(int(rank), all_of_it) / max(all_of_it, 1.0))
        whole[np.unique(of_site[own])] *= limit
        footprint += all_of_it * limit
        touched[first_of[int(rank)]] = all_of_it * limit
        at_once = unique * min(blocks, wave_blocks) * np.average(together[of_site[own]], weights=weight)
        wave += min(at_once, sizes.get(int(rank), at_once))
        if any(sites[s].kind != 0 for s in np.unique(of_site[own])):
            written += all_of_it * limit
    kept = min(1.0, l2_bytes / max(footprint, 1.0))  # what one wave of blocks leaves in L2 for a later one
    miss = whole + (np.maximum(together, whole) - whole) * (1 - kept)
    return Traffic(words, entries, miss, footprint, wave, written, touched)


def _popcount(x):
    return (x & 1) + (x >> 1 & 1) + (x >> 2 & 1) + (x >> 3 & 1)


def _unique_bytes(lines, blocks, sectors) -> float:
    """Bytes that the blocks touch, each for itself, added up; a line's sectors are those of its fullest access."""
    key = lines * 8 + blocks
    order = np.argsort(key, kind="stable")
    edges = np.flatnonzero(np.diff(key[order], prepend=-1))
    return 32.0 * float(np.maximum.reduceat(sectors[order], edges).sum())


def _mark_common(words, places, lines, blocks, n):
    """Flag the lines that two or more of the blocks touch. -> for each line, whether it is flagged."""
    if n < 2:
        return np.zeros(len(lines), bool)
    pairs = np.unique(lines * 8 + blocks)
    values, counts = np.unique(pairs >> 3, return_counts=True)
    common = np.isin(lines, values[counts > 1])
    words[places[common]] |= COMMON
    return common


def _shares(lines, owners, blocks, grid, wave_blocks, common):
    """(of the whole grid, of a wave): different data / data touched, for one site.

    How the first address depends on (blockIdx.x, y, z) is read off the traces; a coordinate on which it does not depend is one
    along which blocks share.
    """
    total = grid[0] * grid[1] * grid[2]
    if common.all():
        return 1.0 / total, 1.0 / min(total, wave_blocks)
    present, at = np.unique(owners, return_index=True)
    if len(present) < 3:
        return 1.0, 1.0
    axes = [k for k in range(3) if grid[k] > 1]
    where = np.array([_coordinates(blocks[b], grid) for b in present], float)[:, axes]
    matrix = np.column_stack([np.ones(len(present)), where])
    if np.linalg.matrix_rank(matrix) < matrix.shape[1]:
        return 1.0, 1.0
    first = lines[at].astype(float)
    solution, *_ = np.linalg.lstsq(matrix, first - first[0], rcond=None)
    if np.abs(matrix @ solution - (first - first[0])).max() > 2.0:
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
