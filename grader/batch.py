"""Many submissions, one or several at a time: each gets one record, whatever happens to it."""

import os
import queue
import secrets
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

from grader import problems, report
from grader import submission as submissions
from grader.bench import Bench
from grader.grade import grade
from grader.problems import Problem
from grader.results import Store, key
from grader.submission import Submission, Unreadable


@dataclass(frozen=True)
class Skipped:
    """A path that could not be taken as an answer to anything; the sentence says why."""

    path: str
    message: str


@dataclass(frozen=True)
class Refused:
    """A file that is there and answers a known exercise, but cannot be taken as it is."""

    path: str
    message: str


Task = tuple[Submission | Refused, Problem]


def plan(paths: list[str], exercise: str | None) -> Iterator[Task | Skipped]:
    """What is to be graded, in order; archives among the paths as if they were folders."""
    for path in submissions.walk(paths):
        if not path.endswith(submissions.ARCHIVES):
            yield from _tasks(path, exercise, os.path.lexists(path), partial(submissions.read, path))
            continue
        try:
            files = submissions.unpack(path)
        except Unreadable as e:
            yield Skipped(path, str(e))
            continue
        for name, raw in files.items():
            yield from _tasks(name, exercise, True, partial(submissions.parse, name, raw))


def _tasks(path: str, exercise: str | None, there: bool, read: Callable[[], Submission]) -> Iterator[Task | Skipped]:
    """Of one file, which is there or not."""
    try:
        found = read()
    except Unreadable as e:
        name = exercise or submissions.named_by(path)
        yield (Refused(path, str(e)), problems.get(name)) if there and name else Skipped(path, str(e))
        return
    names = (exercise,) if exercise else found.exercises
    if not names:
        yield Skipped(path, f"{path} does not say which exercise it answers: name it with --exercise")
    for name in names:
        yield found, problems.get(name)


def run(
    tasks: Sequence[Task],
    first: Bench,
    another: Callable[[], Bench],
    store: Store,
    seed: int | None,
    jobs: int,
    records: dict[int, dict],
) -> Iterator[tuple[int, dict]]:
    """(index, record) of every task, as they are done; up to `jobs` at a time, each in a bench of its own.

    first: a bench that is open. another: opens one more; where that fails, fewer are graded at a time. records: gets
    every record, by its index. When the iteration is left early, what is being graded is finished and kept, and among
    the records when the iterator is closed; what has not begun is not begun.
    """
    free: queue.SimpleQueue[Bench] = queue.SimpleQueue()
    free.put(first)

    def grade_next(index: int) -> dict:
        found, problem = tasks[index]
        bench = free.get()
        try:
            if isinstance(found, Refused):
                records[index] = refuse(found, problem, bench, seed)
            else:
                records[index] = grade_one(found, problem, bench, store, seed)
            return records[index]
        finally:
            free.put(bench)

    with ExitStack() as benches, ThreadPoolExecutor(jobs) as pool, ThreadPoolExecutor(1) as opener:
        more = [opener.submit(lambda: free.put(benches.enter_context(another()))) for _ in range(jobs - 1)]
        waiting: dict[Future, int] = {pool.submit(grade_next, i): i for i in range(len(tasks))}
        try:
            for done in as_completed(waiting):
                yield waiting[done], done.result()
        finally:
            for future in (*waiting, *more):
                future.cancel()


def grade_one(submission: Submission, problem: Problem, bench: Bench, store: Store, seed: int | None) -> dict:
    """The record for one answer: from the store if it was graded before, else graded and stored before it is returned.

    A failure of the grader is tried once more, then becomes the code IE.
    """
    name = key(submission, problem, bench.device.describe(), bench.level, seed)
    if (record := store.get(name)) is not None:
        return record | {"submission": submission.path}
    about, used = bench.device.describe(), secrets.randbits(63) if seed is None else seed
    for attempt in (1, 2):
        start = time.perf_counter()
        try:
            verdict = grade(submission.cells, problem, bench, used)
            wall = time.perf_counter() - start
            record = report.make(
                submission.path, verdict, device=about, seed=used, wall_seconds=wall,
                protections=bench.protections, level=bench.level,
            )  # fmt: skip
            if record["code"] != "IE":
                break
        except Exception as e:
            if attempt == 2:
                said = f"the grader failed: {type(e).__name__}: {e}"
                record = report.refusal(submission.path, problem, "IE", said, device=about, seed=used)
                record["output"] = traceback.format_exc(limit=-8)
    return store.put(name, record) | {"submission": submission.path}


def is_kept(task: Task, bench: Bench, store: Store, seed: int | None) -> bool:
    """Was it graded before, so that its record is only fetched?"""
    found, problem = task
    if not isinstance(found, Submission):
        return False
    return store.get(key(found, problem, bench.device.describe(), bench.level, seed)) is not None


def refuse(what: Refused, problem: Problem, bench: Bench, seed: int | None) -> dict:
    """The record for a file that is no submission."""
    return report.refusal(what.path, problem, "CE", what.message, device=bench.device.describe(), seed=seed or 0)
