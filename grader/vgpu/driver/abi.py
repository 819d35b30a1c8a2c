"""The table of entry points, and what stands between a C call and a Python function.

    @entry("cuMemAlloc", out(u64), size)
    def mem_alloc(ctx, nbytes):
        return address

The decorator's parameters are those of the C function, in order. An `out` is left out of the Python function's
parameters; what the function returns is written there (several outs: a tuple). A handle parameter (`STREAM`, `EVENT`,
...) reaches the function as the object that it names. By default the function's first parameter is the calling thread's
current context, which must exist and must not have faulted.

`CudaError` from the function is the CUresult that the caller gets; any other exception is a defect of ours, is shown
with its traceback, and gives CUDA_ERROR_UNKNOWN. An entry point that has no row here returns CUDA_ERROR_NOT_SUPPORTED
and names itself once on stderr.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass

from grader.vgpu.driver import errors
from grader.vgpu.driver.errors import CudaError

# One lock for all of the driver's state. A kernel releases the GIL while it runs but not this lock.
LOCK = threading.RLock()

PER_THREAD_DEFAULT_STREAM = 2  # CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM; also the handle CU_STREAM_PER_THREAD
LEGACY_DEFAULT_STREAM = 1  # CU_STREAM_LEGACY


@dataclass(frozen=True)
class Param:
    """One parameter of a C function."""

    ctype: type
    out: bool = False  # the callee writes it
    nullable: bool = False  # an out that may be NULL
    convert: Callable[[int, int], object] | None = None  # (raw value, default stream) -> what the function gets
    implicit: bool = False  # not in the C signature: made from the default stream alone


i32 = Param(ctypes.c_int)
u32 = Param(ctypes.c_uint)
u64 = Param(ctypes.c_uint64)
size = Param(ctypes.c_size_t)
f32 = Param(ctypes.c_float)
u8 = Param(ctypes.c_ubyte)
u16 = Param(ctypes.c_ushort)
ptr = Param(ctypes.c_size_t)  # a pointer as a number, 0 for NULL
cstr = Param(ctypes.c_char_p)


def out(param: Param) -> Param:
    """A result parameter; NULL gives CUDA_ERROR_INVALID_VALUE."""
    return Param(param.ctype, out=True)


def opt(param: Param) -> Param:
    """A result parameter that may be NULL."""
    return Param(param.ctype, out=True, nullable=True)


@dataclass(frozen=True)
class Entry:
    """One row of the table: a version of an entry point."""

    name: str
    version: int  # CUDA version (1000 x major + 10 x minor) from which cuGetProcAddress gives this one
    params: tuple[Param, ...]
    function: Callable
    context: bool  # needs a current, healthy context, and gets it first
    init: bool  # needs cuInit


ENTRIES: dict[str, list[Entry]] = {}  # by name, oldest version first


def entry(*signature: str | Param, version: int = 0, context: bool = True, init: bool = True):
    """Add a row to the table. `signature` is one or more names, then the C function's parameters."""
    names = [part for part in signature if isinstance(part, str)]
    params = tuple(part for part in signature if isinstance(part, Param))

    def add(function: Callable) -> Callable:
        for name in names:
            rows = ENTRIES.setdefault(name, [])
            rows.append(Entry(name, version, params, function, context, init))
            rows.sort(key=lambda row: row.version)
        return function

    return add


def find(name: str, version: int) -> Entry | None:
    """The newest version of the entry point that is not newer than `version`, as cuGetProcAddress chooses."""
    fitting = [row for row in ENTRIES.get(name, ()) if row.version <= version]
    return fitting[-1] if fitting else None


SAID: dict[str, None] = {}  # the sentences that `say` has printed in this process, in order


def say(sentence: str) -> None:
    """Print a sentence on stderr, once a process."""
    if sentence not in SAID:
        SAID[sentence] = None
        print(f"grader: {sentence}", file=sys.stderr, flush=True)


_TRACE = bool(os.environ.get("GRADER_TRACE"))  # every call on stderr: for work on the driver itself


def callback(row: Entry, default_stream: int):
    """The ctypes callback for a row. `default_stream`: what stream handle 0 means to this client."""
    from grader.vgpu.driver import state
    from grader.vgpu.driver.clock import CLOCK
    from grader.vgpu.driver.memory import drop_unmapped
    from grader.vgpu.driver.paging import settle

    function, current, initialised = row.function, row.context, row.init
    declared = [p for p in row.params if not p.implicit]
    positions, k = [], 0
    for p in row.params:
        positions.append(-1 if p.implicit else k)  # an implicit one reads some raw value and ignores it
        k += not p.implicit
    ins = [(k, p.convert) for k, p in zip(positions, row.params, strict=True) if not p.out]
    outs = [(k, p.ctype, p.nullable) for k, p in enumerate(declared) if p.out]
    single = len(outs) == 1

    def call(*raw):
        try:
            with LOCK:
                args = []
                if initialised and not state.driver.initialised:
                    return errors.NOT_INITIALIZED
                for k, _, nullable in outs:
                    if not raw[k] and not nullable:
                        return errors.INVALID_VALUE
                if current:
                    args.append(state.current_context())
                for k, convert in ins:
                    args.append(convert(raw[k], default_stream) if convert else raw[k])
                drop_unmapped()
                settle()
                before = CLOCK.host_us
                result = function(*args)
                if CLOCK.host_us > before:
                    CLOCK.note_call(row.name, before)
                if single:
                    result = (result,)
                for (k, ctype, _), value in zip(outs, result or (), strict=True):
                    if raw[k]:
                        ctype.from_address(raw[k]).value = value
            return errors.SUCCESS
        except CudaError as error:
            if error.why:
                say(error.why)
            return error.code
        except MemoryError:
            say(f"{row.name} needs more memory than this computer has, in which the virtual GPU keeps its own")
            return errors.OUT_OF_MEMORY
        except Exception:
            print(f"grader: defect in the virtual GPU's {row.name}:", file=sys.stderr)
            traceback.print_exc()
            return errors.UNKNOWN

    if _TRACE:
        untraced = call

        def call(*raw):
            print(f"  {row.name}{raw}", file=sys.stderr, flush=True)
            code = untraced(*raw)
            if code:
                print(f"  {row.name} -> {errors.name(code)}", file=sys.stderr, flush=True)
            return code

    # An out parameter is a pointer in C, whatever it points to.
    kinds = [ctypes.c_size_t if p.out else p.ctype for p in declared]
    return ctypes.CFUNCTYPE(ctypes.c_int, *kinds)(call)


def missing(name: str):
    """The ctypes callback for an entry point without a row. The C caller cleans up the arguments, so none are named."""

    def call():
        say(f"{name} is not implemented by the virtual GPU and returned CUDA_ERROR_NOT_SUPPORTED")
        return errors.NOT_SUPPORTED

    return ctypes.CFUNCTYPE(ctypes.c_int)(call)
