"""What goes wrong inside of numba is shown in a notebook with the user's own lines only."""

import re
import sysconfig

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.ultratb import ListTB

from grader.nb import errors
from grader.nb.check import NotSolved


def library(name: str, source: str) -> dict:
    """The names that a module of an installed library would define."""
    names: dict = {}
    exec(compile(source, f"{sysconfig.get_path('purelib')}/{name}/inner.py", "exec"), names)
    return names


RAISES = (
    "def inner(x):\n    try:\n        {}['a try']\n    except KeyError:\n        raise x\ndef outer(x):\n    inner(x)\n"
)


@pytest.fixture
def show(monkeypatch):
    """show(source): the text of the error in which such a cell ends."""
    shell = InteractiveShell()
    shell.InteractiveTB.set_mode("Context")
    shown = []
    monkeypatch.setattr(shell, "_showtraceback", lambda kind, error, lines: shown.append(ListTB.stb2text(None, lines)))
    shell.user_ns |= {"numba": library("numba_cuda", RAISES)["outer"], "other": library("pandas", RAISES)["outer"]}
    shell.user_ns["NotSolved"] = NotSolved
    errors.register(shell)

    def run(source: str) -> str:
        result = shell.run_cell(source)
        assert result.error_in_exec is not None
        return re.sub(r"\x1b\[[\d;]*m", "", shown.pop())

    run.shell = shell
    return run


def test_frames_of_numba_and_its_earlier_tries_are_left_out(show):
    text = show("def mine():\n    numba(TypeError('no such thing'))\nmine()")
    assert "2     numba(TypeError('no such thing'))" in text and "3 mine()" in text
    assert text.endswith("TypeError: no such thing")
    assert "inner.py" not in text and "KeyError" not in text


def test_verbose_shows_everything(show):
    show.shell.InteractiveTB.set_mode("Verbose")
    text = show("numba(TypeError('no such thing'))")
    assert "inner.py" in text and "KeyError" in text


@pytest.mark.parametrize("source", ["other(TypeError('no'))", "1 / 0", "[].pop()"])
def test_other_errors_are_as_ipython_shows_them(show, source):
    text = show(source)
    errors.unregister(show.shell)
    assert re.sub(r"In\[\d+\]", "", show(source)) == re.sub(r"In\[\d+\]", "", text)


def test_an_error_that_shows_itself_does(show):
    assert show("numba(NotSolved('WA: y[0] is 1'))") == "Not solved yet. WA: y[0] is 1"
