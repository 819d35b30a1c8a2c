"""What can be queued in a stream or be a node of a graph: kernels, copies, memsets, host functions, and so on.

A work item is plain parameters with four methods: `run(op)` does it and puts it on the timeline; `describe()` says it
to a recording; `kind` and `node_type` (CUgraphNodeType) say what it is.
"""

from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from grader.vgpu.driver import clock, errors, paging
from grader.vgpu.driver.clock import CLOCK, Span
from grader.vgpu.driver.errors import CudaError
from grader.vgpu.driver.guard import GUARD
from grader.vgpu.driver.state import driver
from grader.vgpu.names import short_name


@dataclass
class Work:
    """Nothing at all: an empty node, and the base of the others."""

    kind: ClassVar[str] = "empty"
    node_type: ClassVar[int] = 5
    observed: ClassVar[bool] = False  # what it touches is known once it has run, not before

    def run(self, op) -> None:
        """Do it. Raises CudaError with the sticky code of a device fault."""
        op.start_us = op.end_us = op.ready_us

    def describe(self) -> dict:
        """Its entry in a recording, without stream and device."""
        return {"op": "empty"}

    def copy(self):
        """Itself again, for a graph that is instantiated or cloned."""
        return replace(self)

    def discard(self) -> None:
        """Its node is gone, or its instantiated graph: give up what nothing else has."""

    def title(self) -> str:
        """In words, for a finding."""
        return self.kind

    def parts(self) -> list[Work]:
        """The pieces that read and write memory: itself, or the nodes of a graph."""
        return [self]

    def waits_for(self) -> list:
        """Operations that it waits for besides those of its stream."""
        return []

    def extents(self) -> list[tuple[int, int, int, int, str]]:
        """(address, bytes of a row, rows, pitch, verb) of what it touches, where that is known before it runs."""
        return []

    def shares(self) -> list[tuple[int, int, int, int]]:
        """(address, bytes of a row, rows, pitch) of memory that the host must leave alone until it has run."""
        return [extent[:4] for extent in self.extents()]

    def reaches(self, context) -> list[tuple]:
        """(allocation, first address, end, whether it is written, False) of memory of the host's that it may touch."""
        return []

    def accesses(self, op) -> list[tuple]:
        """(allocation, Access, its name) for racecheck."""
        from grader.vgpu.driver.memory import find
        from grader.vgpu.sanitize.streams import Access, Extents

        found = []
        for address, nbytes, rows, pitch, verb in self.extents():
            allocation = find(address)
            if allocation is not None:
                extents = Extents.rows(address, nbytes, rows, pitch)
                access = (
                    Access(op.point, reads=extents) if verb == "reads" else Access(op.point, writes=extents, verb=verb)
                )
                found.append((allocation, access, name_of(allocation)))
        return found

    def _occupy(
        self, op, engine: str, duration: float, name: str, nbytes: int = 0, needs: tuple[tuple[object, float], ...] = ()
    ) -> Span:
        """Put it on the timeline and among the spans: on the engine of that name, if it is one, and on resources.

        needs: (clock.Resource, part of it that full speed takes).
        """
        device = op.stream.context.device
        one = device.engines.get(engine)
        start = one.start(op.ready_us, duration) if one else op.ready_us
        wanted = [(resource, part) for resource, part in needs if part > 0]
        op.start_us, op.end_us = clock.share(start, duration, wanted) if wanted else (start, start + duration)
        if one:
            one.book(op.start_us, op.end_us)
        span = Span(
            name, self.kind, device.ordinal, op.stream.number, engine, op.start_us, op.end_us, nbytes,
            clock.current_graph(), clock.current_launch(),
        )  # fmt: skip
        CLOCK.spans.append(span)
        return span


@dataclass
class Copy(Work):
    """Copy `rows` rows of `nbytes` bytes. Addresses are the process's own, on either side."""

    dst: int
    src: int
    nbytes: int
    way: str = "h2d"  # "h2d", "d2h", "d2d", "h2h", "p2p"
    rows: int = 1
    dst_pitch: int = 0
    src_pitch: int = 0
    dst_device: int | None = None  # as in a recording: None is pageable host memory, -1 pinned
    src_device: int | None = None
    staged: bytes | None = field(default=None, repr=False)  # the source, rows joined, taken at the call
    asynchronous: bool = True
    node_type: ClassVar[int] = 1

    @property
    def kind(self) -> str:
        return self.way

    def title(self) -> str:
        return f"the copy {_WAYS[self.way]}"

    def extents(self) -> list[tuple[int, int, int, int, str]]:
        found = []
        if self.staged is None and self.src_device is not None:
            found.append((self.src, self.nbytes, self.rows, self.src_pitch, "reads"))
        if self.dst_device is not None:
            found.append((self.dst, self.nbytes, self.rows, self.dst_pitch, "writes"))
        return found

    def run(self, op) -> None:
        from grader.vgpu.driver.memory import copied, require, written

        extents = [(self.dst, self.dst_pitch, self.dst_device)]
        if self.staged is None:
            extents.append((self.src, self.src_pitch, self.src_device))
        for address, pitch, device in extents:
            if device is not None:
                require(address, pitch * (self.rows - 1) + self.nbytes, op.stream.context)
        for row in range(self.rows):
            target = self.dst + row * self.dst_pitch
            if self.staged is None:
                ctypes.memmove(target, self.src + row * self.src_pitch, self.nbytes)
            else:
                ctypes.memmove(target, self.staged[row * self.nbytes : (row + 1) * self.nbytes], self.nbytes)
            if self.dst_device is None:
                continue
            paging.populate(target, self.nbytes, op.stream.context.device)
            if self.src_device is None:
                written(target, self.nbytes)
            else:
                copied(target, self.src + row * self.src_pitch, self.nbytes)
        context, total = op.stream.context, self.nbytes * self.rows
        card = context.device.card
        pageable = self.src_device is None or self.dst_device is None
        engine = {"h2d": "h2d", "d2h": "d2h", "p2p": "p2p", "d2d": "compute", "h2h": "host"}[self.way]
        to, source = (driver.devices[k] if k not in (None, -1) else None for k in (self.dst_device, self.src_device))
        route = ""
        if self.way == "p2p":
            direct = bool({self.dst_device, self.src_device} & context.peers)
            route = context.device.fabric.route(source, to, direct)
        duration = clock.copy_us(card, self.way, total, pageable, route)
        self._occupy(op, engine, duration, f"copy {self.way}", total, self._needs(card, source, to, pageable, route))

    def _needs(self, card, source, to, pageable: bool, route: str) -> tuple[tuple[object, float], ...]:
        """What it takes of links, or of the device that it stays on. source, to: Devices, None for the host."""
        if self.way == "h2h":
            return ()
        if self.way == "d2d":
            return (to.resources["sms"], 1.0), (to.resources["memory"], 1.0)
        fabric = (to or source).fabric
        if self.way == "p2p":
            return fabric.between(source, to, route)
        part = clock.rate_gbs(card, self.way, pageable) / clock.rate_gbs(card, "h2d", pageable=False)
        links = fabric.from_host(to) if to else fabric.to_host(source)
        return tuple((link, min(1.0, part)) for link in links)

    def describe(self) -> dict:
        return {
            "op": "copy",
            "kind": self.way,
            "dst": self.dst,
            "src": self.src,
            "nbytes": self.nbytes,
            "rows": self.rows,
            "dst_pitch": self.dst_pitch,
            "src_pitch": self.src_pitch,
            "dst_device": self.dst_device,
            "src_device": self.src_device,
            "async": self.asynchronous,
            "data": self.staged if self.src_device is None else None,
        }


@dataclass
class Set(Work):
    """Fill `rows` rows of `count` elements of `element` bytes."""

    dst: int
    value: int
    element: int
    count: int
    rows: int = 1
    pitch: int = 0
    asynchronous: bool = True
    kind: ClassVar[str] = "set"
    node_type: ClassVar[int] = 2

    def title(self) -> str:
        return "the memset"

    def extents(self) -> list[tuple[int, int, int, int, str]]:
        return [(self.dst, self.element * self.count, self.rows, self.pitch, "writes")]

    def run(self, op) -> None:
        from grader.vgpu.driver.memory import require, written

        nbytes = self.element * self.count
        require(self.dst, self.pitch * (self.rows - 1) + nbytes, op.stream.context)
        kind = {1: ctypes.c_uint8, 2: ctypes.c_uint16, 4: ctypes.c_uint32}[self.element]
        for address in range(self.dst, self.dst + max(self.pitch, 1) * self.rows, max(self.pitch, 1)):
            np.frombuffer((kind * self.count).from_address(address), kind)[:] = kind(self.value).value
            written(address, nbytes)
            paging.populate(address, nbytes, op.stream.context.device)
        total = nbytes * self.rows
        device = op.stream.context.device
        needs = (device.resources["sms"], 1.0), (device.resources["memory"], 1.0)
        self._occupy(op, "compute", clock.set_us(device.card, total), "memset", total, needs)

    def describe(self) -> dict:
        return {
            "op": "set",
            "dst": self.dst,
            "value": self.value,
            "element": self.element,
            "count": self.count,
            "rows": self.rows,
            "pitch": self.pitch,
            "async": self.asynchronous,
        }


@dataclass
class Launch(Work):
    """Launch a kernel. `args` is the parameter block."""

    kernel: object  # library.Kernel
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int
    args: bytes = field(repr=False)
    cooperative: bool = False
    cluster: tuple[int, int, int] | None = None
    kind: ClassVar[str] = "kernel"
    node_type: ClassVar[int] = 0
    observed: ClassVar[bool] = True

    def title(self) -> str:
        return f"kernel {short_name(self.kernel.name)}"

    def shares(self) -> list[tuple[int, int, int, int]]:
        """Of the host's memory, what a word of the parameters is an address in; large arrays go unwatched."""
        from grader.vgpu.driver.memory import find

        found = {a.address: a for word in self._words() if (a := find(word)) is not None and a.shared}
        return [(a.address, a.nbytes, 1, a.nbytes) for a in found.values() if a.nbytes <= WATCHED_OF_HOST]

    def reaches(self, context) -> list[tuple]:
        from grader.vgpu.driver.memory import find

        words, found = self._words(), []
        for k, word in enumerate(words):
            allocation = find(word)
            if allocation is not None and allocation.shared:
                stores = self.kernel.code(context).stores
                end = min(allocation.end, word + _array_bytes(words, k, allocation.nbytes))
                found.append((allocation, word, end, stores is None or 8 * k in stores, False))
        return found

    def _words(self) -> list[int]:
        return np.frombuffer(self.args, np.int64, len(self.args) // 8).tolist()

    def accesses(self, op) -> list[tuple]:
        """As the shadow of global memory has them now, right after the launch."""
        from grader.vgpu.driver.memory import find
        from grader.vgpu.sanitize.race import touched
        from grader.vgpu.sanitize.streams import Access, Extents

        context = op.stream.context
        shift = self.kernel.code(context).code().global_grain
        found = []
        for memory in context.memory.touched():
            kinds = [
                Extents.words(memory.address, 1 << shift, words)
                for words in touched(memory.race, (memory.nbytes - 1 >> shift) + 1)
            ]
            if any(kinds):
                found.append((find(memory.address) or memory, Access(op.point, *kinds), name_of(memory)))
        return found

    def run(self, op) -> None:
        from grader.vgpu.machine import LaunchOptions, launch
        from grader.vgpu.model import kernel_time

        context = op.stream.context
        wanted = driver.options
        options = LaunchOptions(
            racecheck=wanted.racecheck or GUARD.suspects(op, self),
            initcheck=wanted.initcheck,
            deadline=wanted.deadline,
            profile=wanted.profile,
            cooperative=self.cooperative,
            sms=context.sms,
        )
        code = self.kernel.code(context)
        try:
            with paging.kernel(context.device) as faults:
                result = launch(code, self.grid, self.block, self.args, shared=self.shared, options=options)
        except ValueError as error:  # what no check before the launch could know
            raise CudaError(
                errors.LAUNCH_FAILED, f"kernel {short_name(self.kernel.name)} cannot be launched: {error}"
            ) from None
        if result.printed:
            sys.stdout.write(result.printed.decode(errors="replace"))
            sys.stdout.flush()
        for finding in result.findings:
            if wanted.racecheck or finding.tool != "racecheck":
                note(finding)
        kernel = self.kernel
        card = context.device.card
        if context.sms != card.sms:  # a part of the device
            card = replace(card, sms=context.sms)
        shared = kernel.static_shared + self.shared
        time = kernel_time(card, code, self.grid, self.block, shared, kernel.facts.registers, result, kernel.mix)
        fault_us, least = faults.charge(card, time.touched)
        duration = float(max(time.us, least)) + fault_us
        resources, busy = context.device.resources, 1 - fault_us / duration
        # The memory's part is that of the time in which the kernel computes: during its faults it hardly moves data.
        memory = min(1.0, time.use.get("DRAM", 0.0)) * busy
        needs = (resources["sms"], kernel.share(self, context)), (resources["memory"], memory)
        span = self._occupy(op, "compute", duration, kernel.name, needs=needs)
        faults.spans(span)
        for observer in driver.observers:
            observer(code, self, result, span)
        if result.fault is not None:
            raise _fault(result.fault, self.kernel.name)

    def describe(self) -> dict:
        return {
            "op": "launch",
            "module": self.kernel.library.number,
            "kernel": self.kernel.name,
            "grid": list(self.grid),
            "block": list(self.block),
            "shared": self.shared,
            "args": self.args,
            "params": [list(param) for param in self.kernel.params],
            "cooperative": self.cooperative,
            "cluster": list(self.cluster) if self.cluster else None,
        }


# The Compute Sanitizer tool that a fault belongs to, where it does not come with a finding.
_TOOLS = {"illegal_address": "memcheck", "misaligned": "memcheck", "deadlock": "synccheck"}


_WAYS = {
    "h2d": "to the device",
    "d2h": "to the host",
    "d2d": "on the device",
    "h2h": "on the host",
    "p2p": "to another device",
}
WATCHED_OF_HOST = 4 << 20  # bytes of a mapped or managed array of a kernel that are watched for changes by the host


def _array_bytes(words: list[int], k: int, otherwise: int) -> int:
    """Bytes of the array whose address is word k of the parameters, where numba has passed it: two null pointers, the
    number of elements and the bytes of one stand before it."""
    if k >= 4 and words[k - 4] == words[k - 3] == 0 and words[k - 2] > 0 < words[k - 1]:
        return words[k - 2] * words[k - 1]
    return otherwise


def name_of(allocation) -> str:
    """What findings call an allocation of the driver's or of the machine's."""
    from grader.vgpu.sanitize.findings import Context

    if hasattr(allocation, "context"):
        allocation = allocation.context.memory.find(allocation.address) or allocation
    return Context.name(allocation)


def note(finding) -> None:
    """Keep a finding; one cause that is found in several launches is one finding."""
    for known in driver.findings:
        same = (known.tool, known.kind, known.file, known.line, known.other_line, known.kernel)
        if same == (finding.tool, finding.kind, finding.file, finding.line, finding.other_line, finding.kernel):
            known.count += finding.count
            return
    driver.findings.append(finding)


def _fault(fault, kernel: str) -> CudaError:
    """The sticky error of a device fault, which is printed here: a CUresult cannot say where it happened."""
    from grader.vgpu.machine import Finding

    code = errors.FAULTS.get(fault.kind, errors.LAUNCH_FAILED)
    where = f", line {fault.line}" if fault.line else ""
    for what, value in (("block", fault.block), ("thread", fault.thread)):
        where += f", {what} {tuple(int(k) for k in value)}" if value is not None else ""
    if driver.options.announce:
        print(
            f"grader: {fault.message}{where} (kernel {short_name(kernel)}, {errors.name(code)})",
            file=sys.stderr,
            flush=True,
        )
    if fault.finding is None:
        tool = _TOOLS.get(fault.kind, "launch")
        note(Finding(tool, fault.kind, fault.message, fault.line, fault.file, kernel=kernel))
    return CudaError(code)


@dataclass
class HostFunction(Work):
    """Call a C function with `data`; with `status` it is a stream callback (stream, status, data)."""

    function: int
    data: int
    stream_handle: int | None = None  # for a stream callback
    kind: ClassVar[str] = "host"
    node_type: ClassVar[int] = 3

    def title(self) -> str:
        return "the host function"

    def run(self, op) -> None:
        self._occupy(op, "host", clock.EVENT_US, "host function")
        driver.in_callback.of_thread = True
        try:
            if self.stream_handle is None:
                ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.function)(self.data)
            else:
                kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
                kind(self.function)(self.stream_handle, errors.SUCCESS, self.data)
        finally:
            driver.in_callback.of_thread = False

    def describe(self) -> dict:
        return {"op": "host_func"}


@dataclass
class EventRecord(Work):
    """Note the time in an event. As a graph node it sets the event's completion at each launch."""

    event: object
    kind: ClassVar[str] = "event"
    node_type: ClassVar[int] = 7

    def run(self, op) -> None:
        super().run(op)
        if clock.current_graph() is not None:
            self.event.op = op

    def describe(self) -> dict:
        return {"op": "event", "event": self.event.number}


@dataclass
class EventWait(Work):
    """Wait for an event. In a stream the dependency is the op's; as a graph node it is looked up at the launch."""

    event: object
    kind: ClassVar[str] = "wait"
    node_type: ClassVar[int] = 6

    def waits_for(self) -> list:
        return [self.event.op] if self.event.op is not None else []

    def run(self, op) -> None:
        super().run(op)
        if clock.current_graph() is not None and self.event.op is not None:
            from grader.vgpu.driver.queue import complete

            complete(self.event.op)
            op.end_us = max(op.end_us, self.event.op.end_us)

    def describe(self) -> dict:
        return {"op": "wait", "event": self.event.number}


@dataclass
class Prefetch(Work):
    """Move pages of managed memory. There is one memory: only `paging`, and so the clock, knows the difference."""

    address: int
    nbytes: int
    location: tuple[int, int]  # CUmemLocation: (type, id)
    kind: ClassVar[str] = "prefetch"

    def run(self, op) -> None:
        from grader.vgpu.driver.memory import find

        allocation = find(self.address)
        moved = 0
        if allocation:
            allocation.last_prefetch = self.location
            moved = paging.prefetch(allocation, self.address, self.nbytes, self.location)
        way = "h2d" if self.location[0] == 1 else "d2h"
        device = op.stream.context.device
        links = device.fabric.from_host(device) if way == "h2d" else device.fabric.to_host(device)
        duration = clock.copy_us(device.card, way, moved, pageable=False)
        self._occupy(op, way, duration, "prefetch", moved, tuple((link, 1.0) for link in links))

    def describe(self) -> dict:
        return {
            "op": "prefetch",
            "address": self.address,
            "nbytes": self.nbytes,
            "location": location_name(self.location),
        }


def location_name(location: tuple[int, int]) -> str:
    """A CUmemLocation in a recording."""
    return f"device:{location[1]}" if location[0] == 1 else "host"
