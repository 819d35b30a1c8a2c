"""nbgrader's cell metadata, completed where a hand-written notebook leaves out what goes without saying."""

from nbformat import NotebookNode
from nbgrader.preprocessors import NbGraderPreprocessor

_SCHEMA = 3


class CompleteMetadata(NbGraderPreprocessor):
    """First step of generate_assignment: a missing key would end it, or be taken for an old version of the format."""

    def preprocess_cell(self, cell: NotebookNode, resources: dict, index: int) -> tuple[NotebookNode, dict]:
        """Fill in defaults; test and task cells are locked."""
        marks = cell.metadata.get("nbgrader")
        if not marks:
            cell.metadata.pop("nbgrader", None)
            return cell, resources
        for flag in ("grade", "solution", "task"):
            marks.setdefault(flag, False)
        marks.setdefault("locked", bool(marks.task or (marks.grade and not marks.solution)))
        marks.setdefault("schema_version", _SCHEMA)
        if marks.task or marks.grade:
            marks.setdefault("points", 0.0)
        return cell, resources
