"""One report a cause: which of the conflicts that the machine recorded one missing barrier explains.

The machine records each pair of places once, in the order in which it happened to run the threads. What the student has
to mend does not depend on that order, so here it is put aside: a conflict is between two lines, its kind follows from
which of them the program reaches first with no barrier on the way, and conflicts that one barrier would end are one.
"""

from dataclasses import dataclass, field

from ..jit import layout as L
from ..jit import state

LANES, WARPS, BLOCKS = state.APART_LANES, state.APART_WARPS, state.APART_BLOCKS
BARRIERS = ("bar", "barrier")


@dataclass(slots=True)
class Conflict:
    """Two places that touch the same bytes with nothing between them; `second` is what the report is about."""

    second: int  # site
    first: int  # site
    kind: int  # state.RACE_RAW, RACE_WAR or RACE_WAW
    in_global: bool
    row: list  # the machine's record
    swapped: bool = False  # the machine met `second` before `first`
    apart: int = WARPS
    count: int = 1
    start: int = 0  # sites between which a barrier would help: [start, end)
    end: int = 0
    around: bool = False  # the way from `first` to `second` is the next turn of a loop
    also: list = field(default_factory=list)  # conflicts of the same cause


def conflicts(rows, code) -> list[Conflict]:
    """The records of racecheck (state.RACE_RAW, _WAR, _WAW), one for each cause."""
    merged: dict = {}
    for row in rows:
        c = _conflict([int(v) for v in row], code)
        key = (frozenset(_lines(code, c)), c.in_global)
        known = merged.get(key)
        merged[key] = c if known is None else _stronger(known, c, len(key[0]))
    found = list(merged.values())
    return _by_barrier([c for c in found if c.apart != BLOCKS]) + _by_array(
        [c for c in found if c.apart == BLOCKS], code
    )


def _line(code, site):
    s = code.sites[site]
    return (s.file, s.line) if s.line else (-1, site)


def _lines(code, c: Conflict) -> set:
    return {_line(code, c.first), _line(code, c.second)}


def _conflict(row, code) -> Conflict:
    """A record, turned round where the program can only reach the places in the other order."""
    kind, site, other = row[1], row[2], row[3]
    c = Conflict(site, other, kind % state.GLOBAL_KIND, kind >= state.GLOBAL_KIND, row, apart=row[11], count=row[10])
    if c.apart == BLOCKS:
        return c
    lanes = c.apart == LANES
    there, back = way(code, other, site, lanes), way(code, site, other, lanes)
    turn = there is None and back is not None
    if c.kind == state.RACE_WAW:
        turn = turn or (there is not None and back is not None and there[2] and not back[2])
    elif c.kind == state.RACE_WAR and there is not None and back is not None:
        turn = (
            not back[2] or there[2] or len(_lines(code, c)) == 1
        )  # write, then read, unless the read's line stands first
    if turn:
        c.second, c.first, c.swapped = other, site, True
        c.kind = {state.RACE_RAW: state.RACE_WAR, state.RACE_WAR: state.RACE_RAW}.get(c.kind, c.kind)
        there = back
    c.start, c.end, c.around = there or (min(site, other), max(site, other), False)
    return c


def _stronger(a: Conflict, b: Conflict, lines: int) -> Conflict:
    """Of two conflicts of the same lines, the one to report: a read of what was written, or updates of one word."""
    rank = {state.RACE_RAW: 0, state.RACE_WAW: 1 if lines > 1 else -1, state.RACE_WAR: 2}
    best = min(a, b, key=lambda c: (-c.apart, rank[c.kind], c.row[7] < 0, c.around, c.end - c.start, c.swapped))
    best.count = a.count + b.count
    return best


def way(code, a: int, b: int, lanes: bool):
    """How control gets from site a to site b with no barrier on the way: (first site, end, True by a loop's next turn).

    None when it cannot. With `lanes`, a syncwarp counts as a barrier.
    """
    start, goal = code.sites[a].block, code.sites[b].block
    if start == goal and a < b:
        return a, b, False
    for backwards in (False, True):
        seen, work = set(), [(start, -1)]
        while work:
            block, turned = work.pop()
            if _closed(code, block):
                continue
            for after in code.succs[block]:
                turn = max(turned, block) if after <= block else turned
                if (turn >= 0 and not backwards) or after in seen or (lanes and _starts_with_syncwarp(code, after)):
                    continue
                if after == goal:
                    return (a, b, False) if turn < 0 else (a, _sites_up_to(code, turn), True)
                seen.add(after)
                work.append((after, turn))
    return None


def _closed(code, block: int) -> bool:
    """Control leaves the block through a barrier."""
    instructions = code.blocks[block]
    parts = instructions[-1][0].split(".") if instructions else [""]
    return parts[0] in BARRIERS and "warp" not in parts and "arrive" not in parts


def _starts_with_syncwarp(code, block: int) -> bool:
    return any(op.startswith(("bar.warp", "barrier.warp")) for op, *_ in code.blocks[block][:1])


def _sites_up_to(code, block: int) -> int:
    """Number of the first site after a block; sites are numbered in the order of the blocks."""
    return next((k for k, s in enumerate(code.sites) if s.block > block), len(code.sites))


def _by_barrier(found: list[Conflict]) -> list[Conflict]:
    """Conflicts whose gaps overlap are one cause: a barrier in the overlap ends them all."""
    out, at = [], []
    for c in sorted(found, key=lambda c: (c.end, -c.start)):
        if at and c.start < at[0].end:
            at.append(c)
            continue
        at = [c]
        out.append(at)
    return [_lead(group) for group in out]


def _by_array(found: list[Conflict], code) -> list[Conflict]:
    """Between blocks: conflicts over one allocation that share a line are one cause."""
    groups: list[list[Conflict]] = []
    for c in found:
        mine = [g for g in groups if any(o.row[9] == c.row[9] and _lines(code, o) & _lines(code, c) for o in g)]
        for g in mine:
            groups.remove(g)
        groups.append([c, *(o for g in mine for o in g)])
    return [_lead(group) for group in groups]


def _lead(group: list[Conflict]) -> Conflict:
    """The conflict that stands for its group: the one that was seen most."""
    lead = max(group, key=lambda c: (c.apart, c.count, -c.second, -c.first))
    lead.also = [c for c in group if c is not lead]
    return lead


def gap(c: Conflict) -> tuple[int, int, bool]:
    """(first site, end, True where it is the end of a loop's body) of the stretch in which one barrier ends all of them."""
    group = (c, *c.also)
    first = min(group, key=lambda o: o.end)
    return max(o.start for o in group), first.end, first.around


def reads(c: Conflict, code):
    """Lines of the places of a conflict, and of those that go with it, at which something is read."""
    places = [s for o in (c, *c.also) for s in (o.first, o.second)]
    return {_line(code, s) for s in places if code.sites[s].kind != L.STORE}
