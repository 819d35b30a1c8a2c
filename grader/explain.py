"""A compiler's page of text as one sentence for the student: the line, what is wrong, what to write instead."""

import ast
import re
import traceback

from grader.evidence import place

_BOILERPLATE = re.compile(r"^(Failed in \w+ mode pipeline|During:|File |>>>|There are \d|-+|\^+|\s*$)")
_NO_VERSION = re.compile(r"No implementation of function Function\(<([^>]*?)(?: at 0x[0-9a-f]+)?>\)")
_CALL = re.compile(r">>> (.+)")

# What numba says -> what that means. The groups of the pattern fill the sentence.
PITFALLS = (
    (
        r"function (shared|local)\.array\b[\s\S]*>>> array",
        "cuda.{0}.array needs a shape of constants and a numba type: compute sizes outside of the kernel"
        " (WIDTH = TILE + 1) and use the name",
    ),
    (r"^<ufunc '(\w+)'>", "np.{0} has no code for a GPU: use math.{0}, or write it out"),
    (r"name '(\w+)' is not defined", "NameError: name '{0}' is not defined"),
    (
        r"uses too much shared data \((0x[0-9a-f]+) bytes, (0x[0-9a-f]+) max\)",
        "{0:d} bytes of shared memory; at most {1:d}",
    ),
    (r"(?:'with |context manager)", "'with' cannot be compiled for a GPU"),
)


def where_of(error: BaseException) -> tuple[str, int] | None:
    """(file, line) of the student's text that an error is about, from its message or the compiler's state."""
    found = re.findall(r'File "((?:cell|submission)[^"]*)", line (\d+)', str(error))
    if found:
        return found[-1][0], int(found[-1][1])
    best = None
    for frame, _ in traceback.walk_tb(error.__traceback__):
        for value in frame.f_locals.values():
            loc = getattr(value, "loc", value)
            file, line = getattr(loc, "filename", None), getattr(loc, "line", None)
            if isinstance(file, str) and _is_ours(file) and isinstance(line, int):
                best = file, line
    return best


def where_named(name: str, sources: dict[str, str]) -> tuple[str, int] | None:
    """(file, line) of the first use of a name inside a function."""
    for file, source in sources.items():
        try:
            tree = ast.parse(source)
        except (SyntaxError, ValueError, RecursionError):
            continue
        for function in (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)):
            for node in ast.walk(function):
                if isinstance(node, ast.Name) and node.id == name:
                    return file, node.lineno
    return None


def sentence(error: BaseException, sources: dict[str, str]) -> str:
    """One sentence for what stopped the compiler."""
    text = re.sub(r"\x1b\[\d*m", "", str(error))
    said, name = None, None
    for pattern, meaning in PITFALLS:
        if match := re.search(pattern, text):
            said = meaning.format(*(int(g, 16) if g.startswith("0x") else g for g in match.groups()))
            name = match[1] if meaning.startswith("NameError") else None
            break
    if said is None and (match := _NO_VERSION.search(text)) and (call := _CALL.search(text)):
        said = f"numba.cuda has no code for {call[1].strip()}"
    if said is None:
        lines = [line.strip() for line in text.splitlines()]
        said = next((line for line in lines if not _BOILERPLATE.match(line)), type(error).__name__)
    where = where_of(error) or (where_named(name, sources) if name else None)
    return f"{place(*where)}: {said}" if where else said


def one_line(error: BaseException, label: str = "") -> str:
    """What a failed cell raised: "line 3: NameError: name 'x' is not defined"."""
    if isinstance(error, SyntaxError) and error.lineno:
        return f"{place(error.filename or label, error.lineno)}: SyntaxError: {error.msg}"
    said = f"{type(error).__name__}: {error}".split("\n")[0].rstrip(": ")
    if "CUDA_ERROR_" in said:  # what follows the first sentence is about CUDA in general
        said = said.partition(". ")[0].rstrip(".")
    frames = [f for f in traceback.extract_tb(error.__traceback__) if _is_ours(f.filename)]
    return f"{place(frames[-1].filename, frames[-1].lineno)}: {said}" if frames else said


def is_about_compiling(error: BaseException) -> bool:
    """The compiler raised it, not the driver and not the submission's own Python."""
    if type(error) is KeyError:  # numba's word for some functions that it does not know
        frames = traceback.extract_tb(error.__traceback__)
        return bool(frames) and not _is_ours(frames[-1].filename)
    module = type(error).__module__
    return module.startswith("numba") and ".cudadrv" not in module


def _is_ours(file: str) -> bool:
    return file.startswith(("cell ", "submission"))
