"""What a kernel's first touch of memory that is elsewhere costs: page faults of managed memory, mapped host memory.

Managed memory moves on demand in fault groups: pages of 64 KB whose neighbours come along, up to trees of 2 MB. A group
costs a fixed time at the host and its bytes' way over the link (published: 209 us a group and about 1.1 GB/s in a dense
first touch on V100; 2.86 ms for 8 MB on RTX 2060).
"""

from __future__ import annotations

from dataclasses import replace

from grader.vgpu.driver.clock import Span
from grader.vgpu.model.cards import timing

LEAF = 64 << 10
GROUP = 128 << 10  # bytes that a fault group brings, on average, in a dense first touch
HOST = 2  # CUmemLocationType, as Allocation.location has it


def touch(card, touched: dict[int, float], context) -> tuple[float, int, float]:
    """A kernel touches so many bytes from each of these addresses on.

    -> (us of page faults, bytes that they move, us that mapped host memory takes at least). Managed memory is on the
    device from now on.
    """
    from grader.vgpu.driver.memory import find

    faults, moved, least = 0.0, 0, 0.0
    for address, nbytes in touched.items():
        allocation = find(address)
        if allocation is None:
            continue
        if allocation.kind in ("host", "registered"):
            least += nbytes / (timing(card.key).pinned_to_device_gbs * 1e3)
        elif allocation.kind == "managed" and allocation.location[0] == HOST:
            faults += fault_us(card, nbytes)
            moved += int(nbytes)
            allocation.location = (1, context.device.ordinal)
    return faults, moved, least


def fault_us(card, nbytes: float) -> float:
    """How long it takes to bring so many bytes of managed memory in on demand."""
    times = timing(card.key)
    groups = max(1.0, nbytes / GROUP)
    return groups * times.fault_group_us + max(nbytes, LEAF) / (times.pinned_to_device_gbs * 1e3)


def span(kernel: Span, us: float, nbytes: int) -> Span:
    """The faults' place on the timeline: while the kernel runs."""
    return replace(
        kernel, name="page faults", kind="fault", engine="faults", end_us=kernel.start_us + us, nbytes=nbytes
    )
