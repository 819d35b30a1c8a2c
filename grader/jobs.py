"""The job in which student Python runs: cells in, `Program`s out. Its reply is a claim that the judging side checks.

Runs in a locked child of a zygote that imported this module, numba and the virtual driver beforehand. Nothing is
executed on the device unless the submission itself waits for it: a launch is recorded when it is submitted.
"""

import os
import traceback
import warnings

from grader import explain, host, program_check  # noqa: F401  (imported now: the child cannot read it later)
from grader.addresses import Declared
from grader.cells import Cells, Failure, find_function, find_kernel
from grader.evidence import place
from grader.program import LAUNCH_S, ProgramError
from grader.recording import Recorder

MAX_TEXT = 4000
_kept: list = []  # arrays, until the process ends: freeing one would make the device do the work


def warm() -> None:
    """Import what a submission will need, once, on the virtual driver. Called in the zygote."""
    import grader.vgpu
    import grader.vgpu.machine

    grader.vgpu.activate(os.environ["GRADER_DEVICE"])
    import matplotlib.pyplot  # noqa: F401  (it wants to write a cache, which a submission cannot)
    import numpy  # noqa: F401
    from numba import cuda, float32

    import grader.kit.barriers  # exercises import the kit, whose files a locked child cannot read
    import grader.kit.copies
    import grader.kit.lab
    import grader.kit.limits
    import grader.kit.managed
    import grader.kit.wide

    @cuda.jit
    def usual(a, out):
        tile = cuda.shared.array((32, 33), float32)
        x, y = cuda.grid(2)
        tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
        tile[ty, tx] = a[y, x] if y < a.shape[0] and x < a.shape[1] else float32(0)
        cuda.syncthreads()
        for j in range(0, 32, 8):
            if y + j < out.shape[0]:
                out[y + j, x] += tile[tx, ty] * 2 + min(x, j) // 3

    warnings.simplefilter("ignore")
    a = cuda.device_array((4, 32), "float32")
    usual[1, (32, 4)](a, a)
    cuda.synchronize()
    for stream in (cuda.stream(), cuda.stream()):  # has racecheck look at what launches leave behind, as in a replay
        a = cuda.device_array((4, 32), "float32", stream=stream)
        usual[1, (32, 4), stream](a, a)
    cuda.synchronize()


def record(request: dict, blobs: list[bytes]) -> tuple[dict, list[bytes]]:
    """Run the cells, find the entry, launch or call it once a case under the recorder.

    request: cells [[label, source]], definitions (run only these), entry {name, kind, params}, cases [{name, args}, for
    a kernel with grid and block] where an argument is {array, dtype, shape, role, where} or {scalar, dtype, value}; kind
    is "kernel" or "function". Reply: programs {case: [header, [indices of its blobs]]}, failed_cells, early [[case,
    evidence.Finding as a dict, line]] (see evidence.Early), and error {code, message, detail, flag} or null. `present`:
    this process has been in use, and what is there is the submission's too.

    A function that depends on the numbers in its arrays has no programs, and `live` says so in the reply. It is asked
    for again, with `inputs` in each case: {array: index of its bytes in blobs}. The programs then hold for these only.
    """
    warnings.simplefilter("ignore")
    _keep_nothing_on_disk()
    reply, out, places = {"programs": {}, "failed_cells": [], "error": None, "live": "", "early": []}, [], {}
    cells = Cells()
    from grader.vgpu import driver

    recorder = Recorder(_read, _line)
    try:
        # From the start: what the cells allocate may be used by the kernel.
        with driver.record(recorder, present=request.get("present", False)):
            cells.run(request["cells"], request["definitions"])
            find, use = (find_kernel, _launch) if request["entry"]["kind"] == "kernel" else (find_function, _called)
            entry = find(cells, request["entry"])
            for case in request["cases"]:
                if "inputs" in case:
                    case["inputs"] = {name: blobs[k] for name, k in case["inputs"].items()}
                try:
                    header, contents = use(entry, case, recorder, cells).to_parts()
                finally:
                    reply["early"] += _early(case["name"]) if use is _called else []
                for blob in contents:  # what several programs hold travels once
                    if blob not in places:
                        places[blob] = len(out)
                        out.append(blob)
                reply["programs"][case["name"]] = [header, [places[blob] for blob in contents]]
    except host.DependsOnData as e:
        reply |= {"programs": {}, "live": str(e)[:MAX_TEXT]}
        out.clear()
    except Failure as e:
        reply["error"] = {
            "code": e.code,
            "message": e.message[:MAX_TEXT],
            "detail": e.detail[:MAX_TEXT],
            "flag": e.flag,
        }
    reply["failed_cells"] = [f"{label}: {what}"[:MAX_TEXT] for label, what in cells.failed.items()]
    return reply, out


def _keep_nothing_on_disk() -> None:
    """cuda.jit(cache=True) is no mistake, but there is no disk to keep anything on."""
    from numba.cuda.dispatcher import CUDADispatcher

    CUDADispatcher.enable_caching = lambda self: None


def _launch(kernel, case: dict, recorder: Recorder, cells: Cells):
    """Launch once."""
    import numpy as np
    from numba import cuda

    args, declared = [], []
    for a in case["args"]:
        if "scalar" in a:
            args.append(np.dtype(a["dtype"]).type(a["value"]))
            continue
        array = cuda.device_array(tuple(a["shape"]), np.dtype(a["dtype"]))
        address = array.__cuda_array_interface__["data"][0]
        declared.append(Declared(a["array"], address, array.nbytes, a["role"], a["dtype"], tuple(a["shape"])))
        args.append(array)
    _kept.extend(args)
    try:
        recorder.begin(declared)
        try:
            kernel[tuple(case["grid"]), tuple(case["block"])](*args)
        except MemoryError:
            raise
        except BaseException as e:
            raise _failure(e, cells) from None
        return recorder.end()
    except ProgramError as e:
        raise Failure("RTE", str(e)) from None


def _line() -> tuple[str, int]:
    """Where the submission is."""
    from grader.vgpu.sanitize import host as places

    file, line = places.place()
    return os.path.basename(file)[:100], line


def _read(address: int, nbytes: int) -> bytes:
    import numpy as np
    from cuda.bindings import driver as cu

    out = np.empty(nbytes, np.uint8)
    (error,) = cu.cuMemcpyDtoH(out.ctypes.data, address, nbytes)
    if error:
        raise ProgramError(f"memory of {nbytes} bytes cannot be read: {error.name}")
    return out.tobytes()


def _called(function, case: dict, recorder: Recorder, cells: Cells):
    """Call a host function: as often as it takes to know that its recording holds for all inputs, or for those given."""
    import grader.vgpu
    from grader.vgpu.driver import abi

    options = grader.vgpu.options()
    # Hazards are looked for in the replay, but for those of the host: a recording does not have its lines, nor its reads.
    options.racecheck = options.initcheck = False
    options.hostcheck = True
    _early("")
    options.deadline = LAUNCH_S
    before = len(abi.SAID)
    try:
        if "inputs" in case:
            return host.call(function, case, recorder, host.given(case["inputs"]))
        return host.program_of(function, case, recorder)
    except host.Raised as e:
        raise _failure(e.__cause__, cells, f"{function.__name__} failed", before) from None
    except host.Unsteady as e:
        raise Failure("RTE", str(e), flag="the host's code does not ask for the same twice") from None
    except ProgramError as e:
        raise Failure("RTE", str(e)) from None


def _early(case: str) -> list[list]:
    """What the host was seen to touch too early since the last call."""
    import grader.vgpu
    from grader.vgpu.driver.state import driver

    found = [f for f in grader.vgpu.findings() if f.tool == "racecheck"]
    driver.findings[:] = [f for f in driver.findings if f not in found]
    return [
        [
            case,
            {"tool": f.tool, "message": f.message, "line": f.line or None, "file": os.path.basename(f.file)[:100]},
            f.other_line,
        ]
        for f in found
    ]


def _failure(e: BaseException, cells: Cells, what: str = "the launch failed", before: int | None = None) -> Failure:
    """What a launch or a call that raised tells the student. `before`: how much the driver had said before it."""
    text = "".join(traceback.format_exception_only(e))
    if explain.is_about_compiling(e):
        return Failure("CE", explain.sentence(e, cells.sources), text)
    if "CUDA_ERROR_INVALID_PTX" in str(e):
        return Failure("CE", explain.sentence(RuntimeError(_refused_ptx() or str(e)), cells.sources), text)
    if "CUDA_ERROR_LAUNCH_TIMEOUT" in str(e):
        return Failure("TLE", f"{what}: {explain.one_line(e)}", text)
    return Failure("RTE", f"{what}: {explain.one_line(e)}{_found(before)}", text)


def _found(before: int | None) -> str:
    """What memcheck or the driver said of an error, which a CUresult cannot say."""
    import grader.vgpu
    from grader.vgpu.driver import abi

    faults = [f for f in grader.vgpu.findings() if getattr(f, "tool", "") == "memcheck"]
    if faults:
        where = place(os.path.basename(faults[-1].file or ""), faults[-1].line)
        return f" ({where}: {faults[-1].message})"
    said = [] if before is None else list(abi.SAID)[before:]
    return f" ({said[-1].splitlines()[0]})" if said else ""


def _refused_ptx() -> str:
    """What the driver said of PTX that it would not take."""
    from grader.vgpu.driver import abi

    said = [s for s in abi.SAID if "PTX" in s or "kernel" in s]
    return said[-1].split("\n")[0] if said else ""
