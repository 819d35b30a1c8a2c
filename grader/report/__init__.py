"""A verdict as a record (plain data, what `--json` writes), and a record as text or as a page."""

from grader.report.html import page
from grader.report.record import make, refusal
from grader.report.text import detail, table

__all__ = ["detail", "make", "page", "refusal", "table"]
