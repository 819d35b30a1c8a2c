"""`grader autograde`: nbgrader's autograde for all students in one process, the grading itself several at a time."""

import contextlib
import glob
import logging
import os
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

from nbgrader import converters
from nbgrader.api import MissingEntry
from nbgrader.apps import NbGraderAPI
from nbgrader.converters.base import NbGraderException
from nbgrader.coursedir import CourseDirectory
from nbgrader.utils import capture_log, temp_attrs
from sqlalchemy.exc import DBAPIError
from traitlets.config import Config
from traitlets.config.loader import PyFileConfigLoader

from grader.devices import resolve
from grader.nb.nbgrader_config import configure
from grader.report.printable import lines, printable
from grader.results import Store

from . import desk, export, exporter, judge, lock, states

PATTERN = "nbgrader takes *, ? and [ in the name of a student for a pattern: rename the folder"


class Unusable(ValueError):
    """The command cannot be carried out as given; the text is one sentence."""


class Autograde(converters.Autograde):
    """nbgrader's, for one student, who may have handed in an empty folder, or links and pipes beside the notebook."""

    def init_notebooks(self) -> None:
        """What the exporter adds is enough."""
        with contextlib.suppress(NbGraderException):
            super().init_notebooks()

    def init_assignment(self, assignment_id: str, student_id: str) -> None:
        """Copy no other files: nothing is run beside them, and a link to nowhere would end it."""
        with temp_attrs(self.coursedir, ignore=["*"]):
            super().init_assignment(assignment_id, student_id)


def load_config(root: Path) -> Config:
    """The course's nbgrader_config.py, with our settings on. Unusable where it cannot be run."""
    if not root.is_dir():
        raise Unusable(f"there is no folder {root}")
    config = Config()
    if (root / "nbgrader_config.py").is_file():
        try:
            config = PyFileConfigLoader("nbgrader_config.py", path=str(root)).load_config()
        except Exception as e:  # it is a program, and may fail with anything
            raise Unusable(f"{root / 'nbgrader_config.py'} cannot be used: {type(e).__name__}: {e}") from None
    config.CourseDirectory.root = str(root)
    configure(config)
    return config


def main(
    assignment: str,
    root: Path,
    *,
    students: list[str] | None = None,
    jobs: int = 0,
    device: str | None = None,
    force: bool = False,
    feedback: bool = False,
    trust: bool = False,
    check_device: Callable[[str], None] = lambda spec: None,
) -> int:
    """Autograde and show the states. 0 when everybody was marked, 3 when the grader failed on someone.

    check_device: ValueError for one that is named but does not exist. Raises Unusable, results.Unusable when the disk
    gets full, and RuntimeError when grading cannot start at all.
    """
    config = load_config(root.resolve())
    if device:
        config.Judge.device = device
    if trust:
        config.Judge.trust_submissions = True
    course = CourseDirectory(config=config)
    names = students or sorted(_handed_in(course, assignment))
    if not names:
        raise Unusable(f"nobody has handed in {assignment}: nothing in {course.submitted_directory}/*/{assignment}")
    api = NbGraderAPI(coursedir=course, config=config)
    notebooks = _released(course, assignment)
    _in_gradebook(api, assignment, notebooks)
    settings = judge.Judge(config=config)
    kept = os.path.join(course.root, settings.results)
    try:
        with Store(kept):  # else it would be found out in the middle
            check_device(resolve(settings.device))
    except ValueError as e:  # UnknownDevice and results.Unusable are ValueErrors
        raise Unusable(str(e)) from None
    start, failed, seen, codes = time.perf_counter(), [], [], Counter()
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(lock.alone(course.root))
        except lock.Busy as e:
            raise Unusable(str(e)) from None
        held.enter_context(contextlib.closing(desk))
        counter = desk.shared(settings.device, settings.trust_submissions, jobs or _processors())
        new = [n for n in names if _is_plain(n) and (force or not _done(course, assignment, n, notebooks))]
        waiting = _ahead(counter, course, assignment, notebooks, new, kept)
        for number, name in enumerate(names, start=1):
            for future in waiting.get(name, ()):
                future.result()
            if not _grade(api, assignment, name, force=force, feedback=feedback):
                failed.append(name)
            state, verdicts = export.state_of(course, assignment, name)
            seen.append(state)
            codes.update(word for word, _ in verdicts)
            left = (time.perf_counter() - start) / number * (len(names) - number)
            print(f"[{number}/{len(names)}] {printable(name):24} {state:10} {_score(api, assignment, name):>14}"
                  f"{f'  ({left:.0f} s left)' if left >= 1 else ''}", flush=True)  # fmt: skip
            for word, text in dict.fromkeys(verdicts):
                if word != "AC":
                    print(f"    {word:8} {printable(text)}", flush=True)
    took = time.perf_counter() - start
    print(f"verdicts: {_count(codes)}")
    print(f"{len(names)} submissions in {took:.0f} s, {took / len(names):.1f} s each: {_count(Counter(seen))}")
    return 3 if failed or states.ERROR in seen else 0


def _grade(api, assignment: str, name: str, *, force: bool, feedback: bool) -> bool:
    """nbgrader's steps for one student, who has been judged. False when one failed: why is said on stderr."""
    said = _quietly(_autograde, api, assignment, name, force) if _is_plain(name) else {"error": PATTERN}
    if said.get("success") and feedback:
        said = _quietly(api.generate_feedback, assignment, name, force=True)
    if said.get("success"):
        return True
    why = lines(said.get("error") or said.get("log") or "")
    why = f"nbgrader failed:\n{why}" if "\n" in why else why
    print(f"grader: {printable(name)}: {why}", file=sys.stderr)
    return False


def _is_plain(student: str) -> bool:
    return glob.escape(student) == student


def _handed_in(course, assignment: str) -> list[str]:
    pattern = course.format_path(course.submitted_directory, "*", assignment)
    folder = Path(course.format_path(course.submitted_directory, "", "")).resolve()
    return [Path(path).relative_to(folder).parts[0] for path in glob.glob(pattern) if os.path.isdir(path)]


def _released(course, assignment: str) -> list[str]:
    folder = Path(course.format_path(course.release_directory, ".", assignment))
    notebooks = sorted(p.stem for p in folder.glob("*.ipynb"))
    if not notebooks:
        raise Unusable(f"no notebooks in {folder}: run `nbgrader generate_assignment {assignment}` first")
    return notebooks


def _in_gradebook(api, assignment: str, notebooks: list[str]) -> None:
    """Refuse what only the release knows: in a fresh clone that is in the repository, and the gradebook is not."""
    known: set[str] = set()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # SQLAlchemy's, about nbgrader's relations
        try:
            with api.gradebook as gradebook, contextlib.suppress(MissingEntry):
                known = {notebook.name for notebook in gradebook.find_assignment(assignment).notebooks}
        except DBAPIError as e:
            raise Unusable(f"the gradebook, {api.coursedir.db_url}, cannot be used: {e.orig}") from None
    if missing := sorted(set(notebooks) - known):
        raise Unusable(
            f"the gradebook does not know {', '.join(missing)} of {assignment}:"
            f" run `nbgrader generate_assignment {assignment} --force` once"
        )


def _ahead(
    counter, course, assignment: str, notebooks: list[str], names: list[str], results: str
) -> dict[str, list[Future]]:
    """Have everything judged in the background, student by student."""
    released = {n: exporter.released_notebook(course, assignment, n) for n in notebooks}
    waiting: dict[str, list[Future]] = {}
    for name in names:
        place = course.format_path(course.submitted_directory, name, assignment)
        for notebook in notebooks:
            taken = exporter.take_in(os.path.join(place, f"{notebook}.ipynb"), released[notebook])
            if taken.metadata.grading.state == states.GRADED:
                path = f"{name}/{assignment}/{notebook}.ipynb"
                futures = [counter.ahead(s, p, results) for _, p, s in judge.questions(taken, path)]
                waiting.setdefault(name, []).extend(futures)
    return waiting


def _done(course, assignment: str, name: str, notebooks: list[str]) -> bool:
    folder = course.format_path(course.autograded_directory, name, assignment)
    return exporter.is_finished(folder, [f"{n}.ipynb" for n in notebooks])


def _autograde(api, assignment: str, name: str, force: bool) -> dict:
    with temp_attrs(api.coursedir, assignment_id=assignment, student_id=name):
        converter = Autograde(coursedir=api.coursedir, parent=api)
        converter.force = force
        return capture_log(converter)


def _quietly(command, *args, **options) -> dict:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nbgrader's own, and SQLAlchemy's about it
        logging.getLogger("traitlets").setLevel(logging.ERROR)
        said = command(*args, **options)
    if said.get("error", "").rstrip().endswith("KeyboardInterrupt"):  # nbgrader catches everything
        raise KeyboardInterrupt
    return said


def _score(api, assignment: str, name: str) -> str:
    with api.gradebook as gradebook:
        row = next(export.rows(gradebook, api.coursedir, {assignment}, {name}), {})
    return f"{row['score']:g} / {row['max_score']:g}" if row.get("score") is not None else "not marked"


def _count(what: Counter) -> str:
    return ", ".join(f"{n} {word}" for word, n in what.most_common())


def _processors() -> int:
    return len(os.sched_getaffinity(0))
