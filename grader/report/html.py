"""Records as one page that needs nothing from the network."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from grader.rules.speed import duration


@cache
def _environment() -> Environment:
    found = Environment(loader=FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=StrictUndefined)
    found.filters["duration"] = duration
    return found


def page(records: Sequence[dict], title: str = "Results") -> str:
    """A page with one section a submission, and an overview when there are several."""
    return _environment().get_template("page.html").render(records=records, title=title)


def fragment(record: dict) -> str:
    """One submission's table, for a notebook: brings its own style, touches nothing outside of itself."""
    template = '<style>{% include "verdict.css" %}</style>{% include "verdict.html" %}'
    return _environment().from_string(template).render(r=record)
