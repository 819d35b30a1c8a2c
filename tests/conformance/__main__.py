"""python -m tests.conformance [FILE...] [--simulator] [--device NAME] [--test TEST] [--out FOLDER]

Runs numba-cuda's own tests on the virtual GPU and writes a table of what passed. A FILE is a module
("cudapy/test_sync") or a folder ("doc_examples"); without one, all of them.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from .expected import compare, last_line, load
from .runner import FOLDERS, ModuleResult, all_files, run_module
from .table import line, write


def chosen(names: list[str]) -> list[str]:
    """The modules that the command line names. Raises SystemExit for a name that is none."""
    files = all_files()
    if not names:
        return files
    found = []
    for name in names:
        name = name.removesuffix(".py").rstrip("/")
        matching = [file for file in files if file == name or file.startswith(name + "/") or file.endswith("/" + name)]
        if not matching:
            raise SystemExit(f"there is no test module {name!r}; folders are {', '.join(FOLDERS)}")
        found += matching
    return found


def show(result: ModuleResult, details: bool) -> None:
    """A line for the module, and one for each test that did not pass."""
    print(line(result), flush=True)
    for outcome in result.outcomes:
        if outcome.outcome in ("failed", "errors"):
            print(f"    {outcome.outcome}: {outcome.test}: {last_line(outcome.detail)}", flush=True)
            if details:
                print(outcome.detail)
        for finding in outcome.findings if details else ():
            print(f"    {outcome.test} finds {finding}")


def main() -> int:
    """Exit status 0 when nothing failed that is not listed and nothing listed passed."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__.split("\n\n")[1])
    parser.add_argument("files", nargs="*", metavar="FILE")
    parser.add_argument("--simulator", action="store_true", help="run on numba's simulator instead")
    parser.add_argument("--device", default="a100", help="the virtual GPU (default: a100)")
    parser.add_argument(
        "--test",
        action="append",
        default=[],
        help="only this test of FILE, e.g. cudapy.test_sync.TestCudaSync.test_syncthreads",
    )
    parser.add_argument("--limit", type=float, default=150.0, help="seconds a test may take (default: 150)")
    parser.add_argument(
        "--out", type=Path, default=None, help="a folder for the table (Markdown and JSON) and the tests' output"
    )
    parser.add_argument(
        "--sanitizers", action="store_true", help="with racecheck and initcheck (with --details, prints what they find)"
    )
    parser.add_argument("--details", action="store_true", help="print the traceback of what fails")
    options = parser.parse_args()
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
    results = []
    for file in chosen(options.files):
        device = None if options.simulator else options.device
        with open(options.out / f"{file.replace('/', '.')}.log" if options.out else os.devnull, "w") as log:
            result = run_module(file, device, tuple(options.test), options.limit, log, options.sanitizers)
        results.append(result)
        show(result, options.details)
        if options.out:
            write(options.out, results, "simulator" if options.simulator else options.device)
    if options.simulator:
        return 0
    ran = [outcome for result in results for outcome in result.outcomes]
    problems = compare(ran, load(), whole=not options.test)
    for problem in problems:
        print(problem)
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
