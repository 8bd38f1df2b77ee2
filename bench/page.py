"""How does docs/performance.md tell what was measured?

Each case has a section between two marks; the rest of the page belongs to people.
"""

from collections.abc import Mapping, Sequence

from bench.case import Case, Row, Taken, Unit
from bench.figures import Bound, Goal, Summary, is_reached, ratio, summary

_HEADER = ("Measured", "Inferometer", "Peer", "Ratio", "Goal", "Reached")


class PageError(ValueError):
    """The page cannot take a section; the message says why."""


def render(case: Case, taken: Taken, missing: Mapping[str, str], conditions: Sequence[str]) -> str:
    """Return a case's section: its text, its table and the conditions of its figures.

    `missing` says for each side that was not run why not.
    """
    lines = [f"## {case.title}", "", case.text, ""]
    lines += _table(case.rows, taken)
    for side, reason in missing.items():
        lines += ["", f"Not run: {side}. {reason}"]
    lines += ["", *conditions, "", "To repeat it:", "", "```sh", *case.commands, "```"]
    return "\n".join(lines)


def replaced(page: str, name: str, section: str) -> str:
    """Return the page with a case's section replaced. Raises PageError where it has no marks."""
    begin, end = f"<!-- bench {name}: begin -->\n", f"<!-- bench {name}: end -->"
    if page.count(begin) != 1 or page.count(end) != 1 or page.index(begin) > page.index(end):
        raise PageError(
            f"The page has no place for the case {name}: put the lines '{begin.strip()}' and "
            f"'{end}' where its section belongs."
        )
    head, _, rest = page.partition(begin)
    return f"{head}{begin}{section}\n{end}{rest.partition(end)[2]}"


def _table(rows: Sequence[Row], taken: Taken) -> list[str]:
    lines = [_line(_HEADER), _line(["---"] * len(_HEADER))]
    return lines + [_line(_cells(row, taken)) for row in rows]


def _cells(row: Row, taken: Taken) -> list[str]:
    ours = taken.get(row.ours)
    peers = taken.get(row.peer) if row.peer else None
    figure = summary(ours) if ours else None
    to_peer = ratio(ours, peers) if ours and peers else None
    return [
        row.what,
        _figure(figure, row.unit),
        "-" if row.peer is None else f"{row.peer.side}: {_figure(_some(peers), row.unit)}",
        "-" if to_peer is None else _spread(to_peer, Unit("", 3)),
        _goal(row.goal, row.unit),
        _reached(row.goal, figure, to_peer),
    ]


def _some(values: Sequence[float] | None) -> Summary | None:
    return summary(values) if values else None


def _figure(found: Summary | None, unit: Unit) -> str:
    return "not run" if found is None else _spread(found, unit)


def _spread(found: Summary, unit: Unit) -> str:
    middle, least, most = (
        f"{value * unit.scale:,.{unit.digits}f}"
        for value in (found.median, found.least, found.most)
    )
    return f"**{middle}**{unit.suffix} ({least} to {most})"


def _goal(goal: Goal, unit: Unit) -> str:
    return " or ".join(_bound(bound, unit) for bound in goal) or "none set"


def _bound(bound: Bound, unit: Unit) -> str:
    sign = "≤" if bound.sense == "at most" else "≥"
    if bound.of == "ratio":
        return f"{sign} {bound.limit:g} x peer"
    return f"{sign} {bound.limit * unit.scale:,.{unit.digits}f}{unit.suffix}"


def _reached(goal: Goal, figure: Summary | None, to_peer: Summary | None) -> str:
    if not goal:
        return "-"
    match is_reached(goal, figure, to_peer) if figure else None:
        case True:
            return "yes"
        case False:
            return "**no**"
        case None:
            return "not known"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
