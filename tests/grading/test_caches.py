"""The virtual GPU's own code is compiled once, and whoever waits for it is told."""

import subprocess

import pytest

from grader import caches
from grader.nb import extension
from grader.vgpu.jit.compile import version_dir


def _forget() -> None:
    """Where things are kept is asked for once a process."""
    caches.folder.cache_clear()
    version_dir.cache_clear()


@pytest.fixture
def compiled(tmp_path, monkeypatch):
    """An empty cache of this test's own; each time that something is compiled into it, a job is added to this list."""
    monkeypatch.setenv("GRADER_CACHE", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    jobs = []

    def python(arguments, variables):
        jobs.append(arguments[0])
        return subprocess.CompletedProcess(arguments, 0, stdout=f"{tmp_path}\n", stderr="")

    monkeypatch.setattr(caches, "_python", python)
    _forget()
    yield jobs
    _forget()


def test_the_first_start_says_that_it_compiles_and_the_next_says_nothing(compiled, capfd):
    extension._compile_first()
    assert "-c" in compiled
    assert capfd.readouterr().err == "first run of this version here: compiling the virtual GPU, about half a minute\n"
    compiled.clear()
    extension._compile_first()
    assert compiled == [] and capfd.readouterr().err == ""


def test_who_comes_while_another_compiles_waits_and_does_not_compile_again(compiled, monkeypatch):
    def locked(file, how):  # by the time that the lock is had, the other one is done
        caches._compile(caches.folder() / f"filled-{caches._stamp()}")
        compiled.clear()

    monkeypatch.setattr(caches.fcntl, "flock", locked)
    caches.fill()
    assert compiled == []


def test_a_process_that_keeps_its_code_elsewhere_does_not_wait(compiled, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "elsewhere"))
    _forget()
    extension._compile_first()
    assert compiled == []
