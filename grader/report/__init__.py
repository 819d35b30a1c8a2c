"""A verdict as a record (plain data, what `--json` writes), and a record as text or as a page."""

from grader.report.html import page, pages
from grader.report.printable import lines, printable
from grader.report.record import make, refusal
from grader.report.text import detail, table

__all__ = ["detail", "lines", "make", "page", "pages", "printable", "refusal", "table"]
