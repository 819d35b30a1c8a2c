"""Call a student's host function under the recorder, and tell whether what it asks of CUDA depends on the data.

Runs in the process that the student's code runs in.
"""

import gc
from dataclasses import fields
from math import prod

from grader.program import HostWrite, Program
from grader.recording import Declared, Recorder

SMALL = 1 << 18  # elements of all arrays together


class Raised(Exception):
    """The function raised; the cause is what."""


def call(function, case: dict, recorder: Recorder, seed: int) -> Program:
    """Call it once with new arrays, whose numbers depend on the seed. Raises Raised, ProgramError."""
    import numpy as np
    from numba import cuda

    _settle()
    rng = np.random.default_rng(seed)
    args, declared = [], []
    for a in case["args"]:
        if "scalar" in a:
            args.append(np.dtype(a["dtype"]).type(a["value"]).item())
            continue
        array, address = _make(a, rng)
        kind = {"pinned": "host"}.get(a["where"], a["where"])
        declared.append(Declared(a["array"], address, array.nbytes, a["role"], a["dtype"], tuple(a["shape"]), kind))
        args.append(array)
    tell_host_writes()
    recorder.begin(declared, clock="host")
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
        cuda.synchronize()
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
    """Free what earlier calls have left to be freed, and wait for what they have started."""
    from numba import cuda

    gc.collect()
    cuda.synchronize()
    cuda.current_context().memory_manager.deallocations.clear()


def _make(a: dict, rng) -> tuple[object, int]:
    """(array, its address): inputs hold numbers, the rest poison."""
    import numpy as np
    from numba import cuda

    shape, dtype = tuple(a["shape"]), np.dtype(a["dtype"])
    contents = np.full(max(1, int(np.prod(shape))) * dtype.itemsize, 0xCB, np.uint8).view(dtype).reshape(shape)
    if a["role"] in ("input", "inout"):
        contents[...] = rng.uniform(0.5, 100.0, shape).astype(dtype)
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
    "host_write": "what the host writes",
    "host_copy": "what the host copies",
    "sync": "a wait of the host",
    "graph": "a graph",
}


def difference(one: Program, other: Program) -> str:
    """Why two recordings of calls with other numbers are not the same; empty if they are."""
    if one == other:
        return ""
    changed = next((k for k, (a, b) in enumerate(zip(one.ops, other.ops, strict=False)) if a != b), None)
    blobs = [k for k, (a, b) in enumerate(zip(one.blobs, other.blobs, strict=False)) if a != b]
    if changed is None and len(one.ops) == len(other.ops) and blobs:
        at = next((op for op in one.ops if getattr(op, "blob", None) in blobs), None)
        what = f"{len(one.blobs[blobs[0]])} bytes"
        if at is not None:
            what += " that it writes itself" if isinstance(at, HostWrite) else " that it copies to the device"
        return (
            f"computes on the host between copies: {what} depend on the numbers in its arrays. The grader records"
            " the calls once and replays them with inputs of its own, so leave the arithmetic to kernels"
        )
    shorter, longer = sorted((one.ops, other.ops), key=len)
    if changed is None and len(shorter) == len(longer):
        what = "its memory or its kernels"
    else:
        op = one.ops[changed] if changed is not None else longer[len(shorter)]
        what = _WORDS.get(op.op, op.op.replace("_", " "))
        if changed is not None and type(op) is type(other.ops[changed]):
            names = [f.name for f in fields(op) if getattr(op, f.name) != getattr(other.ops[changed], f.name)]
            what += f" ({', '.join(names)})"
    return (
        f"asks CUDA for other things in a second call with other numbers in its arrays; the first difference is {what}."
        " The grader records the calls once and replays them with inputs of its own: decide nothing by what is in"
        " the arrays, make kernels outside of the function, and streams, buffers and graphs anew in every call"
    )
