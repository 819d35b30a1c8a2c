"""Call a student's host function under the recorder, and tell whether what it asks of CUDA depends on the data.

Runs in the process that the student's code runs in.
"""

import gc
from collections.abc import Callable, Mapping
from dataclasses import fields
from math import prod

from grader.addresses import Declared
from grader.evidence import place
from grader.program import HostWrite, Program
from grader.recording import Recorder

SMALL = 1 << 18  # elements of all arrays together


Contents = Callable[[dict], object]  # an array argument of a case -> a NumPy array of its numbers


class Raised(Exception):
    """The function raised; the cause is what."""


class DependsOnData(Exception):
    """What the function asks for depends on the numbers in its arrays; the text says where that shows."""


class Unsteady(Exception):
    """What the function asks for changes from call to call whatever the numbers are; the text is for the student."""


def program_of(function, case: dict, recorder: Recorder) -> Program:
    """The one recording that holds for all inputs. DependsOnData, Unsteady, Raised or ProgramError: there is none.

    The function is called twice with other numbers; where that makes a difference, once more with the first ones, so
    that what depends on the data is told from what depends on chance, on the time or on earlier calls. Large arrays are
    tried once: what depends on the numbers at those sizes only gives wrong values in the replay.
    """
    first = call(function, case, recorder, numbers(1))
    if not small(case):
        return first
    what = difference(first, call(function, case, recorder, numbers(2)))
    if not what:
        return first
    name = function.__name__
    if same := difference(first, call(function, case, recorder, numbers(1))):
        raise Unsteady(
            f"what {name} asks of CUDA changes from call to call, though the numbers in its arrays are the same; the first"
            f" difference is {same}. Something is kept from an earlier call, or chance, the time or an address decides:"
            " make streams, buffers and graphs anew in every call, define kernels outside of the function, call CUDA from"
            " one thread, and let the function's arguments alone decide"
        )
    raise DependsOnData(
        f"what {name} asks of CUDA depends on the numbers in its arrays; the first difference is {what}"
    )


def numbers(seed: int) -> Contents:
    """Numbers that depend on the seed."""
    import numpy as np

    rng = np.random.default_rng(seed)
    return lambda a: rng.uniform(0.5, 100.0, a["shape"]).astype(a["dtype"])


def given(inputs: Mapping[str, bytes]) -> Contents:
    """The numbers that the grader has drawn, by the array's name."""
    import numpy as np

    return lambda a: np.frombuffer(inputs[a["array"]], a["dtype"]).reshape(a["shape"])


def call(function, case: dict, recorder: Recorder, contents: Contents) -> Program:
    """Call it once with new arrays that hold these numbers. Raises Raised, ProgramError."""
    import numpy as np

    _settle()
    args, declared = [], []
    for a in case["args"]:
        if "scalar" in a:
            args.append(np.dtype(a["dtype"]).type(a["value"]).item())
            continue
        array, address = _make(a, contents)
        kind = {"pinned": "host"}.get(a["where"], a["where"])
        declared.append(Declared(a["array"], address, array.nbytes, a["role"], a["dtype"], tuple(a["shape"]), kind))
        args.append(array)
    tell_host_writes()
    recorder.begin(declared, clock="host", devices=case.get("devices", 1))
    gc.disable()  # what is freed, and when, shall not depend on the collector
    try:
        function(*args)
    except MemoryError:
        raise
    except BaseException as e:
        raise Raised from e
    finally:
        gc.enable()
    tell_host_writes()
    program = recorder.end()
    try:
        _wait_for_all()
    except Exception as e:
        raise Raised from e
    return program


def small(case: dict) -> bool:
    """The arrays of a case take little time."""
    return sum(prod(a["shape"]) for a in case["args"] if "array" in a) < SMALL


def tell_host_writes() -> None:
    """Have the driver tell what the host has written to memory that it shares with the device."""
    from grader.vgpu.driver import memory
    from grader.vgpu.driver.abi import LOCK

    with LOCK:
        memory.tell_host_writes()


def _settle() -> None:
    """Free what earlier calls have left to be freed, wait for what they have started, and go back to the first device."""

    gc.collect()
    _wait_for_all()
    for device in _used():
        device.primary_context.memory_manager.deallocations.clear()


def _wait_for_all() -> None:
    """Every device has done what it was asked for; the first is current."""
    from numba import cuda

    for device in reversed(_used()):
        cuda.select_device(device.id)
        cuda.synchronize()
    cuda.select_device(0)


def _used() -> list:
    """Of numba's devices those that have a context."""
    from numba import cuda

    return [device for device in cuda.gpus.lst if device.primary_context is not None]


def _make(a: dict, numbers_of: Contents) -> tuple[object, int]:
    """(array, its address): inputs hold numbers, the rest poison."""
    import numpy as np
    from numba import cuda

    shape, dtype = tuple(a["shape"]), np.dtype(a["dtype"])
    contents = np.full(max(1, int(np.prod(shape))) * dtype.itemsize, 0xCB, np.uint8).view(dtype).reshape(shape)
    if a["role"] in ("input", "inout"):
        contents[...] = numbers_of(a)
    if a["where"] == "device":
        array = cuda.to_device(contents)
        return array, array.__cuda_array_interface__["data"][0]
    make = {"pinned": cuda.pinned_array, "managed": cuda.managed_array, "pageable": np.empty}[a["where"]]
    array = make(shape, dtype)
    array[...] = contents
    return array, array.ctypes.data


_WORDS = {
    "launch": "a kernel launch",
    "copy": "a copy",
    "fill": "a memset",
    "alloc": "an allocation",
    "free": "memory that is freed",
    "host_write": "what the host writes",
    "host_copy": "what the host copies",
    "register": "memory that is page-locked",
    "unregister": "memory that is no longer page-locked",
    "prefetch": "a prefetch",
    "advise": "an advice",
    "record": "an event that is recorded",
    "wait": "a stream's wait for an event",
    "sync": "a wait of the host",
    "graph": "a graph that is instantiated",
    "graph_update": "an update of a graph",
    "graph_launch": "the launch of a graph",
}


def difference(one: Program, other: Program) -> str:
    """The first thing in which two recordings are not the same: "a kernel launch (grid; line 12)"; empty if they are."""
    if one == other:
        return ""
    changed = next((k for k, (a, b) in enumerate(zip(one.ops, other.ops, strict=False)) if a != b), None)
    if changed is None and len(one.ops) == len(other.ops):
        return _other_bytes(one, other)
    longer = max(one, other, key=lambda program: len(program.ops))
    at = min(len(one.ops), len(other.ops)) if changed is None else changed
    op, names = longer.ops[at], []
    if changed is not None and type(one.ops[at]) is type(other.ops[at]):
        names = [f.name for f in fields(op) if getattr(one.ops[at], f.name) != getattr(other.ops[at], f.name)]
    return _WORDS[op.op] + _noted(", ".join(names), _line(longer, at))


def _other_bytes(one: Program, other: Program) -> str:
    """The calls are the same, and what they carry is not."""
    blobs = {k for k, (a, b) in enumerate(zip(one.blobs, other.blobs, strict=False)) if a != b}
    at = next((k for k, op in enumerate(one.ops) if getattr(op, "blob", None) in blobs), None)
    if at is None:
        return "its memory or its kernels"
    op = one.ops[at]
    done = "writes" if isinstance(op, HostWrite) else "copies to the device"
    return f"{len(one.blobs[op.blob])} bytes that the host computes itself and {done}" + _noted(_line(one, at))


def _line(program: Program, op: int) -> str:
    return place(*program.places[op]) if program.places else ""


def _noted(*notes: str) -> str:
    """ " (grid; line 12)"; nothing without notes."""
    said = "; ".join(note for note in notes if note)
    return f" ({said})" if said else ""
