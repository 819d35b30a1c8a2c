"""malloc and free in kernels: blocks of powers of two out of one allocation, the context's heap."""

from ..jit import layout as L
from ..jit.raw import inner, load_i64, machine_function, store_i64
from ..jit.state import ALLOC_KIND, ALLOC_WORDS, G_ALLOCS, G_NALLOCS, fault, grid_of

# The heap begins with the offset of what was never given out, then the first free block of each size. A block begins
# with its size's logarithm and, while it is free, the next free one; or LIVE.
HEAP_HEADER = 512  # bytes for these
TOP, LISTS = 0, 8
BLOCK_HEADER = 16
LEAST, MOST = 4, 40  # logarithms of sizes
LIVE = 0x6C697665
KIND_HEAP = 5  # of ALLOC_KIND: the place of "heap" in memory.KINDS


@inner
def find_heap(w):
    """Row of the heap in the table of allocations, 0 if there is none."""
    g = grid_of(w)
    row = load_i64(g + G_ALLOCS)
    for _ in range(load_i64(g + G_NALLOCS)):
        if load_i64(row + 8 * ALLOC_KIND) == KIND_HEAP:
            return row
        row += 8 * ALLOC_WORDS
    return 0


@inner
def take(heap, end, nbytes):
    """Address of a new block, 0 when the heap is full. Blocks are given again only when nothing else is left."""
    size = LEAST
    while size < MOST and (1 << size) < nbytes:
        size += 1
    top = max(load_i64(heap + TOP), HEAP_HEADER)
    block = heap + top
    if block + BLOCK_HEADER + (1 << size) <= end:
        store_i64(heap + TOP, top + BLOCK_HEADER + (1 << size))
    else:
        block = load_i64(heap + LISTS + 8 * size)
        if block == 0:
            return 0
        store_i64(heap + LISTS + 8 * size, load_i64(block + 8))
    store_i64(block, size)
    store_i64(block + 8, LIVE)
    return block + BLOCK_HEADER


@machine_function("void(int64,int32)")
def vg_malloc(w, mask):
    """Sizes at SCRATCH_ADDRESS; addresses, 0 when there is no room, at SCRATCH_VALUE."""
    row = find_heap(w)
    for lane in range(32):
        if mask >> lane & 1:
            nbytes = load_i64(w + L.SCRATCH_ADDRESS + 8 * lane)
            given = 0 if row == 0 or nbytes <= 0 else take(load_i64(row), load_i64(row + 8), nbytes)
            store_i64(w + L.SCRATCH_VALUE + 8 * lane, given)


@machine_function("void(int64,int32,int32)")
def vg_free(w, mask, site):
    """Addresses at SCRATCH_ADDRESS; one that malloc has not given, or that is free already, ends in a trap."""
    row = find_heap(w)
    for lane in range(32):
        address = load_i64(w + L.SCRATCH_ADDRESS + 8 * lane)
        if not mask >> lane & 1 or address == 0:
            continue
        block = address - BLOCK_HEADER
        inside = row != 0 and load_i64(row) + HEAP_HEADER <= block and address < load_i64(row + 8)
        if not inside or load_i64(block + 8) != LIVE:
            fault(w, L.FAULT_TRAP, lane, site, address)
            return
        first = load_i64(row) + LISTS + 8 * load_i64(block)
        store_i64(block + 8, load_i64(first))
        store_i64(first, block)
