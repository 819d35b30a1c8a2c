"""Byte offsets in the state of a warp, shared by the compiled kernels and by the machine that schedules them.

A kernel is `int32 kernel(char *warp)`: it runs the warp until it is done, waits at a barrier, or has used up its budget
of backward branches, and returns one of the STATUS values.
"""

LANES = 32

# --- per lane, 32 x int32 each
PC = 0  # block at which the lane goes on, or'ed with a WAIT bit; EXITED when it has returned
TID_X, TID_Y, TID_Z = 128, 256, 384
# --- int32 fields
ALIVE = 512  # lanes that exist and have not returned
MASK = 516  # lanes that run together now
STOP_AT = 520  # lowest block at which other lanes wait to be joined; entering it or a later one goes to the dispatcher
FLAGS = 524  # OBSERVE bits: what the machine wants to be told of
BUDGET = 528  # backward branches left before the warp gives way
BAR_ID, BAR_COUNT, BAR_KIND, BAR_ACC = 532, 536, 540, 544  # the barrier at which the warp waits, and its vote
BAR_RESULT = 548
SPUN = 552  # set when the budget ran out in a loop that may wait for other lanes
FAULT = 556  # FAULT_* code, 0 when all is well
FAULT_LANE, FAULT_SITE = 560, 564
CTAID, NTID, NCTAID = 568, 580, 592  # x, y, z
WARPID = 604
SHARED_BYTES = 608
LOCAL_BYTES = 612  # a lane
LAST_GROUP = 616  # block of the group that ran last: the dispatcher's turn
SMID = 624
RESUME = 628  # block at which all live lanes go on together, or -1: then PC tells for each lane
DYNAMIC_BYTES = 632
SYNC_SITE = 636  # site of the barrier or warp operation at which it waits
# --- int64 fields
PARAMS = 640
SHARED = 648  # address of the block's shared memory
LOCAL = 656  # address of the warp's local memory, lane by lane
SYMBOLS = 664  # table of the module's variables' addresses
CACHE = 672  # per memory site: [lowest, end) of the allocation it touched last
GRID = 680  # address of the launch's state (state.py)
BLOCK_INDEX = 688  # linear index of the block in the grid
FAULT_ADDRESS = 696
COUNTS = 704  # per block of code: times run, lanes
SITES = 712  # per memory site: counters
ASYNC = 720  # state of the warp's asynchronous copies
STATE = 736  # address of the block's state
TRACE = 744  # next free word of the warp's trace, 0 for none
TRACE_END = 752
CLOCK = 760  # int32: turns of the clock that the warp has read
DIVERGED = 764  # lanes that were elsewhere when others of the warp arrived at a barrier
SCRATCH_ADDRESS = 768  # 32 x int64: addresses of the access being made
SCRATCH_VALUE = 1024  # 4 x 32 x int64: its values
SCRATCH_EXTRA = 2048  # 32 x int64
WAITED = 2304  # 32 x int64: the lanes present (low half) and alive (high) when this lane last waited in vain
LOCAL_SHADOW = 2560  # int64: address of initcheck's bytes for the warp's local memory, laid out as that is
LOCAL_MARK = 2568  # int64: eight times the byte that says written in this block
BAR_SITE = 2576  # int32: site of the barrier at which lanes of the warp have arrived last
FRAME = 2624  # registers that live across blocks of code

EXITED = 0x7FFFFFFF
WAIT_BARRIER = 0x40000000
WAIT_WARP = 0x20000000
WAIT_MASK = WAIT_BARRIER | WAIT_WARP
NO_STOP = 0x7FFFFFFF

STATUS_DONE, STATUS_BARRIER, STATUS_YIELD, STATUS_GRID, STATUS_STUCK, STATUS_FAULT = range(6)

BAR_SYNC, BAR_ARRIVE, BAR_POPC, BAR_AND, BAR_OR, BAR_GRID = range(6)

(
    FAULT_NONE,
    FAULT_ADDRESS_RANGE,
    FAULT_MISALIGNED,
    FAULT_TRAP,
    FAULT_ASSERT,
    FAULT_DEADLOCK,
    FAULT_OVERFLOW,
    FAULT_MBARRIER,
) = range(8)

OBSERVE_COUNT, OBSERVE_RACE, OBSERVE_INIT = 1, 2, 4

# Windows of the generic address space. Addresses on x86-64 and aarch64 are below 2**48, so these never are memory.
SHARED_WINDOW = 1 << 56
LOCAL_WINDOW = 1 << 57
WINDOW_SHIFT = 56
RANK_SHIFT, MAX_RANK = 24, 127  # an address of shared::cluster has the block's rank above the offset

# Access kinds handed to the machine
LOAD, STORE, ATOMIC, ASYNC_READ, ASYNC_WRITE = range(5)
SPACE_GLOBAL, SPACE_SHARED, SPACE_LOCAL, SPACE_GENERIC, SPACE_CONST = range(5)
