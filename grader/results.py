"""Results that outlive the process: SQLite, written before anything is shown."""

import hashlib
import json
import re
import sqlite3
import threading
import time
from functools import cache
from pathlib import Path
from types import TracebackType

from grader.problems.model import Problem
from grader.submission import Submission

_SCHEMA = """
CREATE TABLE IF NOT EXISTS results (
    key TEXT PRIMARY KEY, submission TEXT NOT NULL, exercise TEXT NOT NULL, device TEXT NOT NULL,
    seed TEXT NOT NULL, finished REAL NOT NULL, record TEXT NOT NULL
)
"""


class Unusable(ValueError):
    """The file cannot hold results; the text is one sentence."""


class Store:
    """A file of results, or memory when no file is named. Each result is there once, whatever is killed when.

    Any thread may use it, and any number of processes the same file. Raises Unusable.
    """

    def __init__(self, path: str | None = None):
        self._path, self._lock = path, threading.Lock()
        try:
            self._db = sqlite3.connect(path or ":memory:", isolation_level=None, timeout=60, check_same_thread=False)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=FULL")
            self._db.execute(_SCHEMA)
        except sqlite3.Error as e:
            raise Unusable(f"{path} cannot hold results: {e}") from None

    def get(self, key: str) -> dict | None:
        """The record that was put under this key."""
        row = self._execute("SELECT record FROM results WHERE key = ?", (key,))
        return json.loads(row[0]) if row else None

    def put(self, key: str, record: dict) -> dict:
        """Keep a record, and give the one that is kept: the first under a key stays. Returns when it is on disk.

        IE is not kept: it is to be tried again.
        """
        if record["code"] == "IE":
            return record
        name = record["submission"].encode("utf-8", "backslashreplace").decode()  # a file name need not be text
        row = (key, name, record["exercise"], record["device"], str(record["seed"]), time.time())
        self._execute("INSERT OR IGNORE INTO results VALUES (?, ?, ?, ?, ?, ?, ?)", (*row, json.dumps(record)))
        return self.get(key)

    def _execute(self, statement: str, values: tuple) -> tuple | None:
        try:
            with self._lock:
                return self._db.execute(statement, values).fetchone()
        except sqlite3.Error as e:
            raise Unusable(f"{self._path} cannot hold results: {e}") from None

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def key(submission: Submission, problem: Problem, device: dict, level: int, seed: int | None) -> str:
    """Equal for equal gradings: the file, the exercise as it is now, the grader, the device, the sandbox, the seed policy.

    device: as it describes itself; the same number may be another card tomorrow. level: of the sandbox, as it was found
    to hold: a result that a submission got under a weaker one may be of its own making.
    """
    policy = "fresh" if seed is None else str(seed)
    card = " ".join(str(device.get(part, "")) for part in ("spec", "name", "driver"))
    parts = (submission.digest, problem.name, exercise_version(problem), card, f"level {level}", policy)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


# Parts of the package that decide no verdict and no record. Other exercises do not decide one either.
_NO_VERDICT = re.compile(
    r"(nb|report(?!/record)|problems/\d\d_\w+)/|(cli|cli_grade|exits|doctor|__main__)\.py$|course/"
)


@cache
def _digest(folder: Path, besides: re.Pattern | None = None) -> str:
    h = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        name = path.relative_to(folder).as_posix()
        if besides is None or not besides.match(name):
            h.update(name.encode() + b"\0" + path.read_bytes())
    return h.hexdigest()


def exercise_version(problem: Problem) -> str:
    """Changes whenever the exercise or the grading of it does: the grader's code, the virtual GPU's included."""
    parts = problem.version, _digest(problem.folder), _digest(Path(__file__).parent, _NO_VERDICT)
    return hashlib.sha256(" ".join(map(str, parts)).encode()).hexdigest()[:16]
