"""How far a participant is: what the checks in the notebooks of a folder said when they were saved."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

_CALL = re.compile(r'check\(\s*["\'](\w+)["\']')
_SAID = re.compile(r"^([A-Z]{2,4}) .*?([\d.]+) / ([\d.]+) points", re.MULTILINE)


def of(folder: Path) -> dict[str, tuple[str, float]]:
    """Exercise -> (code, points) of the last check in its notebook that has an output. Unreadable files are left out."""
    return {name: said for name, _, said in _checks(folder) if said}


def notebooks(folder: Path) -> dict[str, Path]:
    """Exercise -> the notebook that checks it."""
    return {name: path for name, path, _ in _checks(folder)}


def files(folder: Path) -> list[Path]:
    """Notebooks at any depth, but for the copies that JupyterLab keeps beside them."""
    return sorted(path for path in folder.rglob("*.ipynb") if ".ipynb_checkpoints" not in path.parts)


def _checks(folder: Path) -> Iterator[tuple[str, Path, tuple[str, float] | None]]:
    """Every cell that checks an exercise: the exercise, its notebook, and what it said when it was saved."""
    for path in files(folder):
        try:
            cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
            found = [
                (call[1], path, _verdict(cell)) for cell in cells if (call := _CALL.search("".join(cell["source"])))
            ]
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue
        yield from found


def _verdict(cell: dict) -> tuple[str, float] | None:
    for output in reversed(cell.get("outputs", [])):
        text = "".join(output.get("text") or output.get("data", {}).get("text/plain", ""))
        if said := _SAID.search(text):
            return said[1], float(said[2])
    return None
