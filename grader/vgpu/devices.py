"""The cards that the virtual GPU can be: what cuDeviceGetAttribute and its kin answer for each.

Sources: CUDA C++ Programming Guide, Compute Capabilities (limits per cc); NVIDIA's data sheets and architecture white
papers (SMs, clocks, memory); `deviceQuery` listings of each card (L2, engines, total memory). Total memory is what the
driver reports, a little less than the nominal size, to within a per cent. Timing parameters are not here but in
`grader/vgpu/model`.
"""

from __future__ import annotations

from dataclasses import dataclass

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


@dataclass(frozen=True)
class Limits:
    """What a compute capability allows."""

    warps_per_sm: int
    blocks_per_sm: int
    shared_per_sm: int  # bytes
    shared_per_block_optin: int  # bytes, static and dynamic, once opted in
    shared_reserved: int  # bytes that the system takes of each block's share
    shared_granularity: int  # bytes; a block's shared memory is rounded up to this
    single_to_double: int  # FP32 throughput / FP64 throughput
    clusters: bool = False


LIMITS = {
    (7, 5): Limits(32, 16, 64 * KIB, 64 * KIB, 0, 256, 32),
    (8, 0): Limits(64, 32, 164 * KIB, 163 * KIB, KIB, 128, 2),
    (8, 9): Limits(48, 24, 100 * KIB, 99 * KIB, KIB, 128, 64),
    (9, 0): Limits(64, 32, 228 * KIB, 227 * KIB, KIB, 128, 2, clusters=True),
}


@dataclass(frozen=True)
class Card:
    """One card."""

    key: str  # the name by which a user asks for it
    name: str  # what cuDeviceGetName says
    cc: tuple[int, int]
    sms: int
    clock_mhz: int  # boost
    memory_bytes: int
    memory_clock_mhz: int
    bus_bits: int
    l2_bytes: int
    copy_engines: int
    bandwidth_gbs: float  # device memory, peak, 10^9 bytes/s
    fp32_lanes: int  # per SM and clock
    nvlink: bool = False
    ecc: bool = True

    @property
    def limits(self) -> Limits:
        """What its compute capability allows."""
        return LIMITS[self.cc]


CARDS = {
    card.key: card
    for card in (
        Card("t4", "Tesla T4", (7, 5), 40, 1590, 15_843_721_216, 5001, 256, 4 * MIB, 3, 320, 64),
        Card(
            "a100", "NVIDIA A100-SXM4-80GB", (8, 0), 108, 1410, 84_986_691_584, 1593, 5120, 40 * MIB, 3, 2039, 64,
            nvlink=True,
        ),
        Card("l4", "NVIDIA L4", (8, 9), 58, 2040, 23_580_639_232, 6251, 192, 48 * MIB, 2, 300, 128),
        Card(
            "rtx4090", "NVIDIA GeForce RTX 4090", (8, 9), 128, 2520, 25_386_352_640, 10501, 384, 72 * MIB, 2, 1008, 128,
            ecc=False,
        ),
        Card(
            "h100", "NVIDIA H100 80GB HBM3", (9, 0), 132, 1980, 84_929_347_584, 2619, 5120, 50 * MIB, 3, 3350, 128,
            nvlink=True,
        ),
        Card(
            "h200", "NVIDIA H200", (9, 0), 132, 1980, 150_110_011_392, 3201, 6144, 60 * MIB, 3, 4800, 128,
            nvlink=True,
        ),
    )
}  # fmt: skip

DEFAULT = "a100"


TOPOLOGIES = ("nvlink", "pcie")  # how several devices are linked: `grader.vgpu.topology`


@dataclass(frozen=True)
class Machine:
    """Virtual devices, all of one card, and how they are linked."""

    cards: tuple[Card, ...]
    topology: str  # one of TOPOLOGIES


def parse(text: str) -> Machine:
    """What a name asks for: "a100", "virtual:h100", four of it "a100*4", linked so "a100*4@pcie"; "mine.toml" is a file.

    Without a topology, cards that have NVLink are linked by it, others are in a tree of PCIe switches. Raises ValueError,
    listing the names, for a card or a topology that is not in the table, a count that is not 1 to 16 and NVLink between
    cards that have none, and for a file that `grader.vgpu.model.cards.add` refuses.
    """
    named = text.strip().removeprefix("virtual:")
    name, at, topology = named.rpartition("@")
    if not at or topology.lower().endswith(".toml") or "/" in topology:  # an @ of a file's path
        name, at, topology = named, "", ""
    name, star, count = name.partition("*")
    key = name.lower() or DEFAULT
    if key.endswith(".toml"):
        key = _from_file(name)
    if key not in CARDS:
        raise ValueError(f"no virtual GPU is called {key!r}; there are {', '.join(CARDS)}, and e.g. 'a100*4' for four")
    if star and not (count.isdecimal() and 1 <= int(count) <= 16):
        raise ValueError(f"{text!r} asks for {count or 'no'} devices; 1 to 16 are possible, as in '{key}*4'")
    card, topology = CARDS[key], topology.strip().lower()
    if at and topology not in TOPOLOGIES:
        raise ValueError(f"no topology is called {topology!r}; there are {', '.join(TOPOLOGIES)}, as in '{key}*4@pcie'")
    if topology == "nvlink" and not card.nvlink:
        raise ValueError(
            f"{text!r} asks for NVLink, which the {card.name} does not have; '{key}*{count or 2}@pcie' works"
        )
    return Machine((card,) * (int(count) if star else 1), topology or ("nvlink" if card.nvlink else "pcie"))


_files: dict[str, str] = {}  # a file of cards -> the name of its first


def _from_file(path: str) -> str:
    from grader.vgpu.model import cards  # which needs this module

    if path not in _files:
        _files[path] = cards.add(path)[0].key
    return _files[path]


def attributes(card: Card, ordinal: int) -> dict[int, int]:
    """CUdevice_attribute -> value. An attribute that is not listed exists and is 0."""
    limits = card.limits
    texture = {21: 131072, 22: 131072, 23: 65536, 24: 16384, 25: 16384, 26: 16384, 27: 32768, 28: 32768, 29: 2048}
    texture |= {42: 32768, 43: 2048, 44: 1, 45: 32768, 46: 32768, 47: 8192, 48: 8192, 49: 32768, 52: 32768, 53: 32768}
    texture |= {54: 2046, 55: 32768, 56: 131072, 57: 65536, 58: 16384, 59: 16384, 60: 16384, 61: 32768, 62: 2048}
    texture |= {63: 32768, 64: 32768, 65: 2048, 66: 32768, 67: 32768, 68: 2046, 69: 268435456, 70: 131072, 71: 65000}
    texture |= {72: 2097120, 73: 32768, 74: 32768, 77: 32768}
    return texture | {
        1: 1024,  # threads per block
        2: 1024,
        3: 1024,
        4: 64,
        5: 2**31 - 1,  # grid
        6: 65535,
        7: 65535,
        8: 48 * KIB,  # shared memory per block without opting in
        9: 64 * KIB,  # constant memory
        10: 32,
        11: 2**31 - 1,  # pitch
        12: 65536,  # registers per block
        13: card.clock_mhz * 1000,  # kHz
        14: 512,
        15: 1,  # copy and compute overlap
        16: card.sms,
        17: 0,
        18: 0,
        19: 1,  # can map host memory
        20: 0,
        30: 512,
        31: 1,  # concurrent kernels
        32: int(card.ecc),
        33: 0x07 + 8 * ordinal,  # PCI bus
        34: 0,
        36: card.memory_clock_mhz * 1000,
        37: card.bus_bits,
        38: card.l2_bytes,
        39: 32 * limits.warps_per_sm,
        40: card.copy_engines,
        41: 1,  # unified addressing
        50: 0,
        51: 32,
        75: card.cc[0],
        76: card.cc[1],
        78: 1,  # stream priorities
        79: 1,
        80: 1,
        81: limits.shared_per_sm,
        82: 65536,
        83: 1,  # managed memory
        85: ordinal,
        87: limits.single_to_double,
        89: 1,  # concurrent managed access
        90: 1,
        91: 1,  # registered host memory has the same address on the device
        95: 1,  # cooperative launch
        97: limits.shared_per_block_optin,
        99: 1,  # host register
        106: limits.blocks_per_sm,
        108: card.l2_bytes * 3 // 4 if card.cc >= (8, 0) else 0,
        109: 134213632 if card.cc >= (8, 0) else 0,
        111: limits.shared_reserved,
        113: 0,
        115: 1,  # memory pools
        120: int(limits.clusters),
        130: 0,
        131: -1,
        134: 0,
        139: 0,
        144: 1,  # pools of host memory
    }
