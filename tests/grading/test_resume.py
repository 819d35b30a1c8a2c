"""A grading run that is killed goes on where it was, loses nothing, grades nothing twice, and leaves nothing behind."""

import json
import os
import random
import signal
import time

from kills import LIMIT, Run, _wait, torment

TOTAL = 12


def test_kill_9_at_random_moments_loses_nothing_and_grades_nothing_twice(tmp_path):
    (tmp_path / "in").mkdir()
    run = Run(tmp_path / "in", jobs=2)
    expected = run.make(TOTAL)
    assert torment(run, random.Random(3), kills=2, total=TOTAL) >= 2
    assert run.table() == expected
    seeds = [json.loads(record)["seed"] for record in run.results().values()]
    assert len(seeds) == TOTAL
    assert sorted(r["seed"] for r in json.loads(run.written.read_text())) == sorted(seeds)


def test_ctrl_c_keeps_what_is_done_and_says_so(tmp_path):
    (tmp_path / "in").mkdir()
    run = Run(tmp_path / "in", jobs=1)
    expected = run.make(5 * TOTAL)
    process = run.start()
    end = time.monotonic() + LIMIT
    _wait(lambda: len(run.results()) >= 3 or process.poll() is not None, end)
    os.kill(process.pid, signal.SIGINT)
    assert process.wait(timeout=LIMIT) == 130
    kept = run.results()
    assert 3 <= len(kept) < 5 * TOTAL
    table = run.table()  # the report of what was done; the last result may be on disk before it is shown
    assert table.items() <= expected.items() and len(table) >= 2
    assert {r["seed"] for r in json.loads(run.written.read_text())} == {json.loads(r)["seed"] for r in kept.values()}
