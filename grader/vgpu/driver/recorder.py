"""What a program asks of CUDA, as plain data, in the order in which it asked.

    with grader.vgpu.driver.record(sink):        # or: handle = record(sink); ...; handle.stop()
        ...                                      # sink(op) for every operation that does work

An op is a dict of str keys whose values are int, float, bool, str, bytes, None, or lists and dicts of these. Every op
has `"op"` (which one, below) and `"device"` (ordinal of the device whose context was current). Ops arrive when the call
is made, not when the queued work is executed, so a replay that issues the same calls in the same order asks for the
same thing. A call that fails (returns an error) is not recorded.

Numbers that name things are unique in the recording process and never reused:

| key | names |
|---|---|
| `module`, `stream`, `event`, `pool` | |
| `kernel` | its entry name in the module's PTX |
| `graph`, `exec` | a definition, and what was instantiated of one |
| stream 0 | the legacy default stream |
| other streams | made by a `stream` op; the per-thread default stream too, at its first use (`"kind": "per_thread"`) |
| address | of the recording process; always within a live `alloc` or `symbol`, except pageable host memory |

Modules and kernels

    {"op": "module", "module": id, "ptx": bytes}                 linked PTX text, no trailing NUL
    {"op": "module_unload", "module": id}
    {"op": "symbol", "module": id, "name": str, "address": int, "nbytes": int}     a __device__ variable was looked up
    {"op": "attribute", "module": id, "kernel": str, "name": str, "value": int}
        name "max_dynamic_shared", "carveout", "non_portable_cluster" or "cluster"

Memory

    {"op": "alloc", "address": int, "nbytes": int, "kind": str, "stream": None | id, "pool": None | id}
        kind "device", "managed", "host" (pinned by CUDA), "registered" (host memory of the program's own, pinned)
        stream None: at once; otherwise stream-ordered (cuMemAllocAsync). nbytes is what was asked for.
    {"op": "free", "address": int, "stream": None | id}          stream None: at once, and waits for the device
    {"op": "host", "address": int, "data": bytes}
        the host has written these bytes of a managed, host or registered allocation since they were last known. Given
        just before the first op that could see it. Only bytes that changed; several of them if far apart.

    {"op": "copy", "kind": str, "dst": int, "src": int, "nbytes": int, "rows": int, "dst_pitch": int, "src_pitch": int,
     "dst_device": int | None, "src_device": int | None, "stream": id, "async": bool, "data": bytes | None}
        kind "h2d", "d2h", "d2d", "h2h", "p2p". nbytes is of one row; rows 1 and pitches 0 unless 2-D or 3-D (a 3-D
        copy whose slices do not follow each other comes as one op per slice).
        `dst_device`/`src_device`: the device that holds that end; None = pageable host memory, -1 = pinned host memory.
        data: the source, rows joined, where the source is pageable; None otherwise (`host` ops have told it).
        async False: the call was cuMemcpy without Async (on the stream named, which is the default one).
    {"op": "landed", "address": int, "nbytes": int}
        the copy just told, which was to pageable memory, has been executed: what these bytes are is the device's doing
    {"op": "set", "dst": int, "value": int, "element": 1 | 2 | 4, "count": int, "rows": int, "pitch": int, "stream": id,
     "async": bool}                                             count elements a row
    {"op": "prefetch", "address": int, "nbytes": int, "location": str, "stream": id}      "device:0" | "host"
    {"op": "discard", "address": int, "nbytes": int, "stream": id}
    {"op": "advise", "address": int, "nbytes": int, "advice": str, "location": str}
        advice "read_mostly", "preferred_location", "accessed_by", each also with prefix "unset_"
    {"op": "pool", "pool": id, "max_size": int, "location": str}, {"op": "pool_destroy", "pool": id},
    {"op": "pool_set", "pool": id, "name": str, "value": int}, {"op": "pool_access", "pool": id, "peer": ordinal,
     "access": 0 | 1 | 3}                                       nothing | read | read and write
    {"op": "peer", "peer": ordinal, "enabled": bool}            "device" may (no longer) reach the memory of "peer"

Launches

    {"op": "launch", "module": id, "kernel": str, "grid": [x, y, z], "block": [x, y, z], "shared": int, "args": bytes,
     "params": [[offset, size], ...], "stream": id, "cooperative": bool, "cluster": [x, y, z] | None}
        grid counts blocks; args is the parameter block, params says where each parameter lies in it.
    {"op": "host_func", "stream": id}                           a host function ran here; what it did is not known

Streams, events, waiting

    {"op": "stream", "stream": id, "kind": "blocking" | "nonblocking" | "per_thread", "priority": int,
     "sms": None | int}                                         sms: of the green context it was made in
    {"op": "stream_destroy", "stream": id}
    {"op": "event_create", "event": id, "timing": bool}, {"op": "event_destroy", "event": id}
    {"op": "event", "event": id, "stream": id}                  record
    {"op": "wait", "stream": id, "event": id}                   cuStreamWaitEvent
    {"op": "elapsed", "start": event id, "end": event id}
    {"op": "query", "kind": "stream" | "event", "id": id, "ready": bool}
    {"op": "sync", "kind": "context" | "stream" | "event", "id": id | None}

Graphs. What is captured or added to a graph is no op of its own; it is told when the graph is instantiated:

    {"op": "graph", "graph": id, "exec": id, "nodes": [node, ...]}
        node: one of the ops launch, copy, set, alloc, free, host_func, event, wait, or {"op": "empty"}, or
        {"op": "child", "nodes": [...]}, each without "stream" and "device" and with "after": [indices of nodes before
        it in this list] and "enabled": bool. The list is in an order in which it can be run.
    {"op": "graph_update", "exec": id, "nodes": [...]}          the whole list again, after any update to the exec
    {"op": "graph_launch", "exec": id, "stream": id}, {"op": "graph_destroy", "exec": id}
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

_sinks: list[Callable[[dict], None]] = []


class Recording:
    """A recording that runs until `stop()`; also a context manager."""

    def __init__(self, sink: Callable[[dict], None]):
        self._sink = sink
        _sinks.append(sink)

    def stop(self) -> None:
        """End this recording. A second call does nothing."""
        if self._sink in _sinks:
            _sinks.remove(self._sink)

    def __enter__(self) -> Recording:
        return self

    def __exit__(self, *_) -> None:
        self.stop()


def record(sink: Callable[[dict], None], present: bool = False) -> Recording:
    """Give every operation from now on to `sink`, in the order of the calls (see the module's docstring).

    present: before that the `module`, `stream`, `alloc` and `symbol` ops of what is there already.
    """
    if present:
        for op in _present():
            sink(op)
    return Recording(sink)


def _present() -> Iterator[dict]:
    from grader.vgpu.driver.library import Library
    from grader.vgpu.driver.state import driver

    for library in [h for h in driver.handles.values() if isinstance(h, Library)]:
        yield {"op": "module", "device": 0, "module": library.number, "ptx": library.ptx}
    for context in driver.contexts:
        for stream in context.streams:
            if stream.kind != "legacy":
                about = {"stream": stream.number, "kind": stream.kind, "priority": stream.priority, "sms": None}
                yield {"op": "stream", "device": context.device.ordinal, **about}
    for a in driver.allocations.values():
        about = {"device": a.context.device.ordinal, "address": a.address, "nbytes": a.nbytes}
        if a.kind == "symbol":
            yield {"op": "symbol", "module": 0, "name": "", **about}
        else:
            yield {"op": "alloc", "kind": a.kind, "stream": None, "pool": a.pool.number if a.pool else None, **about}


def recording() -> bool:
    """True while anyone records. Callers ask first so that building an op costs nothing otherwise."""
    return bool(_sinks)


def emit(op: str, device: int, **fields) -> None:
    """Give one op to every sink."""
    entry = {"op": op, "device": device, **fields}
    for sink in tuple(_sinks):
        sink(entry)
