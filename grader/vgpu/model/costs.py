"""What a PTX instruction costs an SM: its pipe, how many issue slots the machine code takes for it, its latency.

Pipes are those of Nsight Compute's instruction mix: FMA (FP32), ALU (integer, logic, compare), FP64, XU (special
functions and conversions), LSU (memory), CBU (control). What ptxas makes disappear (copies of registers, reads of
parameters, which become constant operands) costs nothing. Slots for what has no instruction of its own (64-bit
integers, division) are the length of the sequence that ptxas emits, as cuobjdump shows it for sm_80.
"""

FMA, ALU, FP64, XU, LSU, CBU, NONE = range(7)
PIPES = ("FMA", "ALU", "FP64", "XU", "LSU", "CBU")

FIXED_LATENCY = 4  # cycles from an FMA or ALU instruction to the next that needs its result

_FREE = {
    "mov",
    "cvta",
    "pragma",
    "loc",
    "isspacep",
    "mapa",
    "createpolicy",
    "prefetch",
    "prefetchu",
    "applypriority",
    "discard",
}
_LOGIC = {
    "and",
    "or",
    "xor",
    "not",
    "lop3",
    "shl",
    "shr",
    "shf",
    "selp",
    "setp",
    "set",
    "min",
    "max",
    "abs",
    "neg",
    "prmt",
    "slct",
}
_SPECIAL = {"sin", "cos", "lg2", "ex2", "rcp", "rsqrt", "sqrt", "tanh"}
_WIDE = {"u64", "s64", "b64"}


def cost(parts: tuple[str, ...]) -> tuple[int, int, int]:
    """(pipe, issue slots, latency in cycles) of an opcode split at its dots; the model adds memory's latency."""
    base, kind = parts[0], parts[-1]
    if base in _FREE or (base in ("ld", "st") and any(p.startswith("param") for p in parts)):
        return NONE, 0, 0
    if base in ("ld", "ldu", "st", "atom", "red", "ldmatrix", "stmatrix", "shfl", "cp", "mbarrier"):
        if (base == "cp" and parts[-1].endswith("_group")) or "wait_group" in parts or "wait_all" in parts:
            return LSU, 1, 2
        return LSU, 1, 24 if base == "shfl" else 0
    if base in ("bra", "ret", "exit", "call", "bar", "barrier", "membar", "fence", "trap", "nanosleep", "brkpt"):
        return CBU, 1, FIXED_LATENCY
    if kind == "f64":
        return _double(base)
    if base in _SPECIAL:
        approx = "approx" in parts
        return XU, 1 if approx and base in ("ex2", "lg2", "rcp", "tanh") else 2 if approx else 8, 18
    if base == "div":
        if kind in ("f32", "f16", "bf16"):
            return XU, 2 if "approx" in parts or "full" in parts else 8, 30
        return XU, 16 if kind not in _WIDE else 60, 80
    if base == "rem":
        return XU, 18 if kind not in _WIDE else 62, 80
    if base == "cvt":
        return _convert(parts)
    if base in ("popc", "clz", "bfind", "brev", "fns"):
        return XU, 1, 14
    if base in ("vote", "match", "redux", "activemask", "elect"):
        return ALU, 1, 12
    if kind in ("f32", "f16", "f16x2", "bf16", "bf16x2"):
        return (ALU if base in _LOGIC else FMA), 1, FIXED_LATENCY
    return _integer(base, parts, kind)


def _double(base):
    if base in ("div", "sqrt", "rcp", "rsqrt"):
        return FP64, 12, 60
    return FP64, 1, 8


def _convert(parts):
    to, source = parts[-2], parts[-1]
    whole = {"u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64", "b8", "b16", "b32", "b64"}
    if to in whole and source in whole:
        narrow = (to in _WIDE and source in _WIDE) or (to[0] != "s" and source in _WIDE)
        return (NONE, 0, 0) if narrow else (ALU, 1, FIXED_LATENCY)
    return XU, 1, 14


def _integer(base, parts, kind):
    wide = kind in _WIDE
    if base in ("mul", "mad", "mul24", "mad24"):
        if "wide" in parts:
            return FMA, 1, 5  # IMAD.WIDE
        return FMA, 4 if wide else 1, 8 if wide else FIXED_LATENCY
    if base in ("add", "sub", "addc", "subc") or base in _LOGIC:
        return ALU, 2 if wide and base not in ("selp",) else 1, FIXED_LATENCY + (2 if wide else 0)
    return ALU, 1, FIXED_LATENCY


def unit_lanes(pipe: int, card, timing) -> float:
    """Lanes of a pipe per SM and clock."""
    return {
        FMA: card.fp32_lanes,
        ALU: timing.int_lanes,
        FP64: timing.fp64_lanes,
        XU: 16,
        LSU: 32,
        CBU: 64,
    }[pipe]
