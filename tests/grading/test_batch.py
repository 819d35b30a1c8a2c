"""Several submissions at a time: everyone is graded once, whatever happens to the benches."""

import sys
import threading

from test_grade import ANSWERS, PROBLEM, FakeBench, submission

from grader import batch
from grader.results import Store
from tests.bench import throughput


def tasks(count: int) -> list[batch.Task]:
    return [(submission(list(ANSWERS)[n % 3], f"s{n}.py"), PROBLEM) for n in range(count)]


def test_every_task_gets_its_record_and_equal_files_are_graded_once():
    opened, all_open = [], threading.Event()

    def another():
        opened.append(FakeBench())
        if len(opened) == 2:
            all_open.set()
        return opened[-1]

    class First(FakeBench):
        """Not done before the others are there: what is left then would not be opened any more."""

        def record(self, *args):
            assert all_open.wait(300)
            return super().record(*args)

    first = First()
    with Store() as store:
        records = dict(batch.run(tasks(12), first, another, store, None, 3, {}))
    assert sorted(records) == list(range(12))
    assert [records[n]["submission"] for n in range(12)] == [f"s{n}.py" for n in range(12)]
    assert [records[n]["code"] for n in range(12)] == ["AC", "SLOW", "WA"] * 4
    assert len({records[n]["seed"] for n in range(0, 12, 3)}) == 1  # the same file: the same, kept result
    assert len(opened) == 2


def test_a_bench_that_does_not_start_only_makes_it_slower():
    def another():
        raise RuntimeError("no memory")

    with Store() as store:
        assert len(dict(batch.run(tasks(6), FakeBench(), another, store, None, 2, {}))) == 6


def test_a_file_that_is_no_submission_is_refused_in_its_turn():
    refused = batch.Refused("x.py", "x.py is a folder")
    with Store() as store:
        records = dict(batch.run([(refused, PROBLEM), *tasks(1)], FakeBench(), FakeBench, store, 1, 1, {}))
    assert (records[0]["code"], records[0]["message"]) == ("CE", "x.py is a folder")
    assert records[1]["code"] == "AC"


def test_what_was_under_way_when_the_iteration_was_left_is_among_the_records(monkeypatch):
    """Three at a time: the first is done when the others have begun, and these end when nobody listens any more."""
    begun, left = threading.Semaphore(0), threading.Event()

    def graded(submission, problem, bench, store, seed):
        if submission.path == "s0.py":
            assert begun.acquire(timeout=300) and begun.acquire(timeout=300)
        else:
            begun.release()
            assert left.wait(300)
        return {"submission": submission.path}

    monkeypatch.setattr(batch, "grade_one", graded)
    records = {}
    with Store() as store:
        running = batch.run(tasks(9), FakeBench(), FakeBench, store, None, 3, records)
        next(running)
        *_, last = running.gi_frame.f_locals["waiting"]
        last.add_done_callback(lambda future: left.set())  # not before it is cancelled, and with it all that wait
        running.close()
    assert {f"s{n}.py" for n in range(3)} <= {r["submission"] for r in records.values()}
    assert len(records) <= 4


def test_the_benchmark_of_throughput_measures(monkeypatch, capsys):
    monkeypatch.setattr(throughput, "FILES", throughput.FILES[:1])
    monkeypatch.setattr(sys, "argv", ["throughput", "--submissions", "1", "--jobs", "1"])
    throughput.main()
    said = capsys.readouterr().out
    assert "longest" in said and "1 submissions with 1 jobs" in said
