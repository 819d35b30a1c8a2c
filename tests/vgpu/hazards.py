"""Runs the programs of the corpus, each in a process of its own, forked from one that has everything imported.

    python tests/vgpu/hazards.py [file.py[:name] ...]     prints a line of JSON for each program

A file is a common part, then programs, each under a line `# %% name` and, below it, what the sanitizers must say:

    # expect: racecheck, read after write, (1) with (2)
    # expect: silence

(1) and (2) stand in comments at the ends of the lines they mean; "line 4" is one of a source text of its own.
"""

import itertools
import json
import os
import re
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

CORPUS = Path(__file__).resolve().parent.parent / "corpus" / "hazards"
SECONDS = 300  # a program that takes longer is killed; they take fractions of one
EXPECT = re.compile(
    r"# expect: (?:silence|(\w+), ([\w -]+?)(?:, \((\d)\)(?: with \((\d)\))?|, line (\d+))?(?:, says \"(.*)\")?)$"
)


@dataclass(frozen=True)
class Case:
    """One program of the corpus."""

    file: Path
    name: str
    source: str  # the common part and the program, on the lines that they have in the file
    expected: tuple  # of (tool, kind, line, other line, words of the message); empty for silence

    @property
    def id(self) -> str:
        return f"{self.file.stem}:{self.name}"


def read(file: Path) -> list[Case]:
    """The programs of a file. Raises ValueError where an expectation is missing or names a mark that is not there."""
    lines = file.read_text().splitlines()
    starts = [k for k, line in enumerate(lines) if line.startswith("# %% ")] + [len(lines)]
    cases = []
    for start, end in itertools.pairwise(starts):
        marks = {}
        for k in range(start, end):
            comment = re.search(r"  # ((?:\(\d\) ?)+)$", lines[k])
            for mark in re.findall(r"\d", comment[1]) if comment else ():
                marks[mark] = k + 1
        name, expected, said = lines[start][5:], [], False
        for line in lines[start:end]:
            if line.startswith("# expect:"):
                match = EXPECT.match(line)
                if match is None:
                    raise ValueError(f"{file.name}: {line!r}")
                said = True
                tool, kind, one, other, number, words = match.groups()
                if tool:
                    line = marks[one] if one else int(number or 0)
                    expected.append((tool, kind, line, marks[other] if other else 0, words or ""))
        if not said:
            raise ValueError(f"{file.name}: {name!r} expects nothing, not even silence")
        source = "\n".join(lines[: starts[0]] + [""] * (start - starts[0]) + lines[start:end]) + "\n"
        cases.append(Case(file, name, source, tuple(expected)))
    return cases


def corpus(wanted=()) -> list[Case]:
    """All programs, or those of the named files ("file.py") or single ones ("file.py:name")."""
    cases = [case for file in sorted(CORPUS.glob("*.py")) if file.name != "primitives.py" for case in read(file)]
    return [c for c in cases if not wanted or any(c.file.name == w or f"{c.file.name}:{c.name}" == w for w in wanted)]


def run(case: Case) -> dict:
    """Execute a program in this process: what was found, and how it ended."""
    from grader import vgpu

    vgpu.options().announce = False
    error = ""
    try:
        code = compile(case.source, str(case.file), "exec")
        exec(code, {"__name__": "__main__", "__file__": str(case.file)})
        vgpu.finish()
    except AssertionError:
        error = traceback.format_exc()
    except Exception as problem:
        error = f"{type(problem).__module__}.{type(problem).__name__}: {problem}"
    found = [
        {
            "tool": f.tool,
            "kind": f.kind,
            "line": f.line,
            "other": f.other_line,
            "count": f.count,
            "message": f.message,
            "file": f.file,
        }
        for f in vgpu.findings()
    ]
    return {"case": case.id, "findings": found, "error": error}


def start(case: Case) -> tuple[int, int]:
    """Fork a child that runs the program. -> (its process id, the pipe that it answers on)"""
    out, end = os.pipe()
    pid = os.fork()
    if pid:
        os.close(end)
        return pid, out
    os.close(out)
    began = time.process_time()
    answer = run(case)
    answer["seconds"] = time.process_time() - began
    with os.fdopen(end, "w") as pipe:
        json.dump(answer, pipe)
    sys.stdout.flush()
    os._exit(0)


def finish(case: Case, pid: int, pipe: int) -> dict:
    import select
    import signal

    text, deadline = b"", time.monotonic() + SECONDS
    while True:
        if not select.select([pipe], [], [], max(0, deadline - time.monotonic()))[0]:
            os.kill(pid, signal.SIGKILL)
            break
        more = os.read(pipe, 1 << 16)
        if not more:
            break
        text += more
    os.close(pipe)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if not text:
        return {"case": case.id, "findings": [], "error": f"the process ended with {status}", "seconds": 0}
    return json.loads(text)


def main(wanted) -> None:
    os.environ.setdefault("NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS", "0")
    os.environ.setdefault("NUMBA_CUDA_WARN_ON_IMPLICIT_COPY", "0")
    sys.path.insert(0, str(CORPUS))
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the programs print does not mix with the answers
    from grader import vgpu

    vgpu.activate("a100*2")
    import numpy as np
    from numba import cuda

    @cuda.jit
    def warm(x):
        cuda.syncthreads()
        x[cuda.grid(1)] = 1

    warm[1, 32](np.zeros(32, np.float32))
    cuda.synchronize()
    waiting, running = corpus(wanted), []
    for _ in range(2):
        if waiting:
            running.append((waiting[0], *start(waiting.pop(0))))
    while running:
        case, pid, pipe = running.pop(0)
        answer = finish(case, pid, pipe)
        if waiting:
            running.append((waiting[0], *start(waiting.pop(0))))
        print(json.dumps(answer), file=out, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
