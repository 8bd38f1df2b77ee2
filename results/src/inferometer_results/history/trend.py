"""The trend of a figure: its series with their change points, and what people found about these."""

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from inferometer_api.results.result import ResultDocument
from inferometer_results.history.change_points import (
    ChangePoint,
    SeriesAnalysis,
    find_change_points,
)
from inferometer_results.history.series import (
    FIGURES,
    Point,
    Series,
    SeriesName,
    more_is_better,
    predecessor,
    series_of,
)
from inferometer_results.store.comparability import comparability_key, differing
from inferometer_results.store.index_rows import ACCEPT_CHANGE, REJECT_CHANGE, JournalRow

State = Literal["candidate", "accepted", "rejected"]
"""Found in the history; shown by interleaved runs as well; refuted by them."""
_LARGEST = sys.float_info.max
_MOST_ROUNDS = 2**31 - 1
_STATES: dict[str, State] = {ACCEPT_CHANGE: "accepted", REJECT_CHANGE: "rejected"}

ReadDocument = Callable[[str], ResultDocument]
"""Returns the document of a result."""


@dataclass(frozen=True, slots=True)
class ChangeFinding:
    """What interleaved runs show about a change point; the text of its entry in the journal."""

    scenario: str
    step: str
    figure: str
    ratio: float
    """The figure after the change, divided by the figure before, in interleaved runs."""
    low: float
    high: float
    rounds: int

    def text(self) -> str:
        """Return the text of the entry."""
        return json.dumps(asdict(self), sort_keys=True)


@dataclass(frozen=True, slots=True)
class Change:
    """A change point with its results, and what is known about it."""

    point: ChangePoint
    state: State
    before: Point
    after: Point
    is_better: bool
    finding: ChangeFinding | None = None


@dataclass(frozen=True, slots=True)
class Trend:
    """A series with its change points."""

    series: Series
    analysis: SeriesAnalysis
    changes: tuple[Change, ...]
    split: dict[str, tuple[str, str]]
    """The conditions that differ from those of the series before it, with both values."""
    split_after: Point | None = None
    """The last result of the series before it."""
    unreadable: int = 0
    """Findings about its results that cannot be read, and do not count."""


def trends(
    results: Iterable[dict[str, Any]],
    figure: str,
    journal: Sequence[tuple[str, JournalRow]],
    read: ReadDocument,
) -> list[Trend]:
    """Return the trend of a figure in each series of these results.

    `results` are what `Store.find` returned, `journal` the entries of the store.
    """
    known = known_findings(journal)
    unreadable = unreadable_findings(journal)
    all_series = series_of(results, figure)
    found = [_trend(each, known, predecessor(each, all_series), read) for each in all_series]
    return [
        replace(each, unreadable=sum(unreadable[point.result_id] for point in each.series.points))
        for each in found
    ]


FindingKey = tuple[str, str, str, str]
"""Result, scenario, step and figure."""


def known_findings(
    journal: Sequence[tuple[str, JournalRow]],
) -> dict[FindingKey, tuple[State, ChangeFinding]]:
    """Return the last finding about each change point."""
    found = {}
    for id_, entry in journal:
        state = _STATES.get(entry.action)
        finding = read_finding(entry.text) if state else None
        if state and finding:
            found[id_, finding.scenario, finding.step, finding.figure] = (state, finding)
    return found


def unreadable_findings(journal: Sequence[tuple[str, JournalRow]]) -> Counter[str]:
    """Return how many findings about each result cannot be read."""
    return Counter(
        id_
        for id_, entry in journal
        if entry.action in _STATES and read_finding(entry.text) is None
    )


def read_finding(text: str) -> ChangeFinding | None:
    """Return the finding in an entry; None if a field is missing, unknown or of another type."""
    try:
        found = ChangeFinding(**json.loads(text))
    except (ValueError, TypeError, RecursionError):
        return None
    return found if _is_readable(found) else None


def _is_readable(finding: ChangeFinding) -> bool:
    """Return whether the fields have their types, which nothing has checked yet."""
    texts = (finding.scenario, finding.step, finding.figure)
    bounds = (finding.low, finding.ratio, finding.high)
    if not all(isinstance(each, str) for each in texts) or finding.figure not in FIGURES:
        return False
    if type(finding.rounds) is not int or not 0 < finding.rounds <= _MOST_ROUNDS:
        return False
    if not all(type(each) in {int, float} and 0 < each <= _LARGEST for each in bounds):
        return False
    return finding.low <= finding.high


def _trend(
    series: Series,
    known: dict[FindingKey, tuple[State, ChangeFinding]],
    before: Series | None,
    read: ReadDocument,
) -> Trend:
    of_result = {
        at: known[key]
        for at, point in enumerate(series.points)
        if (key := (point.result_id, series.name.scenario, series.name.step, series.figure))
        in known
    }
    analysis = find_change_points(series.values, set(of_result))
    changes = tuple(_change(series, each, of_result.get(each.at)) for each in analysis.changes)
    if before is None:
        return Trend(series, analysis, changes, {})
    last = before.points[-1]
    documents = (read(last.result_id), read(series.points[0].result_id))
    keys = [comparability_key(each, series.name.scenario) for each in documents]
    return Trend(series, analysis, changes, differing(*keys), last)


def _change(
    series: Series, point: ChangePoint, known: tuple[State, ChangeFinding] | None
) -> Change:
    state, finding = known or ("candidate", None)
    return Change(
        point,
        state,
        series.points[point.at - 1],
        series.points[point.at],
        (point.ratio > 1) == more_is_better(series.figure),
        finding,
    )


def trend_fields(trend: Trend) -> dict[str, Any]:
    """Return a trend as plain values, for JSON: rates per second, nanoseconds, microjoules."""
    name: SeriesName = trend.series.name
    analysis = trend.analysis
    return {
        "series": asdict(name) | {"figure": trend.series.figure, "key": trend.series.key},
        "points": [
            {
                "result": each.result_id,
                "startedAt": each.started_at,
                "value": each.value,
                "tags": list(each.tags),
                "labels": dict(each.labels),
            }
            for each in trend.series.points
        ],
        "changes": [_change_fields(each) for each in trend.changes],
        "runsSinceChange": analysis.runs,
        "variation": analysis.variation,
        "detectable": analysis.detectable,
        "canJudge": analysis.can_judge,
        "unreadableFindings": trend.unreadable,
        "splitAfter": None if trend.split_after is None else trend.split_after.result_id,
        "differing": {name: list(values) for name, values in trend.split.items()},
    }


def _change_fields(change: Change) -> dict[str, Any]:
    point = change.point
    return {
        "state": change.state,
        "index": point.at,
        "seenAt": point.seen_at,
        "before": change.before.result_id,
        "after": change.after.result_id,
        "ratio": point.ratio,
        "low": point.low,
        "high": point.high,
        "isBetter": change.is_better,
        "finding": None if change.finding is None else asdict(change.finding),
    }
