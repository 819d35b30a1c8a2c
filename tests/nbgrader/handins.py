"""A small course, and what students make of it: name -> what lies in their folder."""

import contextlib
import copy
import io
import json
import os
import warnings
from pathlib import Path

import nbformat
from jupyter_core.application import NoStart
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from nbgrader.apps import NbGraderApp

UNIT = "00-first"
HIDDEN = "SEEN-ONLY-BY-STAFF"

RIGHT = """@cuda.jit
def mend(x, y):
    i = cuda.grid(1)
    if i < x.size:
        left = x[i - 1] if i > 0 else np.float32(0)
        right = x[i + 1] if i + 1 < x.size else np.float32(0)
        y[i] = left + 2 * x[i] + right
"""
WRONG = RIGHT.replace("2 *", "3 *")
NO_EDGE = RIGHT.replace(" if i + 1 < x.size else np.float32(0)", "")
RACE = """@cuda.jit
def mend(x, y):
    last = cuda.shared.array(1, np.float32)
    i = cuda.grid(1)
    if i < x.size:
        last[0] = x[i]
        left = x[i - 1] if i > 0 else np.float32(0)
        right = x[i + 1] if i + 1 < x.size else np.float32(0)
        y[i] = left + 2 * x[i] + right + 0 * last[0]
"""
STUB = "# YOUR CODE HERE\nraise NotImplementedError()"

CONFIG = """
from grader.nb.nbgrader_config import configure

c = get_config()
c.CourseDirectory.source_directory = "solutions"
c.CourseDirectory.release_directory = "exercises"
configure(c, device="virtual:a100")
"""


def marks(grade_id, **flags):
    """nbgrader's metadata; what is not given is left out, as people leave it out."""
    return {"nbgrader": {"grade_id": grade_id, **flags}}


def source():
    """The staff's notebook: text, an import, an answer, its check, a locked remark."""
    solution = f"### BEGIN SOLUTION\n# {HIDDEN}\n{RIGHT}### END SOLUTION"
    check = f'check("00_mend", mend)\n### BEGIN HIDDEN TESTS\n# {HIDDEN}\n### END HIDDEN TESTS'
    cells = [
        new_markdown_cell("# Mend"),
        new_code_cell("import numpy as np\nfrom numba import cuda"),
        new_code_cell(solution, metadata=marks("answer", solution=True)),
        new_code_cell('check("00_mend", mend)', metadata=marks("look", locked=True)),
        new_code_cell(check, metadata=marks("00_mend", grade=True, points=10)),
        new_markdown_cell("Well done.", metadata=marks("remark", locked=True)),
    ]
    for number, cell in enumerate(cells):
        cell.id = f"cell-{number}"
    return new_notebook(cells=cells, metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}})


def nbgrader(root: Path, *words: str) -> str:
    """`nbgrader WORDS` in a course, in this process; what it logged."""
    before, log = os.getcwd(), io.StringIO()
    os.chdir(root)
    NbGraderApp.clear_instance()
    try:
        with warnings.catch_warnings(), contextlib.redirect_stderr(log):
            warnings.simplefilter("ignore")  # nbgrader's own: what a user sees of them is tested apart
            app = NbGraderApp.instance()
            app.initialize(list(words))
            with contextlib.suppress(NoStart):  # how it says that the subcommand has run
                app.start()
    except SystemExit:
        raise AssertionError(f"nbgrader {' '.join(words)}:\n{log.getvalue()}") from None
    finally:
        NbGraderApp.clear_instance()
        os.chdir(before)
    return log.getvalue()


def make_course(root: Path, unit: str = UNIT, extra: dict | None = None) -> None:
    """Write configuration and sources."""
    (root / "nbgrader_config.py").write_text(CONFIG)
    folder = root / "solutions" / unit
    folder.mkdir(parents=True)
    for name, notebook in {"mend": source(), **(extra or {})}.items():
        nbformat.write(notebook, folder / f"{name}.ipynb")


class Students:
    """Makes submissions from the released notebook."""

    def __init__(self, root: Path, unit: str = UNIT):
        self.root, self.unit = root, unit
        self.released = nbformat.read(root / "exercises" / unit / "mend.ipynb", 4)

    def notebook(self, answer: str = RIGHT, **cells):
        """The released notebook with an answer in it; other cells by what they are."""
        nb = copy.deepcopy(self.released)
        self.cell(nb, "answer").source = answer
        for name, text in cells.items():
            self.cell(nb, {"test": "00_mend"}[name]).source = text
        return nb

    @staticmethod
    def cell(nb, grade_id):
        return next(c for c in nb.cells if c.metadata.get("nbgrader", {}).get("grade_id") == grade_id)

    def folder(self, student: str) -> Path:
        path = self.root / "submitted" / student / self.unit
        path.mkdir(parents=True, exist_ok=True)
        return path

    def hand_in(self, student: str, nb, name: str = "mend.ipynb") -> Path:
        path = self.folder(student) / name
        path.write_text(nb if isinstance(nb, str) else json.dumps(nb))
        return path


def plain(source: str):
    return new_code_cell(source, id="plain")


# student -> (state, score or None for not marked)
EXPECTED = {}


def student(state: str, score: float | None):
    """Register a function that hands something in."""

    def register(function):
        EXPECTED[function.__name__] = (state, score, function)
        return function

    return register


@student("graded", 10)
def right(s):
    s.hand_in("right", s.notebook())


@student("graded", 0)
def wrong(s):
    s.hand_in("wrong", s.notebook(WRONG))


@student("graded", 0)
def reads_beyond_the_end(s):
    s.hand_in("reads_beyond_the_end", s.notebook(NO_EDGE))


@student("graded", 4)
def is_right_by_luck(s):
    s.hand_in("is_right_by_luck", s.notebook(RACE))


@student("graded", 0)
def untouched(s):
    s.hand_in("untouched", s.notebook(STUB))


@student("graded", 0)
def patches_the_check(s):
    answer = (
        WRONG
        + """
import sys, types
np.allclose = np.testing.assert_allclose = lambda *a, **k: True
fake = types.ModuleType("grader")
fake.check = check = lambda *a, **k: 10.0
sys.modules["grader"] = fake
for name in [n for n in sys.modules if n.startswith("grader.")]:
    for key in list(vars(sys.modules[name])):
        if "check" in key or "judge" in key:
            setattr(sys.modules[name], key, check)
print("10.0")
print("score: 10 / 10")
"""
    )
    s.hand_in("patches_the_check", s.notebook(answer, test="10.0"))
    (s.folder("patches_the_check") / "grader.py").write_text("check = lambda *a: 10.0\n")
    (s.folder("patches_the_check") / "numpy.py").write_text("allclose = lambda *a: True\n")


@student("graded", 0)
def transforms_later_cells(s):
    nb = s.notebook(WRONG)
    nb.cells.insert(1, plain("get_ipython().input_transformers_post.append(lambda lines: ['10.0\\n'])"))
    s.hand_in("transforms_later_cells", nb)


@student("graded", 0)
def forges_outputs(s):
    nb = s.notebook(WRONG)
    test = s.cell(nb, "00_mend")
    test.outputs = [new_output("execute_result", {"text/plain": "10.0", "text/html": "<b>FORGED 10 / 10</b>"})]
    test.metadata.nbgrader.points = 1000
    test.metadata.nbgrader.score = 1000
    mark = {"state": "graded", "score": 10.0, "code": "AC", "message": "FORGED"}
    nb.metadata["grading"] = {"state": "graded", "message": "", "notes": [], "results": {"00_mend": mark}}
    s.hand_in("forges_outputs", nb)


@student("graded", 10)
def edits_the_test_but_is_right(s):
    s.hand_in(
        "edits_the_test_but_is_right", s.notebook(RIGHT + "# mine\n", test="float('nan')  # False, -1, None, ...")
    )


@student("graded", 10)
def retypes_and_unlocks_the_test(s):
    nb = s.notebook(RIGHT + "# unlocked\n")
    test = s.cell(nb, "00_mend")
    test.cell_type, test.metadata.nbgrader.locked, test.metadata.nbgrader.grade = "markdown", False, False
    test.metadata.nbgrader.solution = True
    s.hand_in("retypes_and_unlocks_the_test", nb)


@student("graded", 10)
def deletes_the_test(s):
    nb = s.notebook(RIGHT + "# no test\n")
    nb.cells.remove(s.cell(nb, "00_mend"))
    s.hand_in("deletes_the_test", nb)


@student("graded", 10)
def copies_cells(s):
    nb = s.notebook(STUB)
    for grade_id in ("answer", "00_mend", "00_mend"):
        nb.cells.append(copy.deepcopy(s.cell(nb, grade_id)))
    nb.cells[-3].source = RIGHT + "# the copy is the answer\n"
    s.hand_in("copies_cells", nb)


@student("graded", 10)
def splits_the_answer(s):
    nb = s.notebook(RIGHT.replace("2 *", "TWO *"))
    first = copy.deepcopy(s.cell(nb, "answer"))
    first.source = "TWO = 2"
    nb.cells.insert(2, first)
    s.hand_in("splits_the_answer", nb)


@student("graded", 10)
def merges_answer_and_test(s):
    nb = s.notebook(test=RIGHT + "# merged\ncheck('00_mend', mend)")
    nb.cells.remove(s.cell(nb, "answer"))
    s.hand_in("merges_answer_and_test", nb)


@student("graded", 10)
def strips_metadata(s):
    nb = s.notebook(RIGHT + "# stripped\n")
    for cell in nb.cells:
        cell.metadata.clear()
        del cell["id"]
    nb.nbformat_minor = 4
    s.hand_in("strips_metadata", nb)


@student("graded", 10)
def renames_the_file(s):
    s.hand_in("renames_the_file", s.notebook(), "mend (1).ipynb")


@student("graded", 10)
def is_noisy(s):
    nb = s.notebook(RIGHT + "# noisy\n")
    noise = "import sys, warnings, logging\nprint('!', file=sys.stderr)\nwarnings.warn('x')\nlogging.error('y')"
    nb.cells.insert(2, plain(noise))
    nb.cells.append(plain("%matplotlib inline\nthis is no Python"))
    nb.cells.append(plain("input()"))
    nb.cells.append(plain("raise SystemExit(1)"))
    s.hand_in("is_noisy", nb)


@student("unreadable", None)
def sends_no_json(s):
    s.hand_in("sends_no_json", "{ this is no notebook")


@student("unreadable", None)
def sends_nested_json(s):
    s.hand_in("sends_nested_json", "[" * 200_000)


@student("unreadable", None)
def sends_a_folder(s):
    (s.folder("sends_a_folder") / "mend.ipynb").mkdir()


@student("unreadable", None)
def links_to_the_solution(s):
    path = s.folder("links_to_the_solution") / "mend.ipynb"
    path.symlink_to(s.root / "solutions" / s.unit / "mend.ipynb")


@student("graded", 10)
def sends_odd_files(s):
    folder = s.hand_in("sends_odd_files", s.notebook()).parent
    (folder / "gone").symlink_to("/nowhere")
    (folder / "book").symlink_to(s.root / "gradebook.db")
    os.mkfifo(folder / "pipe")
    s.hand_in("sends_odd_files", "{", "other.ipynb")


@student("missing", 0)
def sends_nothing(s):
    s.folder("sends_nothing")


@student("killed", 0)
def leaves_at_once(s):
    s.hand_in("leaves_at_once", s.notebook("import os\ngone = os._exit(0)\n" + RIGHT))


@student("killed", 0)
def crashes(s):
    s.hand_in("crashes", s.notebook("import ctypes\ngone = ctypes.string_at(0)\n" + RIGHT))


@student("killed", 0)
def eats_memory(s):
    s.hand_in("eats_memory", s.notebook("waste = [bytearray(1 << 28) for _ in range(100)]\n" + RIGHT))


@student("timeout", 0)
def loops(s):
    s.hand_in("loops", s.notebook("while True: pass\n" + RIGHT))


@student("timeout", 0)
def loops_in_native_code(s):
    endless = "import re\nre.match(r'(a+)+b', 'a' * 40)\n"  # holds on to the interpreter: no interrupt gets through
    s.hand_in("loops_in_native_code", s.notebook(endless + RIGHT))


@student("graded", 10)
def imports_slowly(s):
    slow = "import time\ntime.sleep(4.5)  # longer than nbgrader waits for a cell to say something\n"
    s.hand_in("imports_slowly", s.notebook(slow + RIGHT))


@student("graded", 10)
def quits(s):
    nb = s.notebook(RIGHT + "# and quits\n")
    nb.cells.append(plain("quit()"))
    nb.cells.append(plain("exit(0)"))
    s.hand_in("quits", nb)


@student("graded", 0)
def scores_beyond_the_maximum(s):
    s.hand_in("scores_beyond_the_maximum", s.notebook(WRONG + "# much\n", test="1e9"))


@student("graded", 0)
def scores_a_float_of_its_own(s):
    forged = """class Points(float):
    def __repr__(self):
        return "10.0"

    def _repr_html_(self):
        return "<h1>FOR" "GED 10 / 10</h1>"


points = Points(10)
"""
    nb = s.notebook(WRONG + forged, test="points")
    nb.cells.append(plain("points"))
    s.hand_in("scores_a_float_of_its_own", nb)


@student("graded", 0)
def reads_sources(s):
    answer = """import gc
import inspect
import linecache
import sys
import traceback

for text in [str(linecache.cache), *(str(line) for line in traceback.extract_stack())]:
    print(text[:500])
for module in list(sys.modules.values()):
    if "grader" in getattr(module, "__name__", ""):
        try:
            print(inspect.getsource(module)[:100])
        except (OSError, TypeError) as e:
            print(e)
print([text for text in gc.get_objects() if isinstance(text, str)][:5])
"""
    s.hand_in("reads_sources", s.notebook(answer + WRONG))


@student("held", None)
def attacks(s):
    s.hand_in("attacks", s.notebook("import os\nos.execv('/bin/sh', ['sh'])\n" + RIGHT))


@student("graded", 0)
def writes_to_the_gradebook(s):
    answer = f"""import sqlite3
try:
    gradebook = sqlite3.connect({str(s.root / "gradebook.db")!r}, timeout=1)
    gradebook.execute("UPDATE grade SET manual_score = 400, auto_score = 400")
    gradebook.commit()
except BaseException as e:
    print("no:", e)
"""
    s.hand_in("writes_to_the_gradebook", s.notebook(answer + WRONG))


@student("graded", 0)
def reads_what_is_hidden(s):
    hidden = str(s.root / "solutions" / s.unit / "mend.ipynb")
    answer = f"""import glob
for path in glob.glob({str(s.root)!r} + "/**/*.ipynb", recursive=True) + [{hidden!r}]:
    try:
        print(open(path).read())
    except OSError as e:
        print(e)
try:
    print(In, _ih)
except NameError as e:
    print(e)
raise RuntimeError(open({hidden!r}).read())
"""
    nb = s.notebook(WRONG)
    nb.cells.append(plain(answer))
    s.hand_in("reads_what_is_hidden", nb)


# What nbgrader as it comes makes of these: the whole submission, or the whole batch, is lost, or shown as a real 0.
LOST_BY_NBGRADER = {
    "os._exit": "leaves_at_once",
    "a segmentation fault": "crashes",
    "quit()": "quits",
    "all of the memory": "eats_memory",
    "a native loop that no interrupt reaches": "loops_in_native_code",
    "an import slower than iopub_timeout": "imports_slowly",
    "a cell that was copied": "copies_cells",
    "a cell that was split": "splits_the_answer",
    "metadata that was stripped": "strips_metadata",
    "a file that was renamed": "renames_the_file",
    "a file that is no notebook": "sends_no_json",
    "anything on stderr": "is_noisy",
}
# What gives points in nbgrader as it comes, or shows what is hidden.
CHEATS_ON_NBGRADER = {
    "patching np.allclose": "patches_the_check",
    "a file that shadows the grader's package": "patches_the_check",
    "an input transformer that blanks later cells": "transforms_later_cells",
    "SQL on gradebook.db": "writes_to_the_gradebook",
    "hidden tests in In[], files and solutions": "reads_what_is_hidden",
    "hidden tests in linecache": "reads_sources",
    "outputs and points written by hand": "forges_outputs",
    "a last value that is no number": "edits_the_test_but_is_right",
    "more points than there are": "scores_beyond_the_maximum",
    "a float that shows HTML": "scores_a_float_of_its_own",
}
