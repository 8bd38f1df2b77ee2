"""Judges by the newest measurements of a node which load it can generate."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from inferometer_api.nodes.benchmark import BenchmarkedNode, NodeBenchmarkStatus
from inferometer_api.nodes.characteristics import NodeCharacteristics
from inferometer_api.plan.load_plan import LoadNodeFault
from inferometer_api.results.lateness import LAG_LEAST_NS
from inferometer_api.timestamps import parse_time

MOST_STILL = 0.05
"""The largest share of standstills of a running process that is no fault."""
MOST_STOLEN = 0.01
"""The largest share of CPU time that the hypervisor may give to other guests."""
_MOST_FAULTS = 300
"""Of all nodes of a cluster together: more would not fit into a plan."""


class _Figure(NamedTuple):
    """A figure that says whether a node can generate load."""

    value: float
    source: str
    """What measured it, and when."""


class _Fault(NamedTuple):
    """A figure beyond its limit."""

    what: str
    """A clause."""
    source: str
    figure: str
    limit: str


def load_generation_faults(documents: Sequence[NodeCharacteristics]) -> Iterator[str]:
    """Yield why latencies that this node measures may be wrong, one sentence each.

    `documents` are its measurements that have not expired, the earliest first.
    """
    for each in _faults(
        _newest_figure(documents, "jitter/share"),
        _newest_figure(documents, "steal"),
        _newest_figure(documents, "timer/wakeUpLag", percentile="99"),
    ):
        yield (
            f"When `inferometer node` measured this machine on {each.source}, {each.what}. "
            "Latencies that are measured from here contain that. If it has changed, measure the "
            "machine again."
        )


def load_node_faults(
    benchmarks: Mapping[str, NodeBenchmarkStatus], now: datetime
) -> list[LoadNodeFault]:
    """Return why latencies measured from nodes of a cluster may be wrong, by the nodes' names.

    `benchmarks` are the statuses of NodeBenchmarks by their names. Those that have expired do not
    count. Of each figure of a node, the newest does.
    """
    rows = [
        (name, row)
        for name, status in benchmarks.items()
        if (expiry := parse_time(status.expiry_time)) is None or expiry > now
        for row in status.nodes
        if row.state == "Measured" and row.summary is not None
    ]
    rows.sort(key=lambda each: each[1].finish_time or "")
    found = [
        LoadNodeFault(
            node=node,
            sentence=f"When the NodeBenchmark {each.source}, {each.what}.",
            figure=each.figure,
            limit=each.limit,
        )
        for node in sorted({row.node for _, row in rows})
        for each in _faults(*_summary_figures([each for each in rows if each[1].node == node]))
    ]
    return found[:_MOST_FAULTS]


def _newest_figure(
    documents: Sequence[NodeCharacteristics], name: str, **setting: str
) -> _Figure | None:
    """Return a figure of the last document that has it."""
    for document in reversed(documents):
        found = document.figure(name, **setting)
        if found is not None:
            return _Figure(found.value, document.started_at[:10])
    return None


def _summary_figures(
    rows: Sequence[tuple[str, BenchmarkedNode]],
) -> tuple[_Figure | None, _Figure | None, _Figure | None]:
    """Return standstills, steal and lag in the last summaries of a node that have them."""
    still = stolen = late = None
    for name, row in rows:
        summary = row.summary
        if summary is None:
            continue
        source = f"{name} measured {row.node} on {(row.finish_time or '')[:10]}"
        if summary.standstill_parts_per_million is not None:
            still = _Figure(summary.standstill_parts_per_million / 1e6, source)
        if summary.stolen_parts_per_million is not None:
            stolen = _Figure(summary.stolen_parts_per_million / 1e6, source)
        if summary.wake_up_lag_nanoseconds is not None:
            late = _Figure(summary.wake_up_lag_nanoseconds, source)
    return still, stolen, late


def _faults(
    still: _Figure | None, stolen: _Figure | None, late_ns: _Figure | None
) -> Iterator[_Fault]:
    if still and still.value > MOST_STILL:
        figure = f"{still.value:.1%}"
        what = f"a running process stood still for {figure} of the time"
        yield _Fault(what, still.source, figure, f"{MOST_STILL:.0%}")
    if stolen and stolen.value > MOST_STOLEN:
        figure = f"{stolen.value:.1%}"
        what = f"the hypervisor gave {figure} of the CPU time to others"
        yield _Fault(what, stolen.source, figure, f"{MOST_STOLEN:.0%}")
    if late_ns and late_ns.value > LAG_LEAST_NS:
        figure = f"{late_ns.value / 1e6:.2f} ms"
        what = f"a timer of 1 ms was late by {figure} (p99)"
        yield _Fault(what, late_ns.source, figure, f"{LAG_LEAST_NS / 1e6:g} ms")
