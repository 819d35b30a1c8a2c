"""Jobs, outcomes and limits, seen from the trusted side."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from grader.sandbox import Limits, Outcome, SandboxError, Zygote
from grader.sandbox.watch import Watch

HERE = str(Path(__file__).parent)
LONG = 300  # seconds that no busy machine makes of a fraction of one


def execute(zygote: Zygote, source: str, **limits) -> Outcome:
    return zygote.run("jobs:execute", {}, [source.encode()], Limits(**{"wall_s": LONG, **limits}))


@pytest.fixture
def once_ready(monkeypatch):
    """Have something happen in the middle of the next job: when its child is ready."""
    usual = Watch._child_is_ready

    def arrange(happen) -> None:
        def ready(watch, header):
            usual(watch, header)
            monkeypatch.undo()
            happen()

        monkeypatch.setattr(Watch, "_child_is_ready", ready)

    return arrange


@pytest.fixture
def bare():
    """A zygote of its own, for tests that break it."""
    with Zygote(path=[HERE]) as zygote:
        yield zygote


# ---- what goes through


def test_a_job_gets_the_request_and_gives_the_result(zygote):
    request = {"text": "é\n", "list": [1, 2.5, None, True, {}], "nested": {"a": []}}
    blobs = [b"", bytes(range(256)) * 1000, b"x"]
    outcome = zygote.run("jobs:echo", request, blobs)
    assert (outcome.status, outcome.header, outcome.blobs) == ("ok", request, tuple(blobs))
    assert (outcome.detail, outcome.error, outcome.output, outcome.exit_code, outcome.signal) == ("", None, "", 0, None)
    assert {"rlimits", "no capabilities", "seccomp"} < set(outcome.protections)


def test_large_blobs_go_both_ways(zygote):
    blob = os.urandom(8 << 20) * 4
    assert zygote.run("jobs:echo", {}, [blob, blob[:1000]]).blobs == (blob, blob[:1000])


def test_blobs_may_be_any_buffer(zygote):
    assert zygote.run("jobs:echo", {}, [bytearray(b"ab"), memoryview(b"cd")]).blobs == (b"ab", b"cd")


@pytest.mark.parametrize("request_", [{"x": float("nan")}, {"x": b"bytes"}, {"x": {1, 2}}], ids=str)
def test_what_json_cannot_carry_is_the_callers_mistake(zygote, request_):
    with pytest.raises((TypeError, ValueError)):
        zygote.run("jobs:echo", request_)


def test_printed_text_of_both_streams_comes_back_in_order(zygote):
    outcome = execute(zygote, "import sys\nprint('one')\nprint('two', file=sys.stderr)\nprint('drei \\udcff')")
    assert outcome.output == "one\ntwo\ndrei \\udcff\n"


def test_what_was_printed_before_a_crash_is_kept(zygote):
    outcome = execute(zygote, "import ctypes\nprint('before')\nctypes.string_at(0)")
    assert (outcome.status, outcome.signal, outcome.output) == ("crashed", "SIGSEGV", "before\n")


# ---- what a job can do wrong


def test_an_exception_is_described_from_the_job_on(zygote):
    outcome = execute(zygote, "def divide():\n    return 1 / 0\n\ndivide()")
    assert outcome.status == "error"
    assert outcome.detail == "ZeroDivisionError: division by zero"
    assert (outcome.error.type, outcome.error.message) == ("ZeroDivisionError", "division by zero")
    assert 'File "submission.py", line 2, in divide' in outcome.error.traceback
    assert "child.py" not in outcome.error.traceback


def test_a_job_that_gives_no_pair_is_an_error(zygote):
    assert zygote.run("jobs:no_pair").error.type == "ValueError"


def test_memory_is_counted_on_top_of_what_the_zygote_holds(zygote):
    assert execute(zygote, "x = bytearray(80 << 20)", memory_mb=100).status == "ok"
    outcome = execute(zygote, "x = bytearray(120 << 20)", memory_mb=100)
    assert (outcome.status, outcome.error.type) == ("memory", "MemoryError")


def test_processor_time_ends_a_job_before_the_wall_clock_does(zygote):
    outcome = execute(zygote, "while True: pass", cpu_s=1)
    assert (outcome.status, outcome.signal) == ("time", "SIGXCPU")
    assert 0.9 < outcome.cpu_s < 10
    assert "processor time" in outcome.detail


def test_a_job_that_ignores_the_processor_limit_is_killed_for_it(zygote):
    source = "import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass"
    outcome = execute(zygote, source, cpu_s=1)
    assert (outcome.status, outcome.signal) == ("time", "SIGKILL")


def test_the_wall_clock_ends_a_sleeper_and_a_stopped_one(zygote):
    for source in ("import time; time.sleep(60)", "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)"):
        outcome = execute(zygote, source, wall_s=0.3)
        assert (outcome.status, outcome.detail) == ("time", "ran for longer than 0.3 s")
        assert outcome.wall_s >= 0.3


def test_the_end_of_too_much_output_is_kept(zygote):
    outcome = execute(zygote, "for n in range(10**6): print(n)", output_kb=4)
    assert outcome.status == "output"
    assert len(outcome.output) <= 4096
    assert "0\n1\n" not in outcome.output[:10]


def test_a_result_over_its_limit_is_not_taken(zygote):
    assert zygote.run("jobs:echo", {}, [bytes(2 << 20)], Limits(result_mb=1)).status == "output"
    assert zygote.run("jobs:echo", {"x": "y" * 5000}, (), Limits(header_kb=4)).status == "output"


def test_threads_only_where_the_limits_allow_them(zygote):
    source = "import threading\nt = threading.Thread(target=print, args=('hi',))\nt.start()\nt.join()"
    assert execute(zygote, source).error.type == "RuntimeError"
    assert execute(zygote, source, threads=True).output == "hi\n"
    fork = "import os\nos.fork()"
    assert execute(zygote, fork, threads=True).error.type == "PermissionError"


@pytest.mark.parametrize("wrong", [{"cpu_s": 0}, {"wall_s": -1}, {"files": 3}], ids=str)
def test_limits_that_would_end_every_job_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Limits(**wrong)


# ---- what the children of one zygote share


def test_nothing_of_one_job_reaches_the_next(zygote):
    execute(zygote, "import json, builtins\njson.dumps = None\nbuiltins.left = 1\nimport this")
    outcome = execute(zygote, "import json, sys\njson.dumps(1)\nassert 'this' not in sys.modules\nleft")
    assert outcome.error.type == "NameError"


def test_closed_pipes_do_not_hide_how_a_job_ended(zygote):
    assert execute(zygote, "import os\nos.close(1); os.close(2); os.close(4)\nos._exit(7)").exit_code == 7


# ---- the zygote itself


def test_readable_paths_are_readable_and_module_paths_are_not(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.txt").write_text("hello")
    with Zygote(path=[HERE], readable=[str(tmp_path / "data")], env={"COURSE": "1"}) as zygote:
        source = f"import os\nprint(open({str(tmp_path / 'data' / 'a.txt')!r}).read(), os.environ['COURSE'])"
        assert execute(zygote, source).output == "hello 1\n"
        assert execute(zygote, f"open({HERE + '/jobs.py'!r})").error.type == "PermissionError"


def test_a_missing_job_is_the_graders_fault_and_the_next_job_works(bare):
    for job in ("jobs:absent", "absent:job", "jobs"):
        with pytest.raises(SandboxError, match="could not be set up"):
            bare.run(job)
    assert bare.run("jobs:echo", {"a": 1}).header == {"a": 1}


def test_a_zygote_that_was_killed_is_replaced(bare):
    os.killpg(bare._process.pid, signal.SIGKILL)
    bare._process.wait()
    assert bare.run("jobs:echo", {"a": 1}).header == {"a": 1}


def test_a_zygote_killed_during_a_job_is_an_error_of_the_sandbox(bare, once_ready):
    once_ready(lambda: os.killpg(bare._process.pid, signal.SIGKILL))
    with pytest.raises(SandboxError, match="zygote died"):
        execute(bare, f"import time; time.sleep({LONG})")
    assert bare.run("jobs:echo", {"a": 1}).header == {"a": 1}


def test_an_interrupted_run_ends_its_child_and_the_next_job_works(bare, once_ready):
    def interrupt() -> None:
        raise KeyboardInterrupt

    process = bare._process
    once_ready(interrupt)
    with pytest.raises(KeyboardInterrupt):
        execute(bare, f"import time; time.sleep({LONG})")
    assert process.returncode == 0  # it saw its socket close, killed the child, and left
    assert bare.run("jobs:echo", {"a": 1}).header == {"a": 1}


def test_closing_ends_every_process(bare):
    process = bare._process
    bare.close()
    bare.close()
    assert process.returncode == 0


def test_jobs_of_several_threads_take_turns(bare):
    outcomes = {}

    def run(n: int) -> None:
        outcomes[n] = bare.run("jobs:echo", {"n": n})

    threads = [threading.Thread(target=run, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {n: outcome.header["n"] for n, outcome in outcomes.items()} == {n: n for n in range(8)}


def test_a_failing_warm_function_says_so():
    with pytest.raises(SandboxError, match="no such luck"):
        Zygote("jobs:warm_badly", path=[HERE])


def test_a_warm_function_may_not_leave_threads():
    with pytest.raises(SandboxError, match="2 threads"):
        Zygote("jobs:warm_with_threads", path=[HERE])


# A kernel without seccomp: a trusted run can fork; still nothing may be left when it ends.
NO_SECCOMP = """
import os, sys, time
from pathlib import Path
from grader.sandbox import Limits, Zygote, privileges, seccomp
rules = seccomp.Filter(seccomp.ALLOW)
rules.answer(["seccomp"], seccomp.ENOSYS)
privileges.no_new_privileges()
rules.install()

daemon = b'''
import os, time
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(3000)
        os._exit(0)
print("forked")
'''
with Zygote(path=[sys.argv[1]], trust=True, bwrap=False, namespaces=sys.argv[2] == "True") as zygote:
    outcome = zygote.run("jobs:execute", {}, [daemon], Limits(wall_s=300))
    assert "seccomp" not in outcome.protections
    print(outcome.status, outcome.detail, outcome.output)
    waiting, left = [os.getpid()], []
    while waiting:
        for task in Path(f"/proc/{waiting.pop()}/task").glob("*/children"):
            children = [int(child) for child in task.read_text().split()]
            waiting += children
            left += children
    print("left", len(left) - 1 - bool(zygote.info["namespaces"]))
"""


@pytest.mark.parametrize("namespaces", [True, False])
def test_daemons_are_killed_even_where_nothing_forbids_them(namespaces):
    words = [sys.executable, "-c", NO_SECCOMP, HERE, str(namespaces)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=LONG)
    assert done.stdout.endswith("left 0\n"), done.stdout + done.stderr
    assert "forked" in done.stdout or os.getuid() != 0  # RLIMIT_NPROC stops all but root
