"""A submission's cells: run one by one, and what they define under the exercise's name.

Runs in the process that the student's code runs in.
"""

import ast
import inspect
import linecache
import re
import sys
import types
from dataclasses import dataclass, field

from grader import explain

_MAGIC = re.compile(r"^(\s*)(?:[%!].*|[\w.]+\?{1,2}\s*)$")
_DEFINITIONS = (
    *(ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef, ast.If, ast.Try),
    *(ast.Assign, ast.AnnAssign, ast.AugAssign),
)


class Failure(Exception):
    """The submission cannot be recorded: verdict code, one sentence, compiler text, what a person should look at."""

    def __init__(self, code: str, message: str, detail: str = "", flag: str = ""):
        super().__init__(message)
        self.code, self.message, self.detail, self.flag = code, message, detail, flag


def _no_check(*args, **kwargs) -> None:
    """What `%load_ext grader` puts into a notebook: here the verdict is made elsewhere, so the call does nothing."""


@dataclass
class Cells:
    """The student's namespace, filled cell by cell; a cell that breaks does not stop the others."""

    module: types.ModuleType = field(default_factory=lambda: types.ModuleType("submission"))
    failed: dict[str, str] = field(default_factory=dict)  # label -> what happened
    sources: dict[str, str] = field(default_factory=dict)

    def run(self, cells: list, definitions: bool) -> None:
        """Execute them; with `definitions`, only what makes names: imports, functions, classes, assignments."""
        sys.modules["submission"] = self.module
        self.module.__dict__.setdefault("check", _no_check)
        for label, source in cells:
            self.sources[label] = source
            try:
                exec(self._compile(label, source, definitions), self.module.__dict__)
            except MemoryError:
                raise
            except BaseException as e:
                self.failed[label] = explain.one_line(e, label)

    def _compile(self, label: str, source: str, definitions: bool) -> types.CodeType:
        try:
            tree = ast.parse(source, label)
        except SyntaxError:
            source = _plain_python(source)
            tree = ast.parse(source, label)
        if definitions:
            tree.body = [statement for statement in tree.body if isinstance(statement, _DEFINITIONS)]
        linecache.cache[label] = (len(source), None, source.splitlines(keepends=True), label)
        return compile(tree, label, "exec")

    def who_defines(self, name: str) -> str | None:
        """The failed cell whose text seems to define a name."""
        return next((c for c in self.failed if re.search(rf"\bdef\s+{name}\b", self.sources[c])), None)


def _plain_python(source: str) -> str:
    """The cell with IPython's magics and shell lines taken out; the line numbers stay."""
    if source.lstrip().startswith("%%"):
        first, _, rest = source.lstrip().partition("\n")
        source = "\n" + rest if first.split()[0] in ("%%time", "%%timeit", "%%capture") else ""
    return "\n".join(_MAGIC.sub(r"\1pass", line) for line in source.split("\n"))


def _find(cells: Cells, entry: dict) -> tuple:
    """(what the submission defines under the entry's name, "name(a, b)")."""
    name = entry["name"]
    wanted = f"{name}({', '.join(entry['params'])})"
    found = cells.module.__dict__.get(name)
    if found is None:
        if broken := cells.who_defines(name):
            raise Failure("CE", f"{cells.failed[broken]}; so {wanted} is not defined")
        raise Failure("CE", f"the submission does not define {wanted}")
    return found, wanted


def find_kernel(cells: Cells, entry: dict):
    """The kernel that the exercise asks for. Failure says what is there instead."""
    from numba.cuda.dispatcher import CUDADispatcher

    found, wanted = _find(cells, entry)
    name, kind = entry["name"], type(found)
    if kind is not CUDADispatcher:  # asked of the type: an object may claim any class
        if inspect.isfunction(found):
            raise Failure("CE", f"{name} is a plain Python function: put @cuda.jit on the line above it")
        if issubclass(kind, CUDADispatcher):
            said = f"{name} is of a class of its own, {kind.__name__}: hand in what @cuda.jit returns, as it is"
            raise Failure("CE", said)
        raise Failure("CE", f"{name} is {_a(kind.__name__)}, not a kernel made with @cuda.jit")
    if found.targetoptions.get("device"):
        raise Failure("CE", f"{name} is a device function, which only kernels can call: leave out device=True")
    _check_parameters(found.py_func, entry, wanted)
    return found


def find_function(cells: Cells, entry: dict):
    """The plain function that the exercise asks for. Failure says what is there instead."""
    found, wanted = _find(cells, entry)
    if not inspect.isfunction(found):
        said = "a kernel" if hasattr(found, "py_func") else _a(type(found).__name__)
        raise Failure("CE", f"{entry['name']} is {said}: the exercise asks for a plain Python function {wanted}")
    _check_parameters(found, entry, wanted)
    return found


def _check_parameters(function, entry: dict, wanted: str) -> None:
    has = list(inspect.signature(function).parameters)
    if len(has) != len(entry["params"]):
        names = f" ({', '.join(has)})" if has else ""
        plural = "" if len(has) == 1 else "s"
        said = f"{entry['name']} takes {len(has) or 'no'} parameter{plural}{names}; it is called as {wanted}"
        raise Failure("CE", said)


def _a(noun: str) -> str:
    """ "a str", "an int"."""
    return f"{'an' if noun[:1].lower() in tuple('aeiou') else 'a'} {noun}"
