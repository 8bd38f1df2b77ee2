"""All measurements of a model over stacks and nodes: groups, front, and batch scaling."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from inferometer_api.scenarios.table import BATCH_SWEEPS
from inferometer_results.explore.batch_scaling import BatchScaling, batch_scaling
from inferometer_results.explore.eligibility import why_not_ranked
from inferometer_results.explore.pareto import pareto_front
from inferometer_results.explore.prices import PriceList, nodes_of_row
from inferometer_results.store.scenario_rows import stack

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class MeasuredGroup:
    """Measurements of one step under the same conditions on one node; the newest stands for them.

    Their latencies are not averaged: the newest that ranks is shown, with the range of all.
    """

    key: str
    scenario: str
    step: str
    batch_size: int
    stack: str
    node: str
    newest: Row
    """Of the newest result that ranks, otherwise of the newest, the repeat of the middle rate."""
    count: int
    """How many rank."""
    excluded: str
    """Why none ranks, "" if one does."""
    p99_range: tuple[float, float] | None
    """Over those that rank."""
    cost_per_million: float | None = None
    on_front: bool = False


@dataclass(frozen=True, slots=True)
class ModelView:
    """The groups of one scenario of a model, ranked if their conditions allow it."""

    groups: tuple[MeasuredGroup, ...]
    differing: Mapping[str, Sequence[str]]
    """The conditions in which groups that could rank differ, with their values."""
    is_ranked: bool
    scalings: tuple[tuple[MeasuredGroup, BatchScaling], ...]
    """For each sweep of batch sizes its first group, and the scaling."""


def model_view(
    rows: Sequence[Row],
    labels: Mapping[str, Sequence[Row]],
    differing: Mapping[str, Sequence[str]],
    prices: PriceList | None,
    *,
    mixed: bool,
) -> ModelView:
    """Return the view of the measurements of one scenario, which come newest first.

    `differing` are the conditions in which those that could rank differ. They rank in spite of
    them only if `mixed`.
    """
    by_group: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        by_group.setdefault((row["key"], row["step"], row["node"]), []).append(row)
    groups = [_group(each, labels, prices) for each in by_group.values()]
    is_ranked = mixed or not differing
    if is_ranked:
        groups = _with_front(groups)
    return ModelView(tuple(groups), differing, is_ranked, tuple(_scalings(groups)))


def could_rank(rows: Sequence[Row]) -> list[Row]:
    """Return the measurements that may rank and have both figures of the front."""
    return [row for row in rows if not why_not_ranked(row) and _point(row) is not None]


def _group(
    rows: Sequence[Row], labels: Mapping[str, Sequence[Row]], prices: PriceList | None
) -> MeasuredGroup:
    ranked = [row for row in rows if not why_not_ranked(row)]
    newest = _middle_repeat(ranked or rows)
    tails = [row["p99_nanoseconds"] for row in ranked if row["p99_nanoseconds"]]
    return MeasuredGroup(
        newest["key"],
        newest["scenario"],
        newest["step"],
        newest["batch_size"],
        stack(dict(newest)),
        newest["node"],
        newest,
        len({row["id"] for row in ranked}),
        "" if ranked else why_not_ranked(newest),
        (min(tails), max(tails)) if tails else None,
        row_cost(newest, labels.get(newest["id"], ()), prices) if ranked else None,
    )


def _middle_repeat(rows: Sequence[Row]) -> Row:
    """Return the repeat of the first result whose rate is the middle one, the lower one of two."""
    repeats = [row for row in rows if row["id"] == rows[0]["id"]]
    in_order = sorted(repeats, key=lambda row: float(row["samples_per_second"] or 0))
    return in_order[(len(in_order) - 1) // 2]


def row_cost(row: Row, labels: Sequence[Row], prices: PriceList | None) -> float | None:
    """Return what a million inferences of a measurement cost, None if that is unknown."""
    if prices is None:
        return None
    return prices.per_million(nodes_of_row(row, labels), row["samples_per_second"])


def _point(row: Row) -> tuple[float, float] | None:
    """Return throughput (inferences per second) and 99th percentile (ns)."""
    rate, tail = row["samples_per_second"], row["p99_nanoseconds"]
    return (rate, tail) if rate and tail and rate > 0 else None


def _with_front(groups: Sequence[MeasuredGroup]) -> list[MeasuredGroup]:
    placed = [
        (index, point)
        for index, each in enumerate(groups)
        if not each.excluded and (point := _point(each.newest)) is not None
    ]
    front = {placed[index][0] for index in pareto_front([point for _, point in placed])}
    return [replace(each, on_front=index in front) for index, each in enumerate(groups)]


def _scalings(groups: Sequence[MeasuredGroup]) -> list[tuple[MeasuredGroup, BatchScaling]]:
    sweeps: dict[tuple[str, str], list[MeasuredGroup]] = {}
    for each in groups:
        if not each.excluded and each.newest["kind"] in BATCH_SWEEPS:
            sweeps.setdefault((each.key, each.node), []).append(each)
    found = []
    for sweep in sweeps.values():
        rates = {each.batch_size: each.newest["samples_per_second"] for each in sweep}
        scaling = batch_scaling(rates)
        if scaling is not None:
            found.append((sweep[0], scaling))
    return found
