"""`grader grade`: submissions in, verdicts on the terminal and in files out."""

import argparse
import json
import os
import sys
import time
from collections import Counter
from contextlib import closing
from functools import partial
from statistics import median

from rich.console import Console

from grader import batch, devices, problems, report
from grader.bench import Bench
from grader.exits import FAILED, INTERRUPTED, refuse
from grader.report import files, gradescope, junit
from grader.results import Store, Unusable

PLAIN_WIDTH = 120  # columns, where the output is no terminal
QUIET_S = 15.0  # between two lines of progress, where the output is no terminal


def main(args: argparse.Namespace) -> int:
    """Carry out the command; its exit status."""
    try:
        exercise = problems.get(args.exercise).name if args.exercise else None
        spec = devices.resolve(args.device)
        known_card(spec)
        _check_files(args)
    except (LookupError, ValueError) as e:  # Unwritable is a ValueError
        return refuse(str(e))
    tasks = list(batch.plan(args.paths, exercise))
    status = 0
    for task in tasks:
        if isinstance(task, batch.Skipped):
            status = refuse(task.message)
    tasks = [t for t in tasks if not isinstance(t, batch.Skipped)]
    if not tasks:
        return status or refuse("nothing to grade: no .py file and no notebook there")
    if args.gradescope and (twice := _twice(tasks)):
        return refuse(f"--gradescope takes one student's files at a time, and here {twice} is answered more than once")
    try:
        with Store(args.results) as store:
            return _grade_all(args, tasks, spec, store) or status
    except Unusable as e:
        return refuse(str(e))


def _twice(tasks: list) -> str | None:
    """An exercise with more than one answer."""
    count = Counter(problem.name for _, problem in tasks)
    return next((name for name, n in count.items() if n > 1), None)


def _grade_all(args: argparse.Namespace, tasks: list, spec: str, store: Store) -> int:
    """Open a bench, grade, write and show; the exit status."""
    console = Console(width=None if sys.stdout.isatty() else PLAIN_WIDTH, highlight=False)
    records: dict[int, dict] = {}  # by the task's index
    start, interrupted, full = time.perf_counter(), False, ""
    jobs = 1 if spec.startswith("cuda") else args.jobs or _worth_while(len(tasks))
    open_bench = partial(Bench, spec, trust=args.trust_submissions)
    try:
        bench = open_bench()
    except RuntimeError as e:
        print(f"grader: the grader could not start: {e}", file=sys.stderr)
        return FAILED
    with bench:
        console.print(_headline(bench))
        kept = {i for i, task in enumerate(tasks) if args.results and batch.is_kept(task, bench, store, args.seed)}
        warm = time.perf_counter() - start
        progress = Progress(len(tasks))
        try:
            with closing(
                batch.run(tasks, bench, partial(_open_another, open_bench), store, args.seed, jobs, records)
            ) as results:
                for _, record in results:
                    progress.show(record)
        except KeyboardInterrupt:
            interrupted = True
        except Unusable as e:  # the disk is full, say: what is done is reported all the same
            full = str(e)
        progress.end()
    done = [records[i] for i in sorted(records)]
    if interrupted:
        where = f"kept in {args.results}" if args.results else "not kept: --results FILE keeps them"
        print(f"interrupted; {len(done)} of {len(tasks)} were graded, and are {where}", file=sys.stderr)
    if full:
        print(f"grader: {full}; {len(done)} of {len(tasks)} were graded", file=sys.stderr)
    if not done:
        return FAILED if full else INTERRUPTED
    failed = _write_reports(args, done)
    _show(console, done, args.detail or len(done) == 1)
    refused = {i for i in records if isinstance(tasks[i][0], batch.Refused)}
    fresh = [records[i] for i in sorted(records.keys() - kept - refused)]
    took = time.perf_counter() - start - warm
    console.print(_pace(fresh, len(kept & records.keys()), len(refused), warm, took, jobs))
    if _complain(done) or full:
        failed = FAILED
    return INTERRUPTED if interrupted else failed


def _headline(bench: Bench) -> str:
    """Which device, how times are got, what keeps submissions in; and what of the card is not watched."""
    about = bench.device.describe()
    said = f"Device: {about['name']}, times are {about['kind']}; sandbox level {bench.level}"
    if about.get("not_watched"):
        said += f"\nThe card's clock and neighbours are not watched: {about['not_watched']}"
    return said


def _show(console: Console, records: list[dict], detail: bool) -> None:
    """Every rule of every record, or a row a record."""
    if not detail:
        console.print(report.table(records))
        return
    for record in records:
        console.print(f"\n{report.printable(record['submission'])}", markup=False)
        console.print(report.detail(record))


def _complain(records: list[dict]) -> bool:
    """Say on stderr where the grader itself failed; whether it did."""
    failed = [r for r in records if r["code"] == "IE"]
    for r in failed:
        said = report.printable(f"{r['submission']}: {r['message']}")
        print(f"grader: {said}\n{report.lines(r['output'])}", file=sys.stderr)
    return bool(failed)


def _open_another(open_bench) -> Bench:
    try:
        return open_bench()
    except RuntimeError as e:
        print(f"grader: fewer at a time, because one more did not start: {e}", file=sys.stderr)
        raise


def _check_files(args: argparse.Namespace) -> None:
    """Raise Unwritable for what could not be written, before anything is graded."""
    for path in (args.json, args.html, args.junit, args.gradescope, args.results):
        if path is not None:
            files.check(path)
    if args.pages:
        files.make_folder(args.pages)


def _write_reports(args: argparse.Namespace, records: list[dict]) -> int:
    """Every file that was asked for, whatever becomes of the others; the exit status."""
    wanted = [
        (args.json, lambda path: files.write(path, json.dumps(records, indent=1))),
        (args.html, lambda path: files.write(path, report.page(records))),
        (args.junit, lambda path: files.write(path, junit.document(records))),
        (args.pages, lambda path: _write_pages(path, records)),
        (args.gradescope, lambda path: _gradescope(path, records)),
    ]
    status = 0
    for path, write in wanted:
        try:
            if path and write(path):
                status = FAILED
        except files.Unwritable as e:
            print(f"grader: {e}", file=sys.stderr)
            status = FAILED
    return status


def _write_pages(folder: str, records: list[dict]) -> None:
    for name, text in report.pages(records):
        files.write(os.path.join(folder, name), text)


def _worth_while(tasks: int) -> int:
    """Benches to open: each takes seconds to start."""
    return max(1, min(len(os.sched_getaffinity(0)), tasks // 8))


def _pace(records: list[dict], kept: int, refused: int, warm: float, took: float, jobs: int) -> str:
    """How long it took, in seconds: until all was ready (warm), and for the rest (took).

    records: what was graded now. How many were only fetched from --results (kept), and how many could not be read
    (refused), is said too; they tell nothing of the pace.
    """
    said = f"{len(records)} graded" + (f", {kept} kept" if kept else "")
    said += (f", {refused} not readable" if refused else "") + f"; ready in {warm:.1f} s"
    first, *others = [r["wall_seconds"] for r in records] or [None]
    if first is not None:
        said += f", first {first:.1f} s"
    if others:
        said += f", others {median(others):.2f} s each (median)"
        said += f", {60 * len(records) / took:.0f} a minute with --jobs {jobs}" if took else ""
    return said


def _gradescope(path: str, records: list[dict]) -> int:
    """Gradescope's file, or none where the grader failed; the exit status."""
    try:
        files.write(path, json.dumps(gradescope.results(records), indent=1))
    except ValueError as e:
        print(f"grader: {e}", file=sys.stderr)
        return FAILED
    return 0


def known_card(spec: str) -> None:
    """ValueError for a virtual card that does not exist."""
    if spec.startswith("virtual"):
        from grader.vgpu import devices as cards

        cards.parse(spec)


class Progress:
    """How far it is and how long it will take: one line that changes on a terminal, else a line now and then."""

    def __init__(self, total: int):
        self._total, self._done, self._start = total, 0, time.monotonic()
        self._said, self._live = self._start, sys.stderr.isatty()

    def show(self, record: dict) -> None:
        """One more is done."""
        self._done += 1
        now = time.monotonic()
        left = (now - self._start) / self._done * (self._total - self._done)
        line = f"[{self._done}/{self._total}] {record['code']:4} {report.printable(record['submission'])}, {left:.0f} s left"
        if self._live:
            print(f"\r\033[K{line[: os.get_terminal_size(sys.stderr.fileno()).columns - 1]}", end="", file=sys.stderr)
        elif now - self._said > QUIET_S and self._done < self._total:
            print(line, file=sys.stderr, flush=True)
            self._said = now

    def end(self) -> None:
        """Leave a clean line."""
        if self._live:
            print("\r\033[K", end="", file=sys.stderr)
