"""Every hostile submission ends as its first line says, touches nothing, leaves nothing running."""

import contextlib
import hashlib
import os
import re
from pathlib import Path

import pytest

from grader.sandbox import VERDICTS, Limits, Outcome, Zygote

CORPUS = sorted((Path(__file__).parent.parent / "corpus" / "hostile").glob("*.py"))
LIMITS = Limits(cpu_s=60, wall_s=300, memory_mb=512)  # a busy machine must not turn another outcome into "time"
SHORT = Limits(cpu_s=20, wall_s=1.0, memory_mb=512)  # for those that never end
BROKEN_OUT = Path("/tmp/broken-out")


def expected(path: Path) -> tuple[str, str]:
    """Status and verdict code that the submission must get."""
    first = path.read_text().splitlines()[0]
    match = re.fullmatch(r"# expect: (\w+) (\w+|-)", first)
    assert match, f"{path.name} does not start with '# expect: <status> <verdict>'"
    return match[1], match[2]


@pytest.fixture(scope="module")
def canary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A course directory that no submission may read or change, though its permissions would allow it."""
    root = tmp_path_factory.mktemp("course")
    for name in ("hidden/test_saxpy.py", "submitted/alice/saxpy.py", "submitted/bob/saxpy.py", "gradebook.db"):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"secret of {name}")
        path.chmod(0o666)
    return root


def fingerprint(root: Path) -> str:
    """Names, contents, modes and times of everything beneath root."""
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        state = path.lstat()
        digest.update(f"{path} {state.st_mode} {state.st_nlink} {state.st_mtime_ns}".encode())
        if path.is_file():
            digest.update(path.read_bytes())
    return digest.hexdigest()


def descendants(pid: int) -> set[int]:
    """Every process beneath pid."""
    found: set[int] = set()
    waiting = [pid]
    while waiting:
        for task in Path(f"/proc/{waiting.pop()}/task").glob("*/children"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that has ended since
                children = [int(child) for child in task.read_text().split()]
                found.update(children)
                waiting += children
    return found


def run(zygote: Zygote, source: bytes, canary: Path, limits: Limits) -> Outcome:
    request = {"canary": str(canary), "judge": os.getpid()}
    return zygote.run("jobs:execute", request, [source], limits)


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_a_hostile_submission_ends_as_expected(path: Path, zygote: Zygote, canary: Path):
    status, verdict = expected(path)
    before, running = fingerprint(canary), descendants(os.getpid())

    limits = SHORT if status == "time" else LIMITS
    outcome = run(zygote, path.read_bytes(), canary, limits)

    assert outcome.status == status, outcome
    assert VERDICTS.get(outcome.status, "-") == verdict
    assert "secret of" not in outcome.output
    assert fingerprint(canary) == before
    assert not BROKEN_OUT.exists()
    assert descendants(os.getpid()) <= running
    assert zygote.run("jobs:echo", {"next": 1}, [b"works"]).blobs == (b"works",)


def test_the_corpus_covers_every_outcome_a_submission_can_cause():
    assert len(CORPUS) >= 42
    assert {expected(path)[0] for path in CORPUS} == {"ok", *VERDICTS} - {"killed"}
