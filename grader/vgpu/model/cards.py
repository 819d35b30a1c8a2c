"""Timing parameters of the cards, read from cards.toml; each cell there says where its value comes from.

A card of one's own is a TOML file with one table: the cells of Timing and those of IDENTITY, each [value, source].
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
    l1_min_cycles: float  # data stage of the L1, per load of a warp
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

    Raises ValueError, naming the card and the cell, for one that is missing or without a source, and for a compute
    capability that the virtual GPU does not have.
    """
    added = []
    for key, table in tomllib.loads(Path(path).read_text()).items():
        for cell in (*IDENTITY, *(field.name for field in fields(Timing))):
            value = table.get(cell)
            if not isinstance(value, list) or len(value) != 2 or not str(value[1]).strip():
                raise ValueError(f"{path}: card {key!r} needs the cell {cell} = [value, source]")
        added.append(_card(key, {cell: table[cell][0] for cell in IDENTITY}))
        _own[key] = read(table)
    timing.cache_clear()
    devices.CARDS.update({card.key: card for card in added})
    return added


def _card(key: str, cells: dict) -> devices.Card:
    cc = tuple(cells["cc"])
    if cc not in SMS:
        raise ValueError(f"card {key!r} has cc {cc}; the virtual GPU can be {', '.join(map(str, sorted(SMS)))}")
    if cc not in devices.LIMITS:
        sm = SMS[cc]
        ratio = 2 if cc in ((7, 0), (8, 0), (9, 0)) else 32 if cc < (8, 0) else 64
        devices.LIMITS[cc] = devices.Limits(
            sm.warps, sm.blocks, sm.shared, sm.shared_a_block, sm.reserved, sm.unit, ratio
        )
    memory_clock = int(cells["bandwidth_gbs"] * 8e3 / cells["bus_bits"] / 2)
    return devices.Card(
        key, cells["name"], cc, cells["sms"], cells["clock_mhz"], int(cells["memory_gb"] * 1e9), memory_clock,
        cells["bus_bits"], int(cells["l2_mb"] * KIB * KIB), cells["copy_engines"], cells["bandwidth_gbs"], 25,
        cells["fp32_lanes"],
    )  # fmt: skip
