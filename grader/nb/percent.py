"""Notebooks as text for review: the "percent" form that editors know, one `# %%` line a cell.

    # ---
    # exercise: 00_grid_stride
    # ---

    # %% [markdown]
    # # A heading
    #
    # Text.

    # %% answer="grid-stride"
    print("code")

What follows `# %%` is `[markdown]` for text, and options `key=JSON`:

| option | the cell |
|---|---|
| `answer="id"` | is the student's: an nbgrader solution cell |
| `test="id" points=10` | is graded: an nbgrader test cell |
| `locked="id"` | is put back by nbgrader if a student changes it |
| `tags=["raises-exception"]` | has these tags |
| `fold=true` | is shown folded in JupyterLab |

A line of IPython's own (`%load_ext grader`) stands as a comment (`# %load_ext grader`), so that the text is Python. A
cell's id is its nbgrader id, else its number: the same text gives the same notebook, byte for byte.
"""

import json
import re

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

_MARKER = re.compile(r"# %%(?: (\[markdown\]))?((?: \w+=.*)?)$")
_MAGIC = re.compile(r"# ([%!]\S.*)$")
_COMMENTED = re.compile(r"([%!]\S.*)$")
_KERNEL = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
_NBGRADER = {"grade": False, "locked": False, "schema_version": 3, "solution": False, "task": False}


class BadText(ValueError):
    """The text is no notebook; says which line is wrong."""


def read(text: str) -> nbformat.NotebookNode:
    """The notebook, without outputs. Raises BadText."""
    head, chunks = _split(text)
    notebook = new_notebook(metadata={**_KERNEL, **({"grader": head} if head else {})})
    notebook.nbformat_minor = 5
    for number, (is_markdown, options, lines) in enumerate(chunks):
        source = _markdown(lines) if is_markdown else _code(lines)
        cell = (new_markdown_cell if is_markdown else new_code_cell)(source)
        cell.metadata.update(_metadata(options))
        cell.id = cell.metadata.get("nbgrader", {}).get("grade_id", f"cell-{number:02}")
        notebook.cells.append(cell)
    nbformat.validate(notebook)
    return notebook


def write(notebook: nbformat.NotebookNode) -> str:
    """The text of a notebook: `read` of it gives the notebook back, but for outputs and the ids of plain cells."""
    head = notebook.metadata.get("grader", {})
    parts = ["\n".join(["# ---", *(f"# {k}: {v}" for k, v in head.items()), "# ---"])] if head else []
    for cell in notebook.cells:
        is_markdown = cell.cell_type == "markdown"
        lines = cell.source.split("\n")
        if is_markdown:
            body = [f"# {line}".rstrip() for line in lines]
        else:
            body = [f"# {line}" if _COMMENTED.match(line) else line for line in lines]
        options = "".join(f" {k}={json.dumps(v)}" for k, v in _options(cell.metadata).items())
        parts.append("\n".join([f"# %%{' [markdown]' if is_markdown else ''}{options}", *body]))
    return "\n\n".join(parts) + "\n"


def dumps(notebook: nbformat.NotebookNode) -> str:
    """The file's text."""
    return nbformat.writes(notebook) + "\n"


def _split(text: str) -> tuple[dict[str, str], list[tuple[bool, dict, list[str]]]]:
    """(head, [(markdown?, options, lines)])."""
    lines = text.rstrip("\n").split("\n")
    head: dict[str, str] = {}
    at = 0
    if lines[0] == "# ---":
        end = lines.index("# ---", 1)
        head = dict(line[2:].split(": ", 1) for line in lines[1:end])
        at = end + 1
    chunks: list[tuple[bool, dict, list[str]]] = []
    for number, line in enumerate(lines[at:], start=at + 1):
        if found := _MARKER.match(line):
            chunks.append((bool(found[1]), _parse_options(found[2], number), []))
        elif chunks:
            chunks[-1][2].append(line)
        elif line.strip():
            raise BadText(f"line {number}: text before the first `# %%`")
    return head, chunks


def _parse_options(text: str, number: int) -> dict:
    options, decoder, text = {}, json.JSONDecoder(), text.strip()
    while text:
        key, _, rest = text.partition("=")
        try:
            options[key], end = decoder.raw_decode(rest)
        except ValueError:
            raise BadText(f"line {number}: {key} is followed by no JSON value: {rest}") from None
        text = rest[end:].strip()
    return options


def _markdown(lines: list[str]) -> str:
    return "\n".join(line[2:] if line.startswith("# ") else line[1:] for line in _trimmed(lines))


def _code(lines: list[str]) -> str:
    return "\n".join(_MAGIC.sub(r"\1", line) for line in _trimmed(lines))


def _trimmed(lines: list[str]) -> list[str]:
    """Without the empty lines at either end."""
    text = "\n".join(lines).strip("\n")
    return text.split("\n")


def _metadata(options: dict) -> dict:
    """Options -> cell metadata."""
    out: dict = {}
    if "answer" in options:
        out["nbgrader"] = _NBGRADER | {"grade_id": options["answer"], "solution": True}
    elif "test" in options:
        out["nbgrader"] = _NBGRADER | {
            "grade_id": options["test"], "grade": True, "locked": True, "points": options["points"],
        }  # fmt: skip
    elif "locked" in options:
        out["nbgrader"] = _NBGRADER | {"grade_id": options["locked"], "locked": True}
    if "tags" in options:
        out["tags"] = options["tags"]
    if options.get("fold"):
        out["jupyter"] = {"source_hidden": True}
    return out


def _options(metadata: dict) -> dict:
    """Cell metadata -> options."""
    out: dict = {}
    ours = metadata.get("nbgrader", {})
    if ours.get("solution"):
        out["answer"] = ours["grade_id"]
    elif ours.get("grade"):
        out |= {"test": ours["grade_id"], "points": ours["points"]}
    elif ours:
        out["locked"] = ours["grade_id"]
    if "tags" in metadata:
        out["tags"] = metadata["tags"]
    if metadata.get("jupyter", {}).get("source_hidden"):
        out["fold"] = True
    return out
