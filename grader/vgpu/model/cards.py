"""Timing parameters of the cards, read from cards.toml; each cell there says where its value comes from."""

import tomllib
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path


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


@cache
def _tables() -> dict[str, dict]:
    return tomllib.loads((Path(__file__).parent / "cards.toml").read_text())


def read(table: dict) -> Timing:
    """A Timing from a table of cells [value, source]. KeyError names the first cell that is missing."""
    return Timing(**{field.name: float(table[field.name][0]) for field in fields(Timing)})


@cache
def timing(key: str) -> Timing:
    """The timing of a card of `grader.vgpu.devices.CARDS`."""
    return read(_tables()[key])
