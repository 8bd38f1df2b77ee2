"""One figure over time for a specification on a node, with what changed meanwhile."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import geometric_mean
from typing import Any

from inferometer_results.explore.eligibility import why_not_ranked
from inferometer_results.explore.figure import ShownFigure
from inferometer_results.history.change_points import ChangePoint, find_change_points
from inferometer_results.history.trend import ChangeFinding, State
from inferometer_results.store.comparability import differing

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TrendPoint:
    """A result in a series."""

    row: Row
    """Its first repeat."""
    value: float
    """The geometric mean over its repeats, as `compare` takes it."""
    repeats: tuple[float, ...]
    excluded: str
    """Why it is no part of the series, "" if it is."""
    tags: tuple[str, ...]
    """Tags of people, and labels of the run that were not there with the one before."""
    changed: tuple[str, ...] = ()
    """The conditions that differ from those of the point before: "engine: a to b"."""
    change: ChangePoint | None = None
    """The change of the level that begins here."""
    judged: tuple[State, ChangeFinding] | None = None
    """What interleaved runs show about it; without them it is a candidate."""


@dataclass(frozen=True, slots=True)
class TimeSeries:
    """A series in the order of time."""

    points: tuple[TrendPoint, ...]

    @property
    def counted(self) -> tuple[TrendPoint, ...]:
        """The points without those that are excluded."""
        return tuple(each for each in self.points if not each.excluded)

    @property
    def has_candidates(self) -> bool:
        """Whether interleaved runs have not judged a change yet."""
        return any(each.change is not None and each.judged is None for each in self.points)


def trend(
    rows: Sequence[Row],
    figure: ShownFigure,
    labels: Mapping[str, Sequence[Row]],
    conditions: Mapping[str, Mapping[str, str]],
    judged: Mapping[str, tuple[State, ChangeFinding]] | None = None,
) -> TimeSeries:
    """Return the series of a figure over measurements that come newest first.

    `judged` are the findings about changes, by the result with which the change begins.
    """
    judged = judged or {}
    by_result: dict[str, list[Row]] = {}
    for row in rows:
        by_result.setdefault(row["id"], []).append(row)
    found = [
        point
        for repeats in reversed(by_result.values())
        if (point := _point(repeats, figure, labels)) is not None
    ]
    counted = [index for index, each in enumerate(found) if not each.excluded]
    changes = _change_points({index: found[index] for index in counted}, judged)
    for earlier, later in pairwise(counted):
        changed = _changed(found[earlier].row, found[later].row, conditions)
        found[later] = replace(
            found[later],
            changed=changed,
            change=changes.get(later),
            judged=judged.get(found[later].row["id"]),
        )
    return TimeSeries(tuple(found))


def _change_points(
    points: Mapping[int, TrendPoint], judged: Collection[str]
) -> dict[int, ChangePoint]:
    """Return the changes of the level by the index of the point with which each begins.

    Points whose comparability key differs are series of their own, as in `results trend`.
    """
    by_key: dict[str, list[int]] = {}
    for index, point in points.items():
        by_key.setdefault(point.row["key"], []).append(index)
    found = {}
    for indexes in by_key.values():
        known = {at for at, index in enumerate(indexes) if points[index].row["id"] in judged}
        analysis = find_change_points([points[index].value for index in indexes], known)
        found.update({indexes[each.at]: each for each in analysis.changes})
    return found


def _point(
    repeats: Sequence[Row], figure: ShownFigure, labels: Mapping[str, Sequence[Row]]
) -> TrendPoint | None:
    """Return the point of a result, None if a repeat lacks the figure.

    It is excluded if a repeat is.
    """
    values = tuple(value for row in repeats if (value := figure.of(row)) is not None)
    if len(values) < len(repeats):
        return None
    excluded = next(filter(None, map(why_not_ranked, repeats)), "")
    first = repeats[0]
    value = values[0] if len(values) == 1 else geometric_mean(values)
    return TrendPoint(first, value, values, excluded, _tags(first, labels))


def _tags(row: Row, labels: Mapping[str, Sequence[Row]]) -> tuple[str, ...]:
    of_result = labels.get(row["id"], ())
    return tuple(
        each["name"] if each["origin"] == "tag" else f"{each['name']}={each['value']}"
        for each in of_result
        if each["origin"] in {"tag", "run"}
    )


def _changed(
    before: Row, after: Row, conditions: Mapping[str, Mapping[str, str]]
) -> tuple[str, ...]:
    """Return the conditions that differ, and the version of Inferometer."""
    first, second = (dict(conditions.get(row["key"], {})) for row in (before, after))
    for row, found in ((before, first), (after, second)):
        found["inferometer"] = row["inferometer_version"]
    return tuple(
        f"{name}: {earlier or 'unknown'} to {later or 'unknown'}"
        for name, (earlier, later) in differing(first, second).items()
    )
