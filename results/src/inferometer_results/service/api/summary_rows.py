"""The rows of the views of many results, as CSV and JSON have them."""

from collections.abc import Iterator
from typing import Any

from inferometer_results.explore.cold_starts import ColdStartFigure
from inferometer_results.explore.model import MeasuredGroup
from inferometer_results.explore.outliers import NodeMedian
from inferometer_results.explore.trend import TrendPoint
from inferometer_results.service.views.summaries import ModelPage, NodesPage, TrendPage

_MEASURED = (
    "samples_per_second", "qps", "p50_nanoseconds", "p90_nanoseconds", "p99_nanoseconds",
    "p999_nanoseconds", "microjoules_per_inference",
)  # fmt: skip


def model_rows(page: ModelPage) -> list[dict[str, Any]]:
    """Return a row for each group of a model."""
    best = {
        (group.key, group.node): (scaling.most, scaling.knee)
        for group, scaling in page.view.scalings
    }
    return [
        _group_row(each, best.get((each.key, each.node), (None, None))) | _cold_start(cold_start)
        for each, cold_start in zip(page.view.groups, page.cold_starts, strict=True)
    ]


def _cold_start(found: ColdStartFigure | None) -> dict[str, Any]:
    return {
        "cold_start_nanoseconds": None if found is None else found.median_nanoseconds,
        "cold_start_state": None if found is None else found.state,
    }


def _group_row(group: MeasuredGroup, best: tuple[int | None, int | None]) -> dict[str, Any]:
    low, high = group.p99_range or (None, None)
    return {
        "scenario": group.scenario,
        "step": group.step,
        "batch_size": group.batch_size,
        "stack": group.stack,
        "node": group.node,
        "key": group.key,
        "result_id": group.newest["id"],
        "started_at": group.newest["started_at"],
        "verdict": group.newest["verdict"],
        "excluded": group.excluded,
        "results": group.count,
        **{name: group.newest[name] for name in _MEASURED},
        "p99_lowest": low,
        "p99_highest": high,
        "cost_per_million": group.cost_per_million,
        "on_front": group.on_front,
        "batch_of_most_throughput": best[0],
        "batch_at_knee": best[1],
    }


def trend_rows(page: TrendPage) -> list[dict[str, Any]]:
    """Return a row for each point of a trend."""
    return [_point_row(page, each) for each in page.found.points]


def _point_row(page: TrendPage, point: TrendPoint) -> dict[str, Any]:
    return {
        "result_id": point.row["id"],
        "started_at": point.row["started_at"],
        "step": page.parameters["step"],
        "repeats": len(point.repeats),
        "figure": page.figure.name,
        "value": point.value,
        "excluded": point.excluded,
        "change": None if point.change is None else point.change.ratio,
        "state": None if point.change is None else (point.judged or ("candidate",))[0],
        "changed": "; ".join(point.changed),
        "tags": "; ".join(point.tags),
    }


def node_rows(page: NodesPage) -> list[dict[str, Any]]:
    """Return a row for each node with a figure."""
    return [
        {
            "node": each.node,
            "figure": page.figure.name,
            "median": each.median,
            "results": each.count,
            "ratio": each.ratio,
            "deviations": _finite(each),
            "outlier": each.is_outlier,
            "differing": "; ".join(
                f"{name}: {most or 'unknown'} to {own or 'unknown'}"
                for name, (most, own) in each.differing.items()
            ),
        }
        for each in page.nodes
    ]


def _finite(node: NodeMedian) -> float | None:
    """Return the deviations of a node; JSON has no infinity."""
    found = node.deviations
    return None if found is None or found in {float("inf"), float("-inf")} else found


def listed_rows(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield rows of a list with their lists as text, for CSV."""
    for row in rows:
        yield {
            name: "; ".join(each) if isinstance(each, list) else each for name, each in row.items()
        }
