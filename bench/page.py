"""Writes the measurements into docs/performance.md.

Each case has a section between two marks; the rest of the page belongs to people.
"""

import textwrap
from collections.abc import Mapping, Sequence

from bench.case import Case, Row, Taken, Unit
from bench.figures import Bound, Goal, is_reached, ratios, summary

_HEADER = ("Measured", "Inferometer", "Peer", "Ratio", "Goal", "Reached")
_COLUMNS = 120


class PageError(ValueError):
    """The page cannot take a section; the message says why."""


def render(case: Case, taken: Taken, missing: Mapping[str, str], conditions: Sequence[str]) -> str:
    """Return a case's section: its text, its table and the conditions of its figures.

    `missing` says for each side that was not run why not.
    """
    lines = [f"## {case.title}", "", case.text, ""]
    lines += _table(case.rows, taken)
    for side, reason in missing.items():
        lines += ["", *_wrapped(f"Not run: {side}. {reason}")]
    lines.append("")
    for each in conditions:
        lines += _wrapped(each)
    lines += ["", "To repeat it:", "", "```sh", *case.commands, "```"]
    return "\n".join(lines)


def replaced(page: str, name: str, section: str) -> str:
    """Return the page with a case's section replaced. Raises PageError if it has no marks."""
    begin, end = f"<!-- bench {name}: begin -->\n", f"<!-- bench {name}: end -->"
    if page.count(begin) != 1 or page.count(end) != 1 or page.index(begin) > page.index(end):
        raise PageError(
            f"The page has no place for the case {name}: put the lines '{begin.strip()}' and "
            f"'{end}' where its section belongs."
        )
    head, _, rest = page.partition(begin)
    return f"{head}{begin}{section}\n{end}{rest.partition(end)[2]}"


def _wrapped(sentence: str) -> list[str]:
    return textwrap.wrap(sentence, _COLUMNS, break_long_words=False, break_on_hyphens=False)


def _table(rows: Sequence[Row], taken: Taken) -> list[str]:
    lines = [_line(_HEADER), _line(["---"] * len(_HEADER))]
    return lines + [_line(_cells(row, taken)) for row in rows]


def _cells(row: Row, taken: Taken) -> list[str]:
    ours = taken.get(row.ours, ())
    peers = taken.get(row.peer, ()) if row.peer else ()
    sides = {source.side for source in taken}
    each_ratio = ratios(ours, peers) if ours and peers and all(peers) else []
    return [
        row.what,
        _figure(ours, row.unit, was_run=row.ours.side in sides),
        "-"
        if row.peer is None
        else f"{row.peer.side}: {_figure(peers, row.unit, was_run=row.peer.side in sides)}",
        _figure(each_ratio, Unit("", 3)) if each_ratio else "-",
        _goal(row.goal, row.unit),
        _reached(row.goal, ours, each_ratio) if row.goal and ours else "-",
    ]


def _figure(values: Sequence[float], unit: Unit, *, was_run: bool = True) -> str:
    """Write the median, and the least and the most of the repeats."""
    if not values:
        return "not known" if was_run else "not run"
    found = summary(values)
    middle, least, most = (
        f"{value * unit.scale:,.{unit.digits}f}"
        for value in (found.median, found.least, found.most)
    )
    return f"**{middle}**{unit.suffix} ({least} to {most})"


def _goal(goal: Goal, unit: Unit) -> str:
    return " or ".join(_bound(bound, unit) for bound in goal) or "none set"


def _bound(bound: Bound, unit: Unit) -> str:
    sign = "≤" if bound.sense == "at most" else "≥"
    over = " in every repeat" if bound.over == "every repeat" else ""
    if bound.of == "ratio":
        return f"{sign} {bound.limit:g} x peer{over}"
    return f"{sign} {bound.limit * unit.scale:,.{unit.digits}f}{unit.suffix}{over}"


def _reached(goal: Goal, ours: Sequence[float], each_ratio: Sequence[float]) -> str:
    """Judge the repeats; if they disagree, say how many reached the goal.

    Disagreeing repeats mean that the machine was busy or that the figure is near the goal.
    """
    verdict = is_reached(goal, ours, each_ratio)
    if verdict is None:
        return "not known"
    each_alone = (
        is_reached(goal, ours[one : one + 1], each_ratio[one : one + 1]) for one in range(len(ours))
    )
    times = sum(alone is True for alone in each_alone)
    word = "yes" if verdict else "**no**"
    return word if times == (len(ours) if verdict else 0) else f"{word} ({times} of {len(ours)})"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
