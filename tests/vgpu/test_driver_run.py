"""`grader.vgpu.run`: a script as it is, with its arguments and exit status."""

import subprocess
import sys
import textwrap

import pytest

from grader.vgpu import run as vgpu_run


@pytest.fixture
def run(tmp_path):
    def start(source: str, *arguments: str, profile: bool = False):
        path = tmp_path / "script.py"
        path.write_text(textwrap.dedent(source))
        call = f"run({str(path)!r}, {list(arguments)!r}, 'h100', profile={profile})"
        code = f"import sys; from grader.vgpu.run import run; sys.exit({call})"
        return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=400)

    return start


KERNEL = """
import numpy as np, sys
from numba import cuda
@cuda.jit
def reverse(x):
    tile = cuda.shared.array(64, np.float32)
    t = cuda.threadIdx.x
    tile[t] = x[t]
    {barrier}
    x[t] = tile[63 - t]
d = cuda.to_device(np.arange(64, dtype=np.float32))
reverse[1, 64](d)
print(d.copy_to_host()[0])
"""


def test_the_first_line_says_which_device_and_that_times_are_modelled(run):
    done = run("print('hello')")
    said = [line for line in done.stderr.splitlines() if "first run of this version" not in line]  # see the next test
    assert said[0] == "grader: virtual GPU: NVIDIA H100 80GB HBM3; times are modelled, not measured"
    assert (done.stdout, done.returncode) == ("hello\n", 0)


def test_the_first_run_on_a_machine_says_beforehand_that_it_takes_a_while(tmp_path, monkeypatch, capsys):
    def activate(name):
        raise ValueError("here it would compile")

    monkeypatch.setattr(vgpu_run, "version_dir", lambda: tmp_path / "none")
    monkeypatch.setattr("grader.vgpu.activate", activate)
    (tmp_path / "script.py").touch()
    with pytest.raises(ValueError, match="here it would compile"):
        vgpu_run.run(str(tmp_path / "script.py"))
    assert capsys.readouterr().err == (
        "grader: first run of this version here: compiling the virtual GPU, about half a minute\n"
    )


def test_arguments_name_and_exit_status_are_the_scripts(run):
    done = run("import sys; print(sys.argv[1:], __name__); sys.exit(5)", "a", "b")
    assert (done.stdout, done.returncode) == ("['a', 'b'] __main__\n", 5)


def test_a_traceback_starts_in_the_script(run):
    done = run("def f():\n    return 1 / 0\nf()")
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr
    assert "runpy" not in done.stderr


def test_a_correct_kernel_runs_without_a_finding(run):
    done = run(KERNEL.format(barrier="cuda.syncthreads()"))
    assert (done.stdout, done.returncode) == ("63.0\n", 0), done.stderr


def test_findings_are_printed_and_make_a_successful_script_fail(run):
    done = run(KERNEL.format(barrier="pass"), profile=True)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]  # behind the profile, which is long
    assert last.startswith("grader: racecheck, script.py:")
    assert "Warp execution efficiency" in done.stderr


def test_a_kernel_that_an_error_ended_is_named_once_and_has_no_figures(run):
    done = run(KERNEL.format(barrier="x[64 * t] = 1"), profile=True)
    assert done.returncode == 1
    assert done.stderr.count("past the end of the 256-byte") == 1
    assert done.stderr.splitlines()[-1].startswith("grader: memcheck, script.py:9:")
    assert "grader: reverse: an error ended it, so there is nothing to count" in done.stderr
    assert "_ZN" not in done.stderr and "Duration" not in done.stderr


def test_work_that_nobody_waited_for_is_checked_all_the_same(run):
    source = KERNEL.format(barrier="pass").replace("print(d", "#")
    done = run(source + "\nimport builtins; builtins.keep = d\n")  # freeing it would wait
    assert "still queued when the script ended, because nothing had waited for them: 1" in done.stderr
    assert done.returncode == 1
