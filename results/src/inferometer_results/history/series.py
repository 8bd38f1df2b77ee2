"""The series of a figure: its values over comparable runs of one scenario on one node.

Only VALID scenarios of complete results have a value, unless someone retracted the result or a
profiler ran during it. Runs whose comparability key differs are series of their own, and so are
those that users stored.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from inferometer_api.scenarios.table import SEARCHES
from inferometer_results.compare.interval import over_repeats
from inferometer_results.explore.eligibility import why_not_counted
from inferometer_results.profile import is_profiled
from inferometer_results.store.index_rows import USER
from inferometer_results.store.scenario_rows import tags
from inferometer_results.store.search_fields import FIELDS, Kind, SearchError

FIGURES = ("p50", "p90", "p99", "p99.9", "qps", "samples", "peak", "energy")
"""The figures that have a history, by their names in a search."""
_RATES = frozenset({"qps", "samples", "peak"})
_BY_SCHEDULE = frozenset({"qps", "samples"})
"""Figures that an open loop prescribes, so that they say nothing about the server."""
_MEASURED = frozenset({"VALID"})


@dataclass(frozen=True, slots=True)
class Point:
    """The figure of one result."""

    result_id: str
    started_at: str
    value: float
    """The geometric mean over the repeats, as `compare` takes it."""
    tags: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    """The labels of the run, such as its commit."""


@dataclass(frozen=True, slots=True)
class SeriesName:
    """What the runs of a series have in common, their comparability key aside."""

    namespace: str
    run: str
    """The name of the run; the suite and the model if it belongs to a suite."""
    runtime: str
    device: str
    protocol: str
    node: str
    scenario: str
    step: str
    source: str = ""
    """"user" if users stored the results; otherwise empty."""


@dataclass(frozen=True, slots=True)
class Series:
    """The values of a figure in the order of time."""

    name: SeriesName
    figure: str
    key: str
    """The digest of the comparability key."""
    points: tuple[Point, ...]

    @property
    def values(self) -> list[float]:
        """The values alone."""
        return [each.value for each in self.points]


def figure_kind(figure: str) -> Kind:
    """Return of which kind a figure is. Raises SearchError if it has no history."""
    if figure not in FIGURES:
        raise SearchError(f"{figure!r} has no history. The figures are {', '.join(FIGURES)}.")
    return FIELDS[figure].kind


def more_is_better(figure: str) -> bool:
    """Return whether a larger figure is better."""
    return figure in _RATES


def series_of(results: Iterable[dict[str, Any]], figure: str) -> list[Series]:
    """Return the series of a figure in results that `Store.find` returned, oldest first.

    The series are in the order of their names, those of one name in the order of time.
    """
    figure_kind(figure)
    found: dict[tuple[SeriesName, str], list[Point]] = {}
    for result in sorted(results, key=lambda each: (each["started_at"], each["id"])):
        if not _has_history(result):
            continue
        for key, rows in _steps(result, figure).items():
            value = _value(rows, figure)
            if value is not None:
                found.setdefault(key, []).append(_point(result, value))
    series = [Series(name, figure, key, tuple(points)) for (name, key), points in found.items()]
    return sorted(series, key=_order)


def predecessor(series: Series, all_series: Iterable[Series]) -> Series | None:
    """Return the series of another key that ended last before this one began."""
    began = series.points[0].started_at
    ended = [
        each
        for each in all_series
        if each.name == series.name and each.points[-1].started_at < began
    ]
    return max(ended, key=lambda each: each.points[-1].started_at, default=None)


def _has_history(result: dict[str, Any]) -> bool:
    """Return whether a result is complete, not retracted, and not profiled."""
    kinds = {row["kind"] for row in result["measurements"]}
    return not why_not_counted(result, is_profiled=is_profiled(kinds))


def _order(series: Series) -> tuple[str, ...]:
    name = series.name
    return (
        name.namespace,
        name.run,
        name.scenario,
        name.step,
        name.node,
        name.runtime,
        name.device,
        name.protocol,
        name.source,
        series.points[0].started_at,
    )


def _steps(
    result: dict[str, Any], figure: str
) -> dict[tuple[SeriesName, str], list[dict[str, Any]]]:
    """Return the measurements of a result by series: the repeats of a step are one value."""
    suite = f"{result['suite']}, {result['model']}" if result["suite"] else ""
    found: dict[tuple[SeriesName, str], list[dict[str, Any]]] = {}
    for row in result["measurements"]:
        is_search = row["kind"] in SEARCHES
        # The probes of a search run at other rates each time: only its peak has a history.
        if is_search and not (figure == "peak" and row["headline"]):
            continue
        name = SeriesName(
            result["namespace"],
            suite or result["name"],
            result["runtime"],
            result["device"],
            result["protocol"],
            result["node"],
            row["scenario"],
            "" if is_search else row["step"],
            USER if result["source"] == USER else "",
        )
        found.setdefault((name, row["key"]), []).append(row)
    return found


def _value(rows: list[dict[str, Any]], figure: str) -> float | None:
    """Return a figure over the repeats of a step; None if one of them cannot be used."""
    if {row["verdict"] for row in rows} != _MEASURED:
        return None
    if figure in _BY_SCHEDULE and any(row["scheduled_qps"] is not None for row in rows):
        return None
    values = [row[FIELDS[figure].column.name] for row in rows]
    known = [float(each) for each in values if each is not None and each > 0]
    if len(known) < len(values):
        return None
    return known[0] if len(known) == 1 else over_repeats(known).value


def _point(result: dict[str, Any], value: float) -> Point:
    labels = tuple(
        (each["name"], each["value"]) for each in result["labels"] if each["origin"] == "run"
    )
    return Point(result["id"], result["started_at"], value, tuple(tags(result)), labels)
