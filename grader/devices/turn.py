"""One grader at a time on a GPU: a lock of this computer for each card, by its UUID.

The judging process holds it while a batch of runs is under way, and hands it down to nobody: who inherits a lock can keep
it, or let go of it. It is the kernel's (`flock`), so that a process that is killed lets go as well.
"""

import fcntl
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path


def lock_file(uuid: str) -> Path:
    """Where the lock of a card lies: one place for all users and all courses of this computer."""
    return Path(tempfile.gettempdir(), f"cuda-camp-gpu-{uuid}.lock")


@contextmanager
def turn(uuids: Sequence[str]) -> Iterator[None]:
    """Wait until no other grader uses these cards, and keep them. OSError where a lock cannot be opened."""
    with ExitStack() as held:
        for uuid in sorted(
            set(uuids)
        ):  # in the same order everywhere, so that two that want two cards cannot block each other
            held.callback(os.close, _taken(lock_file(uuid)))
        yield


def _taken(path: Path) -> int:
    """The file descriptor of a lock that is ours now."""
    # Another user's lock is opened as it is; a link that somebody has put in its place is not followed.
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        lock = os.open(path, flags)
    except FileNotFoundError:
        lock = os.open(path, flags | os.O_CREAT, 0o666)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"grader: another grader uses the GPU; waiting for {path}", file=sys.stderr, flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
    except BaseException:
        os.close(lock)
        raise
    return lock
