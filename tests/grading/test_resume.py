"""A grading run that is killed goes on where it was, and leaves nothing behind."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "corpus" / "wrong" / "00_mend"
LIMIT = 240


def command(tmp_path) -> list[str]:
    store = ["--results", str(tmp_path / "r.db"), "--json", str(tmp_path / "out.json")]
    return [sys.executable, "-m", "grader", "grade", str(FOLDER), "--device", "virtual", *store]


def count(tmp_path) -> int:
    if not (tmp_path / "r.db").exists():
        return 0
    with sqlite3.connect(tmp_path / "r.db", timeout=30) as db:
        tables = db.execute("SELECT 1 FROM sqlite_master WHERE name = 'results'").fetchone()
        found = db.execute("SELECT COUNT(*) FROM results").fetchone()[0] if tables else 0
    db.close()
    return found


def below(pid: int) -> set[int]:
    """All processes that a process started, and those started."""
    found: set[int] = set()
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, task.read_text().split()):
            found |= {child} | below(child)
    return found


def test_kill_9_in_the_middle_loses_nothing_and_grades_nothing_twice(tmp_path):
    run = subprocess.Popen(command(tmp_path), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end = time.monotonic() + LIMIT
    while count(tmp_path) < 2 and time.monotonic() < end:
        time.sleep(0.02)
    started = below(run.pid)
    os.kill(run.pid, signal.SIGKILL)
    run.wait()
    done = count(tmp_path)
    total = len(list(FOLDER.glob("*.py")))
    assert 2 <= done < total
    while any(Path(f"/proc/{pid}").exists() for pid in started) and time.monotonic() < end:
        time.sleep(0.02)
    assert not [pid for pid in started if Path(f"/proc/{pid}").exists()]

    with sqlite3.connect(tmp_path / "r.db") as db:
        before = dict(db.execute("SELECT key, record FROM results"))
    db.close()
    assert subprocess.run(command(tmp_path), stdout=subprocess.DEVNULL, timeout=LIMIT).returncode == 0
    with sqlite3.connect(tmp_path / "r.db") as db:
        after = dict(db.execute("SELECT key, record FROM results"))
    db.close()
    assert len(after) == total
    assert before.items() <= after.items()
    written = json.loads((tmp_path / "out.json").read_text())
    assert sorted(r["seed"] for r in written) == sorted(json.loads(r)["seed"] for r in after.values())
