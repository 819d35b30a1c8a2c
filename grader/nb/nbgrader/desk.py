"""One desk a process: where notebooks are judged, with benches that stay warm from one to the next."""

import atexit
import threading
from concurrent.futures import Future, ThreadPoolExecutor

from grader import batch, caches, devices
from grader.bench import Bench
from grader.problems import Problem
from grader.results import Store, key
from grader.submission import Submission

_lock = threading.Lock()
_shared: "Desk | None" = None


class Desk:
    """Up to `jobs` benches, opened when first needed. Any thread may ask."""

    def __init__(self, device: str, trust: bool, jobs: int = 1):
        self.device, self.trust = devices.resolve(device), trust
        if self.device.startswith("cuda"):
            jobs = 1  # one timed job a GPU
        self._about: tuple[dict, int] | None = None  # the device, and the sandbox's level; once a bench is open
        self._free: list[Bench] = []
        self._all: list[Bench] = []
        self._lock, self._filling = threading.Lock(), threading.Lock()
        self._seats = threading.Semaphore(jobs)
        self._pool = ThreadPoolExecutor(jobs, thread_name_prefix="desk")

    def judge(self, submission: Submission, problem: Problem, results: str) -> dict:
        """The record of one answer, from the file of results if it was judged before. Raises when no bench starts."""
        with Store(results) as store:
            if self._about and (known := store.get(key(submission, problem, *self._about, None))) is not None:
                return known | {"submission": submission.path}
            with self._seats:
                bench = self._take()
                try:
                    return batch.grade_one(submission, problem, bench, store, None)
                finally:
                    with self._lock:
                        self._free.append(bench)

    def ahead(self, submission: Submission, problem: Problem, results: str) -> Future:
        """Judge in the background: a later `judge` finds the result."""
        return self._pool.submit(self.judge, submission, problem, results)

    def close(self) -> None:
        """Drop what has not begun, and end all processes."""
        self._pool.shutdown(cancel_futures=True)
        for bench in self._all:
            bench.close()
        self._all.clear()
        self._free.clear()

    def _take(self) -> Bench:
        with self._lock:
            if self._free:
                return self._free.pop()
        with self._filling:  # else the first benches on a machine would all compile the same
            caches.fill()
        bench = Bench(self.device, trust=self.trust)
        self._about = bench.device.describe(), bench.level
        with self._lock:
            self._all.append(bench)
        return bench


def shared(device: str, trust: bool, jobs: int = 1) -> Desk:
    """The process's desk, made new when another device is asked for."""
    global _shared
    with _lock:
        if _shared and (_shared.device, _shared.trust) != (devices.resolve(device), trust):
            _shared.close()
            _shared = None
        if _shared is None:
            _shared = Desk(device, trust, jobs)
        return _shared


@atexit.register
def close() -> None:
    """End the process's desk."""
    global _shared
    with _lock:
        if _shared:
            _shared.close()
        _shared = None
