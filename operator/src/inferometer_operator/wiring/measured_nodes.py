"""Keeps what NodeBenchmarks have found on nodes, for the operator's metrics."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from inferometer_api.metrics.definitions import (
    NODE_BANDWIDTH,
    NODE_DISK_RATE,
    NODE_LOAD_LATENCY,
    NODE_MEASURED,
    NODE_PRODUCT_RATE,
    NODE_WAKE_UP_LAG,
    Metric,
)
from inferometer_api.nodes.benchmark import MOST_NODES
from inferometer_api.timestamps import parse_time
from inferometer_operator.reconcile.observed import Json

_FIGURES: Mapping[Metric, tuple[str, float]] = {
    NODE_BANDWIDTH: ("memoryBytesPerSecond", 1.0),
    NODE_LOAD_LATENCY: ("loadLatencyPicoseconds", 1e-12),
    NODE_PRODUCT_RATE: ("fp32Flops", 1.0),
    NODE_DISK_RATE: ("diskReadBytesPerSecond", 1.0),
    NODE_WAKE_UP_LAG: ("wakeUpLagNanoseconds", 1e-9),
}
"""The field of a node's summary, and what makes a base unit of it."""


@dataclass(frozen=True, slots=True)
class _Measurement:
    """One node of a NodeBenchmark that was measured."""

    node: str
    finished: float
    """Unix time."""
    summary: Json


class MeasuredNodes:
    """The measured nodes of each NodeBenchmark that exists."""

    def __init__(self) -> None:
        self._by_benchmark: dict[str, tuple[_Measurement, ...]] = {}

    def update(self, benchmark: Json) -> None:
        """Add a NodeBenchmark, or replace what is known of it; one that has expired has none."""
        status = benchmark.get("status") or {}
        found = () if is_expired(status) else tuple(_measurements(status.get("nodes") or ()))
        self._by_benchmark[benchmark["metadata"]["uid"]] = found

    def remove(self, uid: str) -> None:
        """Forget a NodeBenchmark that no longer exists."""
        self._by_benchmark.pop(uid, None)

    def values(self) -> Mapping[Metric, Mapping[str, float]]:
        """Return the newest value of each metric by node, of the nodes that were measured last.

        A measurement may have only some figures: the others are those of earlier ones.
        """
        found: dict[Metric, dict[str, float]] = {
            metric: {} for metric in (NODE_MEASURED, *_FIGURES)
        }
        every = (each for measured in self._by_benchmark.values() for each in measured)
        for each in sorted(every, key=lambda one: -one.finished):
            newest = found[NODE_MEASURED]
            if each.node not in newest and len(newest) >= MOST_NODES:
                continue
            newest.setdefault(each.node, each.finished)
            for metric, (field, scale) in _FIGURES.items():
                value = each.summary.get(field)
                if isinstance(value, int):
                    found[metric].setdefault(each.node, value * scale)
        return found


def is_expired(status: Json) -> bool:
    """Return whether the figures of a NodeBenchmark no longer count, by its status."""
    conditions = status.get("conditions") or ()
    return any(
        each.get("type") == "Current" and each.get("status") == "False" for each in conditions
    )


def _measurements(rows: Iterable[Json]) -> Iterator[_Measurement]:
    for row in rows:
        finished = parse_time(row.get("finishTime"))
        if row.get("state") == "Measured" and finished is not None:
            yield _Measurement(str(row["node"]), finished.timestamp(), row.get("summary") or {})
