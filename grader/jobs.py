"""The job in which student Python runs: cells in, `Program`s out. Its reply is a claim that the judging side checks.

Runs in a locked child of a zygote that imported this module, numba and the virtual driver beforehand. Nothing is
executed on the device unless the submission itself waits for it: a launch is recorded when it is submitted.
"""

import inspect
import linecache
import re
import sys
import traceback
import types
import warnings
from dataclasses import dataclass, field

from grader import program_check  # noqa: F401  (imported now: the child cannot read it later)
from grader.program import ProgramError
from grader.recording import Declared, Recorder

_MAGIC = re.compile(r"^(\s*)(?:[%!].*|[\w.]+\?{1,2}\s*)$")
_AT = re.compile(r'File "([^"]*)", line (\d+)')
_BOILERPLATE = re.compile(r"^(Failed in \w+ mode pipeline|No conversion|During:|File |Use of unsupported|-+|\^+|\s*$)")
MAX_TEXT = 4000


class Failure(Exception):
    """The submission cannot be recorded: verdict code, one sentence, compiler text."""

    def __init__(self, code: str, message: str, detail: str = ""):
        super().__init__(message)
        self.code, self.message, self.detail = code, message, detail


def warm() -> None:
    """Import what a submission will need, once, on the virtual driver. Called in the zygote."""
    from grader.vgpu import enable

    enable()
    import matplotlib  # noqa: F401
    import numpy  # noqa: F401
    from numba import cuda

    @cuda.jit
    def nothing(x):
        i = cuda.grid(1)
        if i < x.size:
            x[i] = i

    cuda.compile_ptx(nothing.py_func, (cuda.types.float32[::1],), cc=(8, 0))


def record(request: dict, blobs: list[bytes]) -> tuple[dict, list[bytes]]:
    """Run the cells, find the entry, launch it once a case under the recorder.

    request: cells [[label, source]], entry {name, params}, cases [{name, grid, block, args}] where an argument is
    {array, dtype, shape, role} or {scalar, dtype, value}. Reply: programs {case: [header, first blob, blobs]},
    failed_cells, and error {code, message, detail} or null.
    """
    warnings.simplefilter("ignore")
    reply, out = {"programs": {}, "failed_cells": [], "error": None}, []
    cells = _Cells()
    try:
        cells.run(request["cells"])
        kernel = _find_kernel(cells, request["entry"])
        from grader.vgpu import driver

        recorder = Recorder(_read)
        with driver.record(recorder):
            keep: list = []
            for case in request["cases"]:
                header, contents = _launch(kernel, case, recorder, keep).to_parts()
                reply["programs"][case["name"]] = [header, len(out), len(contents)]
                out += contents
    except Failure as e:
        reply["error"] = {"code": e.code, "message": e.message[:MAX_TEXT], "detail": e.detail[:MAX_TEXT]}
    reply["failed_cells"] = [f"{label}: {what}"[:MAX_TEXT] for label, what in cells.failed.items()]
    return reply, out


@dataclass
class _Cells:
    """The student's namespace, filled cell by cell; a cell that breaks does not stop the others."""

    module: types.ModuleType = field(default_factory=lambda: types.ModuleType("submission"))
    failed: dict[str, str] = field(default_factory=dict)  # label -> what happened
    sources: dict[str, str] = field(default_factory=dict)

    def run(self, cells: list) -> None:
        sys.modules["submission"] = self.module
        for label, source in cells:
            self.sources[label] = source
            try:
                code = self._compile(label, source)
                exec(code, self.module.__dict__)
            except MemoryError:
                raise
            except BaseException as e:
                self.failed[label] = _one_line(e, label)

    def _compile(self, label: str, source: str) -> types.CodeType:
        try:
            code = compile(source, label, "exec")
        except SyntaxError:
            source = _plain_python(source)
            code = compile(source, label, "exec")
        linecache.cache[label] = (len(source), None, source.splitlines(keepends=True), label)
        return code

    def who_defines(self, name: str) -> str | None:
        """The failed cell whose text seems to define a name."""
        return next((c for c in self.failed if re.search(rf"\bdef\s+{name}\b", self.sources[c])), None)


def _plain_python(source: str) -> str:
    """The cell with IPython's magics and shell lines taken out; the line numbers stay."""
    if source.lstrip().startswith("%%"):
        first, _, rest = source.lstrip().partition("\n")
        source = "\n" + rest if first.split()[0] in ("%%time", "%%timeit", "%%capture") else ""
    return "\n".join(_MAGIC.sub(r"\1pass", line) for line in source.split("\n"))


def _find_kernel(cells: _Cells, entry: dict):
    from numba.cuda.dispatcher import CUDADispatcher

    name, params = entry["name"], entry["params"]
    wanted = f"{name}({', '.join(params)})"
    found = cells.module.__dict__.get(name)
    if found is None:
        if broken := cells.who_defines(name):
            raise Failure("CE", f"{cells.failed[broken]}; so {wanted} is not defined")
        raise Failure("CE", f"the submission does not define {wanted}")
    if not isinstance(found, CUDADispatcher):
        if inspect.isfunction(found):
            raise Failure("CE", f"{name} is a plain Python function: put @cuda.jit on the line above it")
        raise Failure("CE", f"{name} is a {type(found).__name__}, not a kernel made with @cuda.jit")
    has = list(inspect.signature(found.py_func).parameters)
    if len(has) != len(params):
        raise Failure("CE", f"{name} takes {len(has)} parameters ({', '.join(has)}); it is called as {wanted}")
    return found


def _launch(kernel, case: dict, recorder: Recorder, keep: list):
    """Launch once. Arrays are kept until the process ends: freeing one would make the device do the work."""
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
    keep += args
    try:
        recorder.begin(declared)
        try:
            kernel[tuple(case["grid"]), tuple(case["block"])](*args)
        except MemoryError:
            raise
        except BaseException as e:
            raise _failure(e) from None
        return recorder.end()
    except ProgramError as e:
        raise Failure("RTE", str(e)) from None


def _read(address: int, nbytes: int) -> bytes:
    import numpy as np
    from cuda.bindings import driver as cu

    out = np.empty(nbytes, np.uint8)
    (error,) = cu.cuMemcpyDtoH(out.ctypes.data, address, nbytes)
    if error:
        raise ProgramError(f"memory of {nbytes} bytes cannot be read: {error.name}")
    return out.tobytes()


def _failure(e: BaseException) -> Failure:
    """What a launch that raised tells the student."""
    module = type(e).__module__
    text = "".join(traceback.format_exception_only(e))
    if module.startswith("numba") and "cudadrv" not in module:
        return Failure("CE", _compiler_sentence(e), text)
    return Failure("RTE", f"the launch failed: {_one_line(e)}", text)


def _compiler_sentence(e: BaseException) -> str:
    """numba's page of text as one sentence: where, then the first line that says something."""
    text = str(e)
    places = [(f, int(n)) for f, n in _AT.findall(text) if f.startswith(("cell", "submission")) or "submission.py" in f]
    loc = getattr(e, "loc", None)
    if not places and loc is not None:
        places = [(loc.filename, loc.line)]
    lines = [line.strip() for line in re.sub(r"\x1b\[\d*m", "", text).splitlines()]
    said = next((line for line in lines if not _BOILERPLATE.match(line)), lines[0] if lines else type(e).__name__)
    where = _place(*places[-1]) if places else ""
    return f"{where}: {said}" if where else said


def _one_line(e: BaseException, label: str | None = None) -> str:
    """ "line 3: NameError: name 'x' is not defined"."""
    said = f"{type(e).__name__}: {e}".split("\n")[0].rstrip(": ")
    if isinstance(e, SyntaxError) and e.lineno:
        return f"{_place(e.filename or label or '', e.lineno)}: SyntaxError: {e.msg}"
    frames = [f for f in traceback.extract_tb(e.__traceback__) if f.filename.startswith(("cell ", "submission"))]
    return f"{_place(frames[-1].filename, frames[-1].lineno)}: {said}" if frames else said


def _place(file: str, line: int) -> str:
    file = file.rsplit("/", 1)[-1]
    return f"{file}, line {line}" if file.startswith("cell") else f"line {line}"
