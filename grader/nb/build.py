"""Build all notebooks of the course from their texts, the students' copies with nbgrader, and the table of mistakes.

    python -m grader.nb.build             what has changed; a lesson whose cells changed is run
    python -m grader.nb.build --check     change nothing; exit status 1 if something is out of step
    python -m grader.nb.build --pull FILE.ipynb ...     take a notebook that was edited in JupyterLab back into its text

`lessons/NN-unit.py` becomes `lessons/NN-unit.ipynb` with outputs of the virtual A100. `solutions/NN_exercise.py`
becomes `solutions/NN-unit/exercise.ipynb`, and nbgrader makes `exercises/NN-unit/exercise.ipynb` from that. An
assignment's folder holds notebooks only, because nbgrader hands out every other file in it.
"""

import argparse
import logging
import os
import shutil
import sys
import tempfile
import tomllib
import warnings
from collections.abc import Iterator
from pathlib import Path

import nbformat

from grader import progress
from grader.nb import percent

DEVICE = "virtual:a100"
# The instructor's page ends with its rows.
_TABLE = "| exercise | mistake | code | rule that fails |\n|---|---|---|---|\n"
TIMEOUT = 120  # seconds a cell of a lesson may take


def main(argv: list[str] | None = None) -> int:
    """Build or check; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m grader.nb.build", description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="change nothing, tell what is out of step")
    parser.add_argument("--execute", action="store_true", help="run every lesson, changed or not")
    parser.add_argument("--pull", nargs="+", metavar="FILE", help="notebook -> text")
    parser.add_argument("--root", default=".", metavar="DIR", help="the checkout (default: here)")
    args = parser.parse_args(argv)
    root = Path(args.root)
    if args.pull:
        for name in args.pull:
            pull(Path(name))
        return 0
    if args.check:
        wrong = list(check(root))
        for line in wrong:
            print(line)
        print(f"{len(wrong)} things out of step" if wrong else "all notebooks are in step with their texts")
        return 1 if wrong else 0
    for path in build(root, execute=args.execute):
        print(path.relative_to(root))
    return 0


def build(root: Path, execute: bool = False) -> Iterator[Path]:
    """Write what is not as it should be; yields each file that was written."""
    for text, target in sources(root):
        notebook = percent.read(text.read_text(encoding="utf-8"))
        if target.parent.name == "lessons":
            if not execute and _unchanged(target, notebook):
                continue
            run(notebook, target.parent)
        elif _read(target) == percent.dumps(notebook):
            continue
        target.parent.mkdir(exist_ok=True)
        target.write_text(percent.dumps(notebook), encoding="utf-8")
        yield target
    page = root / "docs" / "instructor.md"
    if page.is_file() and _read(page) != (told := with_mistakes(root)):
        page.write_text(told, encoding="utf-8")
        yield page
    with tempfile.TemporaryDirectory() as scratch:
        made = release(root, Path(scratch))
        for target in (root / "exercises").rglob("*.ipynb"):
            if target.relative_to(root / "exercises") not in made:
                target.unlink()
        for name, path in made.items():
            target = root / "exercises" / name
            if _read(target) != path.read_text(encoding="utf-8"):
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target)
                yield target


def check(root: Path) -> Iterator[str]:
    """What is out of step, one line each."""
    expected = set()
    for text, target in sources(root):
        expected.add(target)
        notebook = percent.read(text.read_text(encoding="utf-8"))
        name = target.relative_to(root)
        if not target.is_file():
            yield f"{name} is not there; python -m grader.nb.build makes it from {text.relative_to(root)}"
        elif target.parent.name == "lessons":
            if not _unchanged(target, notebook):
                yield f"{name} is not what {text.relative_to(root)} says"
            elif unrun := [
                c.id for c in nbformat.read(target, 4).cells if c.cell_type == "code" and not c.execution_count
            ]:
                yield f"{name}: cells without stored outputs, so nothing to compare with: {', '.join(unrun)}"
        elif _read(target) != percent.dumps(notebook):
            yield f"{name} is not what {text.relative_to(root)} says"
    for folder in ("lessons", "solutions"):
        for path in progress.files(root / folder):
            if path not in expected:
                yield f"{path.relative_to(root)} has no text"
    page = root / "docs" / "instructor.md"
    if page.is_file() and _read(page) != with_mistakes(root):
        yield "docs/instructor.md does not list the wrong answers that are in tests/corpus/wrong"
    with tempfile.TemporaryDirectory() as scratch:
        made = release(root, Path(scratch))
        there = {p.relative_to(root / "exercises") for p in progress.files(root / "exercises")}
        for name in sorted({*made, *there}):
            if name not in made:
                yield f"exercises/{name} has no solution"
            elif _read(root / "exercises" / name) != made[name].read_text(encoding="utf-8"):
                yield f"exercises/{name} is not what nbgrader makes of solutions/{name}"


def sources(root: Path) -> Iterator[tuple[Path, Path]]:
    """(text, notebook) of every lesson and every solution."""
    units = {}
    for text in sorted((root / "lessons").glob("[0-9][0-9]-*.py")):
        units[text.stem[:2]] = text.stem
        yield text, text.with_suffix(".ipynb")
    for text in sorted((root / "solutions").glob("[0-9][0-9]_*.py")):
        unit, name = units[text.stem[:2]], text.stem[3:]
        yield text, root / "solutions" / unit / f"{name}.ipynb"


def run(notebook: nbformat.NotebookNode, folder: Path) -> None:
    """Execute a lesson on the virtual GPU, in place. Raises when a cell does."""
    from nbclient import NotebookClient

    environment = {**os.environ, "GRADER_DEVICE": DEVICE}
    client = NotebookClient(
        notebook, timeout=TIMEOUT, kernel_name="python3", record_timing=False, coalesce_streams=True,
        resources={"metadata": {"path": str(folder)}},
    )  # fmt: skip
    language = notebook.metadata.language_info
    client.execute(env=environment)
    notebook.metadata.language_info = language  # without the version of Python that happens to be here
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            if output.get("name") == "stderr":
                raise ValueError(f"cell {cell.id} writes to stderr: {output.text}")


def release(root: Path, into: Path) -> dict[Path, Path]:
    """Have nbgrader make the students' copies below `into`: {name below exercises/: file}."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nbgrader's and SQLAlchemy's own
        from nbgrader.converters import GenerateAssignment
        from nbgrader.coursedir import CourseDirectory
        from traitlets.config.loader import PyFileConfigLoader

        config = PyFileConfigLoader("nbgrader_config.py", path=str(root.resolve())).load_config()
        config.CourseDirectory.root = str(root.resolve())
        config.CourseDirectory.release_directory = str(into.resolve())
        config.GenerateAssignment.no_database = True
        config.SaveCells.enabled = False
        logger = logging.getLogger("grader.nb.build")
        logger.setLevel(logging.ERROR)
        for folder in sorted(p for p in (root / "solutions").iterdir() if p.is_dir() and p.name[:1] != "."):
            config.CourseDirectory.assignment_id = folder.name
            converter = GenerateAssignment(coursedir=CourseDirectory(config=config), config=config)
            converter.log = logger
            converter.start()
    return {path.relative_to(into): path for path in sorted(into.rglob("*.ipynb"))}


def with_mistakes(root: Path) -> str:
    """The instructor's page with its table of common mistakes: the wrong answers that the course is tested with."""
    rows = []
    for listed in sorted((root / "tests" / "corpus" / "wrong").glob("*/expected.toml")):
        unit, exercise = listed.parent.name[:2], listed.parent.name[3:]
        for name, verdict in tomllib.loads(listed.read_text(encoding="utf-8"))["code"].items():
            code, _, rule = verdict.partition(" ")
            mistake = name.rpartition(".")[0].replace("_", " ")
            rows.append(f"| `{unit}` `{exercise}` | {mistake} | {code} | {rule.replace('_', ' ')} |")
    page = (root / "docs" / "instructor.md").read_text(encoding="utf-8")
    return page[: page.index(_TABLE) + len(_TABLE)] + "\n".join(rows) + "\n"


def pull(path: Path) -> None:
    """Write the text of a notebook that was edited."""
    notebook = nbformat.read(path, 4)
    if path.parent.name == "lessons":
        target = path.with_suffix(".py")
    else:
        target = path.parent.parent / f"{path.parent.name[:2]}_{path.stem}.py"
    target.write_text(percent.write(notebook), encoding="utf-8")


def _unchanged(target: Path, notebook: nbformat.NotebookNode) -> bool:
    """The file is this notebook with outputs."""
    if not target.is_file():
        return False
    there = nbformat.read(target, 4)
    for cell in there.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    return percent.dumps(there) == percent.dumps(notebook)


def _read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None


if __name__ == "__main__":
    sys.exit(main())
