"""Offsets of the launch's state (GRID), a block's state (BLOCK) and the tables they point to; all words are int64."""

from . import layout as L
from .raw import inner, load_i32, load_i64, store_i32, store_i64

# --- GRID: one for each worker thread
G_ALLOCS = 0  # table of allocations, sorted by address
G_NALLOCS = 8
G_FINDINGS = 16  # rows of FINDING_WORDS
G_NFINDINGS = 24
G_PRINT = 32  # records of printf: block, thread, format's address, then PRINT_ARGS bytes
G_NPRINT = 40
G_PROGRESS = 48  # rises with every store and atomic: what tells waiting from work
G_SITES = 56  # rows of SITE_WORDS
G_LAUNCH = 64  # number of this launch, for the shadows of global memory
G_SHARED_SHIFT = 72  # log2 of the bytes that one word of shared shadow stands for
G_GLOBAL_SHIFT = 80
G_QUIET = 88  # per block of code: 1 when from there a lane only returns
G_CLOCK = 104  # last epoch given to a warp: they never repeat, so that shadows need no clearing
G_TIME = 112  # cycles, for %clock
G_KERNEL = 120  # address of the compiled kernel
G_WAITED = 128  # set once lanes have waited at a warp operation
G_SCRATCH = 152  # address of count.SCRATCH_WORDS words
G_PRINT_LOST = 160
G_GRID_BARRIER = 176  # epoch of the last barrier of the whole grid
G_ACQUIRED = 168  # table by block: time of its last acquire, then of its last release
GRID_BYTES = 512

ALLOC_WORDS = 8  # low, end, then:
ALLOC_RACE, ALLOC_INIT, ALLOC_KIND, ALLOC_INDEX = 2, 3, 4, 5  # shadows (0 for none)
ALLOC_DIRTY, ALLOC_TOUCHED = 6, 7  # written, read or written in this launch
CACHE_WORDS = 4  # of a memory site: low and end of the allocation that it touched last, its row
STRONG, RELEASING = (
    256,
    512,
)  # in a site's space word: a volatile, relaxed, acquire or release access; one that releases

# Entry of global memory's shadow: atomic << 63 | many << 62 | mixed << 61 | epoch << 38 | block << 20 | site << 10 | thread
EPOCH_SHIFT, BLOCK_SHIFT = 38, 20
MAX_EPOCHS, MAX_BLOCKS = 1 << 23, 1 << 18  # beyond, accesses are not watched
BLOCK_MASK, SITE_MASK = MAX_BLOCKS - 1, 1023
WHO_MASK = ((MAX_EPOCHS - 1) << EPOCH_SHIFT) | (BLOCK_MASK << BLOCK_SHIFT)  # epoch and block
SITE_WORDS = 4  # bytes a lane, space, kind, block of code
ELEMENTS_SHIFT, ELEMENTS_MASK = 16, 7  # in a site's space word: elements that a vector access moves for a lane
LIVE_SHIFT = 20  # and the bits of those that the kernel uses
FINDING_WORDS = (
    12  # tool, kind, site, other site, block, thread, other block, other thread, address, value, count, distance
)
MAX_FINDINGS = 512
ANOTHER_WARPS, ANOTHER_LANE = -1, -2  # in place of the other thread, where nothing names it
APART_LANES, APART_WARPS, APART_BLOCKS = range(3)
PRINT_ARGS = 512
PRINT_BYTES = 24 + PRINT_ARGS
MAX_PRINTS = 8192

MEMCHECK, RACECHECK, INITCHECK, SYNCCHECK = range(4)
RACE_RAW, RACE_WAR, RACE_WAW = range(3)  # racecheck kinds; + 3 for asynchronous copies, + 8 for global memory
RACE_UNWAITED, RACE_SOURCE = 3, 4
GLOBAL_KIND = 8  # added to a racecheck kind found in global memory
SYNC_DIVERGENT, SYNC_NOT_NAMED, SYNC_STUCK, SYNC_BARRIER_COUNT, SYNC_MBARRIER, SYNC_MISSING_LANES, SYNC_GRID = range(7)

# --- BLOCK
B_NWARPS = 0
B_DONE = 8
B_BASE = 16  # first epoch of this block: older shadow entries are another block's
B_SHADOW_W, B_SHADOW_R0, B_SHADOW_R1 = 24, 32, 40  # shared memory's shadow, a word each
B_NAMED = 48  # 1 once warps have met otherwise than at a barrier of all, + 2 once some lanes of a warp have without the others
B_INDEX = 56
B_RELEASED, B_ACQUIRED = 64, 72  # times on the grid's clock of atomics
B_WARPS = 80  # address of the first warp's state
B_WARP_STRIDE = 88
B_WORK = 96  # backward branches and calls of its warps so far
B_MARK = 112  # what a written byte of local memory is marked with: 1 to 255, another one in each block
B_PARTIAL = (
    104  # address of 32 x 32 words a warp: epoch of lane m that lane l has seen by a syncwarp of some lanes; or 0
)
B_STATUS = 128  # 32 words: RUN, AT_BARRIER, DONE, AT_GRID
B_ARRIVED, B_EXPECTED, B_ACC = 384, 512, 640  # 16 barriers each
B_CLOCK = 768  # 32 warps: own epoch
B_BARRIER = 1024  # the last barrier of all: epochs up to it are over for everybody
B_PAIR = 1280  # 32 x 32: epoch of warp v that warp w has seen
B_PENDING_COPIES = B_PAIR + 32 * 32 * 8
B_MEMBERS = B_PENDING_COPIES + 64  # 16 barriers: warps that have arrived
B_ARRIVAL = B_MEMBERS + 128  # 16 x 32: epoch in which each arrived
B_SYNCED = B_ARRIVAL + 16 * 32 * 8  # 32 warps: epochs up to it are over for every lane of the warp
B_RELEASE = B_SYNCED + 32 * 8  # 32 warps: time of the last fence
B_ACQUIRE = B_RELEASE + 32 * 8  # 32 warps: time of the last atomic or strong access
BLOCK_BYTES = B_ACQUIRE + 32 * 8

GIVE_WAY = -1000  # a budget that makes a warp stop at its next backward branch, told apart from one that is used up
RUN, AT_BARRIER, DONE, AT_GRID = range(4)


@inner
def grid_of(w):
    return load_i64(w + L.GRID)


@inner
def thread_of(w, lane):
    return load_i32(w + L.WARPID) * 32 + lane


@inner
def fault(w, code, lane, site, address):
    """Note the first fault of the warp and make it give way at its next backward branch."""
    if load_i32(w + L.FAULT) == 0:
        store_i32(w + L.FAULT, code)
        store_i32(w + L.FAULT_LANE, lane)
        store_i32(w + L.FAULT_SITE, site)
        store_i64(w + L.FAULT_ADDRESS, address)
    store_i32(w + L.BUDGET, GIVE_WAY)


@inner
def distance(block, thread, other_block, other_thread):
    """How far apart two parties are."""
    if block != other_block:
        return APART_BLOCKS
    if other_thread == ANOTHER_LANE or (other_thread >= 0 and thread >> 5 == other_thread >> 5):
        return APART_LANES
    return APART_WARPS


@inner
def report(g, tool, kind, site, other, block, thread, other_block, other_thread, address, value):
    """Add a finding, or count it again when the same places did the same before."""
    rows, n = load_i64(g + G_FINDINGS), load_i64(g + G_NFINDINGS)
    apart = distance(block, thread, other_block, other_thread)
    for k in range(n):
        row = rows + k * FINDING_WORDS * 8
        same = (
            load_i64(row) == tool
            and load_i64(row + 8) == kind
            and load_i64(row + 16) == site
            and load_i64(row + 24) == other
        )
        if same and load_i64(row + 88) == apart:
            store_i64(row + 80, load_i64(row + 80) + 1)
            return
    if n >= MAX_FINDINGS:
        return
    row = rows + n * FINDING_WORDS * 8
    store_i64(row, tool)
    store_i64(row + 8, kind)
    store_i64(row + 16, site)
    store_i64(row + 24, other)
    store_i64(row + 32, block)
    store_i64(row + 40, thread)
    store_i64(row + 48, other_block)
    store_i64(row + 56, other_thread)
    store_i64(row + 64, address)
    store_i64(row + 72, value)
    store_i64(row + 80, 1)
    store_i64(row + 88, apart)
    store_i64(g + G_NFINDINGS, n + 1)
