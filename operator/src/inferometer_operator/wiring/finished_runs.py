"""Metrics of finished runs, written once and joined at each scrape.

A finished run no longer changes, and a scrape blocks the event loop. prometheus-client would write
every line again at each scrape.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from heapq import nlargest

from prometheus_client.utils import floatToGoString

from inferometer_api.metrics.definitions import (
    RUN_COLD_START,
    RUN_ERRORS,
    RUN_FINISHED,
    RUN_INFO,
    RUN_JOULES,
    RUN_LATENCY,
    RUN_NET_JOULES,
    RUN_QPS,
    RUN_QUERIES,
    RUN_SERVER_TIME,
    RUN_STARTED,
    RUN_STEP_SHARE,
    RUN_STORED,
    RUN_VALID,
    Metric,
)
from inferometer_api.metrics.exposition import head
from inferometer_operator.reconcile.run_facts import FinishedFacts, RunFacts, ScenarioFacts
from inferometer_operator.wiring.operator_stats import MAX_FINISHED_RUNS

_Sample = tuple[tuple[str, ...], float | None]
"""The values of a series' labels, and its own; None: there is no such series."""


class FinishedRuns:
    """The metric lines of the newest finished runs."""

    def __init__(self) -> None:
        self._cached: dict[str, tuple[RunFacts, tuple[bytes, ...]]] = {}

    def page(self, runs: Iterable[RunFacts]) -> bytes:
        """Return the metrics of the newest finished runs, in Prometheus's text format."""
        ended = ((run.finished.finished, run) for run in runs if run.finished is not None)
        newest = nlargest(MAX_FINISHED_RUNS, ended, key=lambda each: each[0])
        # Older runs are dropped here.
        self._cached = {run.uid: (run, self._lines(run)) for _, run in newest}
        by_metric = zip(*(lines for _, lines in self._cached.values()), strict=True)
        columns = list(by_metric) or [()] * len(_HEADS)
        return b"".join(
            part for begin, lines in zip(_HEADS, columns, strict=True) for part in (begin, *lines)
        )

    def _lines(self, run: RunFacts) -> tuple[bytes, ...]:
        before = self._cached.get(run.uid)
        if before is not None and before[0] is run:
            return before[1]
        return tuple(_written(metric, samples) for metric, samples in _samples(run))


_OF_SCENARIOS: tuple[tuple[Metric, Callable[[ScenarioFacts], list[_Sample]]], ...] = (
    (RUN_VALID, lambda each: [((), float(each.valid))]),
    (RUN_QPS, lambda each: [((), each.queries_per_second)]),
    (RUN_QUERIES, lambda each: [((), each.queries)]),
    (RUN_ERRORS, lambda each: [((), each.errors)]),
    (RUN_LATENCY, lambda each: [((name,), seconds) for name, seconds in each.latency_seconds]),
    (RUN_SERVER_TIME, lambda each: [((part,), seconds) for part, seconds in each.server_seconds]),
    (RUN_STEP_SHARE, lambda each: [((step,), share) for step, share in each.step_shares]),
    (RUN_COLD_START, lambda each: [((), each.cold_start_seconds)]),
    (RUN_JOULES, lambda each: [((each.attribution,), each.joules)]),
    (RUN_NET_JOULES, lambda each: [((each.attribution,), each.net_joules)]),
)
_HEADS = tuple(
    head(metric)
    for metric in (
        RUN_INFO,
        RUN_STARTED,
        RUN_FINISHED,
        RUN_STORED,
        *(metric for metric, _ in _OF_SCENARIOS),
    )
)


def _samples(run: RunFacts) -> Iterator[tuple[Metric, list[_Sample]]]:
    """Yield each metric and its samples, in the order of the heads."""
    found = run.finished
    if found is None:
        return
    name = (run.namespace, run.name)
    yield RUN_INFO, [((*name, *_info(run, found)), 1.0)]
    yield RUN_STARTED, [(name, found.started)]
    yield RUN_FINISHED, [(name, found.finished)]
    yield RUN_STORED, [((*name, found.result_url), 1.0)] if found.result_url else []
    for metric, samples_of in _OF_SCENARIOS:
        yield (
            metric,
            [
                ((*name, each.scenario, each.step, *more), value)
                for each in found.scenarios
                for more, value in samples_of(each)
            ],
        )


def _info(run: RunFacts, found: FinishedFacts) -> tuple[str, ...]:
    return (
        run.uid,
        found.model,
        found.runtime,
        found.device,
        found.protocol,
        found.node,
        found.outcome,
        found.spec_hash,
    )


def _written(metric: Metric, samples: Iterable[_Sample]) -> bytes:
    lines = (
        f"{metric.name}{{{_labels(metric.labels, labels)}}} {floatToGoString(value)}\n"  # type: ignore[no-untyped-call]  # the library's own
        for labels, value in samples
        if value is not None
    )
    return "".join(lines).encode()


def _labels(names: tuple[str, ...], values: tuple[str, ...]) -> str:
    return ",".join(map(_label, names, values))


@lru_cache(maxsize=1024)
def _label(name: str, value: str) -> str:
    """Return an escaped label; cached, because most labels repeat."""
    escaped = value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
    return f'{name}="{escaped}"'
