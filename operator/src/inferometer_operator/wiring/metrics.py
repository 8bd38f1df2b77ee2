"""What does the operator tell Prometheus?"""

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

from inferometer_api.metrics import (
    API_ERRORS,
    LEADER,
    RECONCILE,
    RUN_DEADLINE,
    RUN_ERRORS,
    RUN_FINISHED,
    RUN_INFO,
    RUN_JOULES,
    RUN_LATENCY,
    RUN_NET_JOULES,
    RUN_PHASE_SINCE,
    RUN_QPS,
    RUN_QUERIES,
    RUN_STARTED,
    RUN_VALID,
    RUNS,
    Metric,
)
from inferometer_api.status import Phase
from inferometer_operator.reconcile.run_facts import FinishedFacts, RunFacts, ScenarioFacts
from inferometer_operator.wiring.tally import Durations, Tally

MOST_RUNS = 200
"""As many runs that are finished, and as many that are not, have series of their own."""

Sample = tuple[tuple[str, ...], float | None]
"""The values of a series' labels, and its own; None: there is no such series."""


def exposition(tally: Tally) -> Callable[[], bytes]:
    """Return what gives the page that Prometheus scrapes."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    registry.register(_Collector(tally))
    return lambda: generate_latest(registry)


class _Collector(Collector):
    """Makes every family anew at each scrape, so that none outlives what it tells of."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally

    @override
    def collect(self) -> Iterator[Family]:
        tally = self._tally
        yield _gauge(LEADER, [((), float(tally.leads))])
        # Of several replicas one alone tells of runs.
        if tally.leads:
            yield _api_errors(tally.api_errors)
            yield _histogram(RECONCILE, tally.reconciled)
            if tally.knows_runs:
                runs = tally.runs
                yield from _phases(runs)
                yield from _finished(runs)


def _phases(runs: list[RunFacts]) -> Iterator[Family]:
    phases = Counter(run.phase for run in runs)
    yield _gauge(RUNS, [((phase,), phases[phase]) for phase in get_args(Phase)])
    going = [run for run in runs if run.finished is None]
    newest = sorted(going, key=lambda run: run.since, reverse=True)[:MOST_RUNS]
    yield _gauge(RUN_PHASE_SINCE, [((*_name(run), run.phase), run.since) for run in newest])
    yield _gauge(RUN_DEADLINE, [(_name(run), run.deadline) for run in newest])


def _finished(runs: list[RunFacts]) -> Iterator[Family]:
    ended = [(run, run.finished) for run in runs if run.finished is not None]
    newest = sorted(ended, key=lambda each: each[1].finished, reverse=True)[:MOST_RUNS]
    yield _gauge(RUN_INFO, [(_info(run, found), 1.0) for run, found in newest])
    yield _gauge(RUN_STARTED, [(_name(run), found.started) for run, found in newest])
    yield _gauge(RUN_FINISHED, [(_name(run), found.finished) for run, found in newest])
    steps = [
        ((*_name(run), each.scenario, each.step), each)
        for run, found in newest
        for each in found.scenarios
    ]
    for metric, samples_of in _OF_SCENARIOS:
        yield _gauge(
            metric,
            [((*step, *more), value) for step, each in steps for more, value in samples_of(each)],
        )


_OF_SCENARIOS: tuple[tuple[Metric, Callable[[ScenarioFacts], list[Sample]]], ...] = (
    (RUN_VALID, lambda each: [((), float(each.valid))]),
    (RUN_QPS, lambda each: [((), each.queries_per_second)]),
    (RUN_QUERIES, lambda each: [((), each.queries)]),
    (RUN_ERRORS, lambda each: [((), each.errors)]),
    (RUN_LATENCY, lambda each: [((name,), seconds) for name, seconds in each.latency_seconds]),
    (RUN_JOULES, lambda each: [((each.attribution,), each.joules)]),
    (RUN_NET_JOULES, lambda each: [((each.attribution,), each.net_joules)]),
)


def _name(run: RunFacts) -> tuple[str, str]:
    return run.namespace, run.name


def _info(run: RunFacts, found: FinishedFacts) -> tuple[str, ...]:
    return (
        *_name(run),
        run.uid,
        found.model,
        found.runtime,
        found.device,
        found.protocol,
        found.node,
        found.outcome,
        found.spec_hash,
    )


def _gauge(metric: Metric, samples: Iterable[Sample]) -> Family:
    told = GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
    for labels, value in samples:
        if value is not None:
            told.add_metric(labels, value)
    return told


def _api_errors(codes: Counter[str]) -> Family:
    told = CounterMetricFamily(API_ERRORS.name, API_ERRORS.help, labels=API_ERRORS.labels)
    for code, count in sorted(codes.items()):
        told.add_metric([code], count)
    return told


def _histogram(metric: Metric, durations: Durations) -> Family:
    told = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
    bounds = [*map(str, durations.bounds), "+Inf"]
    buckets = list(zip(bounds, map(float, accumulate(durations.counts)), strict=True))
    told.add_metric([], buckets=buckets, sum_value=durations.sum_seconds)
    return told
