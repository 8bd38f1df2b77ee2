"""The operator's Prometheus metrics."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from typing import get_args

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.core import Metric as Family
from prometheus_client.registry import Collector
from typing_extensions import override

from inferometer_api.metrics.definitions import (
    API_ERRORS,
    LEADER,
    RECONCILE,
    RUN_DEADLINE,
    RUN_PHASE_SINCE,
    RUNS,
    SUITE_GATE,
    Metric,
)
from inferometer_api.status.run_status import Phase
from inferometer_api.suite.status import GateOutcome
from inferometer_operator.reconcile.run_facts import RunFacts
from inferometer_operator.wiring.finished_runs import FinishedRuns
from inferometer_operator.wiring.operator_stats import DurationHistogram, OperatorStats

MAX_ACTIVE_RUNS = 200
"""Only so many unfinished runs have series of their own."""

Sample = tuple[tuple[str, ...], float | None]
"""The values of a series' labels, and its own; None: there is no such series."""


def exposition(stats: OperatorStats) -> Callable[[], bytes]:
    """Return the function that renders the page for Prometheus."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    registry.register(_Collector(stats))
    finished = FinishedRuns()

    def page() -> bytes:
        # Of several replicas only the leader exports runs.
        knows = stats.is_leader and stats.runs_listed
        return generate_latest(registry) + (finished.page(stats.runs) if knows else b"")

    return page


class _Collector(Collector):
    """Builds every family at each scrape, so that none outlives its run."""

    def __init__(self, stats: OperatorStats) -> None:
        self._stats = stats

    @override
    def collect(self) -> Iterator[Family]:
        stats = self._stats
        yield _gauge(LEADER, [((), float(stats.is_leader))])
        if stats.is_leader:
            yield _api_errors(stats.api_errors)
            yield _histogram(RECONCILE, stats.reconcile_durations)
            if stats.runs_listed:
                yield from _phases(stats)
                yield _gauge(SUITE_GATE, _suite_gates(stats))
                for metric, values in stats.measured_nodes.values().items():
                    yield _gauge(metric, [((node,), each) for node, each in values.items()])


def _suite_gates(stats: OperatorStats) -> Iterator[Sample]:
    """Yield a series for each outcome of each suite, 1 for that of its last execution."""
    for (namespace, suite), gate in sorted(stats.suite_gates.items()):
        armed = "true" if gate.armed else "false"
        for outcome in get_args(GateOutcome):
            yield (namespace, suite, outcome, armed), float(outcome == gate.outcome)


def _phases(stats: OperatorStats) -> Iterator[Family]:
    phases = stats.phases
    yield _gauge(RUNS, [((phase,), phases[phase]) for phase in get_args(Phase)])
    going = sorted((run for run in stats.runs if run.finished is None), key=_urgency)[
        :MAX_ACTIVE_RUNS
    ]
    yield _gauge(
        RUN_PHASE_SINCE, [((run.namespace, run.name, run.phase), run.since) for run in going]
    )
    yield _gauge(RUN_DEADLINE, [((run.namespace, run.name), run.deadline) for run in going])


def _urgency(run: RunFacts) -> tuple[bool, float]:
    """Return a key that sorts runs by urgency: stuck ones are old."""
    return not run.begun, run.since


def _gauge(metric: Metric, samples: Iterable[Sample]) -> Family:
    family = GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
    for labels, value in samples:
        if value is not None:
            family.add_metric(labels, value)
    return family


def _api_errors(codes: Counter[str]) -> Family:
    family = CounterMetricFamily(API_ERRORS.name, API_ERRORS.help, labels=API_ERRORS.labels)
    for code, count in sorted(codes.items()):
        family.add_metric([code], count)
    return family


def _histogram(metric: Metric, durations: DurationHistogram) -> Family:
    family = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
    bounds = [*map(str, durations.bounds), "+Inf"]
    buckets = list(zip(bounds, map(float, accumulate(durations.counts)), strict=True))
    family.add_metric([], buckets=buckets, sum_value=durations.sum_seconds)
    return family
