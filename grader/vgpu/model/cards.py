"""Timing parameters of the cards, read from cards.toml; each cell there says where its value comes from.

A card of one's own is a TOML file with a table of the cells of Timing and IDENTITY, each [value, source].
"""

import tomllib
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path

from grader.vgpu import devices

from .occupancy import KIB, SMS


@dataclass(frozen=True)
class Timing:
    """One card's timing. Latencies in cycles of the SM clock; rates in 10^9 bytes/s, one direction."""

    int_lanes: float  # per SM and clock
    fp64_lanes: float
    l1_kb: float  # L1 cache and shared memory together, per SM
    l1_bytes_per_clock: float  # data stage of the L1 and of shared memory
    l1_min_cycles: float  # of the L1, the least that a load of a warp takes
    l1_latency: float
    shared_latency: float
    l2_latency: float
    dram_latency: float
    l2_bytes_per_clock: float  # all slices
    dram_gbs: float  # achieved
    launch_us: float  # one launch after the other in a stream
    graph_node_us: float  # one node after the other in a graph
    pinned_to_device_gbs: float
    pinned_to_host_gbs: float
    pageable_to_device_gbs: float
    pageable_to_host_gbs: float
    nvlink_gbs: float  # 0 where there is none
    fault_group_us: float  # a group of page faults of managed memory, without its bytes' way


# Cells that a card of one's own needs beside those of Timing.
IDENTITY = (
    "name", "cc", "sms", "clock_mhz", "fp32_lanes", "memory_gb", "bus_bits", "bandwidth_gbs", "l2_mb", "copy_engines",
)  # fmt: skip

# Cells of Timing that may be 0; all others are rates, sizes and times that something is divided by.
_MAY_BE_ZERO = {"nvlink_gbs"}

_own: dict[str, Timing] = {}


@cache
def _tables() -> dict[str, dict]:
    return tomllib.loads((Path(__file__).parent / "cards.toml").read_text())


def read(table: dict) -> Timing:
    """A Timing from a table of cells [value, source]. KeyError names the first cell that is missing."""
    return Timing(**{field.name: float(table[field.name][0]) for field in fields(Timing)})


@cache
def timing(key: str) -> Timing:
    """The timing of a card of `grader.vgpu.devices.CARDS`."""
    return _own[key] if key in _own else read(_tables()[key])


def add(path: str | Path) -> list[devices.Card]:
    """Add the cards of a TOML file to `grader.vgpu.devices.CARDS`, under their tables' names.

    docs/clock.md shows such a file. Raises ValueError, naming file, card and cell, for a file that cannot
    be read, a cell that is missing, unknown, without a source or of another kind, a name that is taken, and a compute
    capability that the virtual GPU does not have.
    """
    try:
        tables = tomllib.loads(Path(path).read_text())
    except OSError as error:
        raise ValueError(f"the card file {path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not TOML: {error}") from None
    tables.pop("sources", None)
    if not tables:
        raise ValueError(f"{path} holds no card: it needs a table such as [mycard]")
    added = [(_card(path, key, table), read(table)) for key, table in tables.items()]
    timing.cache_clear()
    for card, times in added:
        devices.CARDS[card.key] = card
        _own[card.key] = times
    return [card for card, _ in added]


def _card(path, key: str, table) -> devices.Card:
    """The card of one table, all of whose cells have been checked."""
    where = f"{path}: card {key!r}"
    if key in _tables() or not key.isidentifier() or key != key.lower():
        raise ValueError(f"{where} needs a name of its own, of lower-case letters, digits and _")
    if not isinstance(table, dict):
        raise ValueError(f"{where} must be a table: [{key}]")
    timed = [field.name for field in fields(Timing)]
    for cell in (*IDENTITY, *timed):
        value = table.get(cell)
        if not isinstance(value, list) or len(value) != 2 or not str(value[1]).strip():
            raise ValueError(f"{where} needs the cell {cell} = [value, source]")
        if not _fits(cell, value[0]):
            kinds = {"name": "a text", "cc": "two whole numbers, such as [8, 0]"}
            raise ValueError(f"{where}: {cell} must be {kinds.get(cell, 'a number above 0')}, and is {value[0]!r}")
    if unknown := sorted(set(table) - {*IDENTITY, *timed}):
        raise ValueError(f"{where} has the cell {unknown[0]}, which no card has")
    cells = {cell: table[cell][0] for cell in table}
    cc = tuple(cells["cc"])
    if cc not in SMS:
        known = ", ".join(f"{major}.{minor}" for major, minor in sorted(SMS))
        raise ValueError(f"{where} has cc {cc[0]}.{cc[1]}; the virtual GPU can be {known}")
    if cc not in devices.LIMITS:
        sm = SMS[cc]
        ratio = 2 if cc in ((7, 0), (8, 0), (9, 0)) else 32 if cc < (8, 0) else 64
        devices.LIMITS[cc] = devices.Limits(
            sm.warps, sm.blocks, sm.shared, sm.shared_a_block, sm.reserved, sm.unit, ratio
        )
    memory_clock = int(cells["bandwidth_gbs"] * 8e3 / cells["bus_bits"] / 2)
    return devices.Card(
        key, cells["name"], cc, cells["sms"], int(cells["clock_mhz"]), int(cells["memory_gb"] * 1e9), memory_clock,
        cells["bus_bits"], int(cells["l2_mb"] * KIB * KIB), cells["copy_engines"], cells["bandwidth_gbs"],
        cells["fp32_lanes"], nvlink=cells["nvlink_gbs"] > 0,
    )  # fmt: skip


def _fits(cell: str, value) -> bool:
    """Whether a cell's value is of its kind."""
    if cell == "name":
        return isinstance(value, str) and bool(value.strip())
    if cell == "cc":
        return isinstance(value, list) and len(value) == 2 and all(type(n) is int for n in value)
    kind = (int,) if cell in ("sms", "fp32_lanes", "bus_bits", "copy_engines") else (int, float)
    return type(value) in kind and (0 < value < float("inf") or (value == 0 and cell in _MAY_BE_ZERO))
