"""Kernels told by their code: whether what was launched is what an exercise gives.

The code is the PTX, less what says where it came from: comments, lines, the names of functions. Texts that differ in
names, comments and layout are the same kernel; other options (fastmath, debug) or other types of arguments make another.
"""

import re
from hashlib import sha256

from grader.program import Launch, Program, work_of

# Only what is exactly of the compiler's form is left out: nothing that does work can hide in it.
_INLINED = rb"(?:,[ \t]*function_name[ \t]+[\w$]+(?:[ \t]*\+[ \t]*\d+)?,[ \t]*inlined_at[ \t]+\d+[ \t]+\d+[ \t]+\d+)?"
_FROM = re.compile(
    rb"//[^\n]*"
    rb"|^[ \t]*\.loc[ \t]+\d+[ \t]+\d+[ \t]+\d+" + _INLINED + rb"[ \t]*$"
    rb'|^[ \t]*\.file[ \t]+\d+[ \t]+"[^"\n]*"[ \t]*$'
    rb"|^[ \t]*\.section[ \t]+\.debug_\w+\s*\{[^{}]*\}",
    re.MULTILINE,
)
_NAME = re.compile(rb"(?<![\w$%])_Z[\w$%]*")  # of functions and their parameters
_ENTRY = re.compile(rb"\.entry\s+([\w$%]+)")
_ANOTHER_READING = re.compile(rb"[\r\\#]|/\*")  # in which a line is not what it seems to be; compilers make none
_MOST = 1 << 18  # bytes of a module; no kernel that is given comes near


def code(ptx: bytes, kernel: str) -> str:
    """A digest of a kernel's code, equal for equal code; empty for a module that holds anything but this one kernel."""
    if len(ptx) > _MOST or _ANOTHER_READING.search(ptx):
        return ""
    text = _FROM.sub(b"", ptx)
    if _ENTRY.findall(text) != [kernel.encode()]:
        return ""
    numbers: dict[bytes, bytes] = {}
    text = _NAME.sub(lambda m: numbers.setdefault(m[0], b"_Z%d" % len(numbers)), text)
    return sha256(b" ".join(text.split())).hexdigest()


def codes(program: Program) -> dict[tuple[int, str], str]:
    """(module, kernel) -> code, of everything that a program launches."""
    found: dict[tuple[int, str], str] = {}
    for launch in (work for op in program.ops for work in work_of(op) if isinstance(work, Launch)):
        key = launch.module, launch.kernel
        if key not in found:
            found[key] = code(program.modules[launch.module], launch.kernel)
    return found


def short_name(kernel: str) -> str:
    """A kernel's name without what the compiler adds: "_ZN3foo4step..." -> "step"."""
    if not (start := re.match(r"_ZN?", kernel)):
        return kernel
    parts, rest = [], kernel[start.end() :]
    while digits := re.match(r"\d+", rest):
        parts.append(rest[digits.end() :][: int(digits[0])])
        rest = rest[digits.end() + int(digits[0]) :]
    return parts[-1] if parts else kernel
