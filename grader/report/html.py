"""Records as pages that need nothing from the network, and can be read on a phone."""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from grader.report.overview import flagged, overviews
from grader.report.printable import lines
from grader.report.stopped import ADVICE, stopped
from grader.rules.speed import duration

_WORDS = re.compile(r"(?<=[/_.-])(?=[^/_.-])")


@cache
def _environment() -> Environment:
    found = Environment(loader=FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=StrictUndefined)
    found.filters["duration"] = duration
    found.filters["stopped"] = stopped
    found.filters["hows"] = _hows
    found.globals["advice"] = ADVICE
    found.filters["breakable"] = _breakable
    found.finalize = lambda value: lines(value) if type(value) is str else value
    return found


def _breakable(name: str) -> Markup:
    """A name that a narrow column breaks between its words, not within one."""
    return Markup("").join(Markup("<wbr>") + part if n else part for n, part in enumerate(_WORDS.split(lines(name))))


def _hows(times: dict) -> dict[str, str]:
    """By side, how its time was got; by "", the same where it is so for all of them."""
    how = {
        side: f"{t['kind']} {'on' if t['kind'] == 'measured' else 'for'} {t['device']}, {t['case']}"
        for side, t in times.items()
    }
    return {"": next(iter(how.values()))} if len(set(how.values())) == 1 else how


def page(records: Sequence[dict], title: str = "Results") -> str:
    """One page: of a class, where there are several records, with everybody's verdict below it."""
    anchors = {id(r): f"#r{n}" for n, r in enumerate(records, start=1)}
    return _page(title, records, records, lambda r: anchors[id(r)])


def pages(records: Sequence[dict], title: str = "Results") -> Iterator[tuple[str, str]]:
    """(file name, page) of every record, for its author alone, and of the class as index.html."""
    paths = [r["submission"] for r in records]
    short = _short(paths) if len(set(paths)) > 1 else lambda r: r["submission"]  # the author's name is in there
    names = {id(r): f"{n:03}-{_slug(short(r))}-{r['exercise']}.html" for n, r in enumerate(records, start=1)}
    for r in records:
        yield names[id(r)], _page(f"{short(r)}: {r['title']}", [r], [r], lambda r: "", named=False)
    yield "index.html", _page(title, records, [], lambda r: names[id(r)], always=True)


def _page(
    title: str, records: Sequence[dict], shown: Sequence[dict], link: Callable[[dict], str], *, always=False, named=True
) -> str:
    """always: an overview also of one. named: each verdict has its path above it, which is the instructor's."""
    several = always or len(records) > 1
    return (
        _environment()
        .get_template("page.html")
        .render(
            title=title,
            records=records,
            shown=shown,
            named=named,
            link=link,
            name=_short([r["submission"] for r in records]),
            overviews=overviews(records) if several else [],
            flagged=flagged(records) if several else [],
        )
    )


def _short(paths: Sequence[str]) -> Callable[[dict], str]:
    """Names without what all have in common: the folders before, and, of "anna/unit/kernel.py", those behind."""
    parts = [os.path.abspath(p).split(os.sep) for p in dict.fromkeys(paths)]
    least = min(map(len, parts)) - 1  # something is left of each
    before = _alike(parts, range(least))
    after = _alike(parts, range(-1, -1 - (least - before), -1))
    return lambda r: os.sep.join(os.path.abspath(r["submission"]).split(os.sep)[before : -after or None])


def _alike(parts: Sequence[Sequence[str]], places: range) -> int:
    """In how many of the places, from the first on, all have the same."""
    return next((n for n, i in enumerate(places) if len({p[i] for p in parts}) > 1), len(places))


def _slug(path: str) -> str:
    parts = Path(path).with_suffix("").parts
    parts = parts if len(parts) <= 3 else parts[-2:]  # of "anna/unit/kernel.py", the author too
    return re.sub(r"[^A-Za-z0-9_]+", "-", "-".join(parts)).strip("-")[:60] or "submission"


def fragment(record: dict) -> str:
    """One submission's table, for a notebook: brings its own style, touches nothing outside of itself."""
    template = '<style>{% include "verdict.css" %}</style>{% include "verdict.html" %}'
    return _environment().from_string(template).render(r=record)
