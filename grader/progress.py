"""How far a participant is: what the checks in the notebooks of a folder said when they were saved."""

import json
import re
from pathlib import Path

_CALL = re.compile(r'check\(\s*["\'](\w+)["\']')
_SAID = re.compile(r"^([A-Z]{2,4}) .*?([\d.]+) / ([\d.]+) points", re.MULTILINE)


def of(folder: Path) -> dict[str, tuple[str, float]]:
    """Exercise -> (code, points) of the last check in its notebook that has an output. Unreadable files are left out."""
    found = {}
    for path in sorted(folder.rglob("*.ipynb")):
        if ".ipynb_checkpoints" in path.parts:
            continue
        try:
            cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
            found.update(said for cell in cells if (said := _verdict(cell)))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue
    return found


def _verdict(cell: dict) -> tuple[str, tuple[str, float]] | None:
    call = _CALL.search("".join(cell["source"]))
    if not call:
        return None
    for output in reversed(cell.get("outputs", [])):
        text = "".join(output.get("text") or output.get("data", {}).get("text/plain", ""))
        if said := _SAID.search(text):
            return call[1], (said[1], float(said[2]))
    return None
