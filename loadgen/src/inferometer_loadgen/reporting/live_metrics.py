"""Prometheus metrics of the load generator while it works.

A scrape shares the loop with the measurement: it reads the counters that exist anyway, and renders
only the lines of the current step.
"""

from collections.abc import Callable, Iterator
from typing import get_args

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from typing_extensions import override

from inferometer_api.metrics import definitions as names
from inferometer_api.metrics.definitions import METRICS, Metric, run_labels
from inferometer_api.metrics.exposition import form, head
from inferometer_api.plan.load_plan import LoadPlan
from inferometer_api.plan.reports import ProgressReport
from inferometer_loadgen.drive import DrivenStep, StepObserver
from inferometer_loadgen.record.histogram import Histogram, Integers, counters_from
from inferometer_loadgen.record.recorder import ModelStatistics
from inferometer_loadgen.schedule.steps import SECOND_NS, target_qps
from inferometer_loadgen.wire import FailureKind

MOST_ENDED = 16
"""Ended steps that are still shown; a scraper has seen older ones long before."""
_OK = "ok"
_STAGES: tuple[str, ...] = get_args(ProgressReport.model_fields["stage"].annotation)
_LATENCY_COUNTERS = counters_from(names.LOAD_LATENCY.buckets)
_LAG_COUNTERS = counters_from(names.LOAD_LAG.buckets)

Place = tuple[str, str]
"""A scenario and a step of it; both are empty before the first."""
Written = dict[str, bytes]
"""Lines by their metric's name."""
Lines = Iterator[tuple[str, bytes]]
"""Lines, each behind its metric's name."""


class LiveMetrics(StepObserver):
    """Renders the metrics of one load generator; the newest steps that ended stay as they were."""

    def __init__(self, plan: LoadPlan) -> None:
        self._run = run_labels(plan.run)
        self._written = {metric.name: head(metric) for metric in METRICS["load generator"]}
        self.aim_at(plan)
        self._stages: dict[Place, _StageLines] = {}
        self._ended: dict[Place, Written] = {}
        self._where: Callable[[], ProgressReport] | None = None
        self._step: _StepLines | None = None
        self._process = CollectorRegistry()
        ProcessCollector(registry=self._process)

    def follow(self, where: Callable[[], ProgressReport]) -> None:
        """Show the stage that `where` returns, from now on."""
        self._where = where

    def aim_at(self, plan: LoadPlan) -> None:
        """Show the servers of this plan from now on, instead of others."""
        lines = (
            form(names.LOAD_SERVER_INFO, (*self._run, *target)).filled(1)
            for target in _targets(plan)
        )
        metric = names.LOAD_SERVER_INFO
        self._written[metric.name] = b"".join((head(metric), *lines))

    @override
    def begin(self, step: DrivenStep) -> None:
        """Show a step from now on."""
        place = (step.scenario, step.plan.label)
        self._ended.pop(place, None)  # a repeat of it counts from nothing again
        self._add_place(place)
        self._step = _StepLines((*self._run, *place), step)

    @override
    def end(self) -> None:
        """Keep the final counters of the step."""
        if self._step is None:
            return
        step, self._step = self._step, None
        self._ended[step.place] = dict(step.lines(ended=True))
        if len(self._ended) > MOST_ENDED:
            oldest = next(iter(self._ended))
            del self._ended[oldest], self._stages[oldest]

    def text(self) -> bytes:
        """Return all metrics in Prometheus's text format."""
        now = {} if self._step is None else dict(self._step.lines(ended=False))
        now[names.LOAD_STAGE.name] = self._stage_lines()
        parts = []
        for name, written in self._written.items():
            parts.append(written)
            parts += [lines[name] for lines in self._ended.values() if name in lines]
            parts.append(now.get(name, b""))
        return b"".join((*parts, generate_latest(self._process)))

    def _stage_lines(self) -> bytes:
        if self._where is not None:
            now = self._where()
            at = (now.scenario, now.step)
            self._add_place(at)
            if at not in self._ended:
                rest = [each.nowhere for place, each in self._stages.items() if place != at]
                return b"".join((*rest, self._stages[at].lines(now.stage)))
        return b"".join([each.nowhere for each in self._stages.values()])

    def _add_place(self, place: Place) -> None:
        if place not in self._stages:
            self._stages[place] = _StageLines((*self._run, *place))


class _StageLines:
    """The lines that show whether the load generator is in a step, and in which stage of it."""

    def __init__(self, labels: tuple[str, str, str, str]) -> None:
        self._forms = {stage: form(names.LOAD_STAGE, (*labels, stage)) for stage in _STAGES}
        self.nowhere = self.lines(None)

    def lines(self, now: str | None) -> bytes:
        """Return the lines of a stage; None is none of them."""
        return b"".join(each.filled(int(stage == now)) for stage, each in self._forms.items())


class _StepLines:
    """The lines of one step, prepared before it is driven."""

    def __init__(self, labels: tuple[str, str, str, str], step: DrivenStep) -> None:
        self._step = step
        self._target_qps = target_qps(step.plan)
        self.place = (step.scenario, step.plan.label)
        shown = [names.LOAD_SAMPLES, names.LOAD_IN_FLIGHT, names.LOAD_ACHIEVED, names.LOAD_LATENCY]
        if step.driver.open_loop:
            shown += [names.LOAD_SCHEDULED, names.LOAD_LAG]
        if self._target_qps is not None:
            shown.append(names.LOAD_TARGET_RATE)
        self._forms = {metric.name: form(metric, labels) for metric in shown}
        self._results = {
            result: form(names.LOAD_QUERIES, (*labels, result)) for result in (_OK, *FailureKind)
        }
        self._models = [
            _ModelLines(labels, each) for each in step.driver.recorder.statistics.models
        ]

    def lines(self, *, ended: bool) -> Lines:
        """Return the current lines; the gauges of a step that has ended are 0."""
        step = self._step
        tallied = step.driver.recorder.statistics
        answered = tallied.latency.count
        counts = {_OK: answered, **tallied.errors}
        queries = [each.filled(counts.get(result, 0)) for result, each in self._results.items()]
        yield names.LOAD_QUERIES.name, b"".join(queries)
        yield self._one(names.LOAD_SAMPLES, answered * step.plan.batch_size)
        yield self._one(names.LOAD_IN_FLIGHT, 0 if ended else step.driver.outstanding)
        last = step.driver.recorder.last_second
        if ended or last is not None:
            rate = 0.0 if ended or last is None else last.latencies.total / last.seconds
            yield self._one(names.LOAD_ACHIEVED, rate)
        yield self._histogram(names.LOAD_LATENCY, tallied.latency, _LATENCY_COUNTERS)
        if self._models:
            lines = [each.lines() for each in self._models]
            yield names.LOAD_MODEL_QUERIES.name, b"".join(queries for queries, _ in lines)
            yield names.LOAD_MODEL_LATENCY.name, b"".join(latency for _, latency in lines)
        if not step.driver.open_loop:
            return
        yield self._one(names.LOAD_SCHEDULED, tallied.scheduled)
        if self._target_qps is not None:
            sends = not (ended or step.driver.progress().draining)
            yield self._one(names.LOAD_TARGET_RATE, self._target_qps if sends else 0.0)
        yield self._histogram(names.LOAD_LAG, tallied.dispatch_lag, _LAG_COUNTERS)

    def _one(self, metric: Metric, value: float) -> tuple[str, bytes]:
        return metric.name, self._forms[metric.name].filled(value)

    def _histogram(self, metric: Metric, times: Histogram, counters: Integers) -> tuple[str, bytes]:
        lines = self._forms[metric.name]
        seconds = times.sum_ns / SECOND_NS
        return metric.name, lines.histogram(times.counts_from(counters), seconds)


class _ModelLines:
    """The lines of one model of a mix, prepared before its step is driven."""

    def __init__(self, labels: tuple[str, str, str, str], counts: ModelStatistics) -> None:
        self._counts = counts
        labels_of_model = (*labels, counts.model)
        self._latency = form(names.LOAD_MODEL_LATENCY, labels_of_model)
        self._results = {
            result: form(names.LOAD_MODEL_QUERIES, (*labels_of_model, result))
            for result in (_OK, *FailureKind)
        }

    def lines(self) -> tuple[bytes, bytes]:
        """Return the current lines of its queries and of their latency."""
        counts, times = self._counts, self._counts.latency
        by_result = {_OK: times.count, **counts.errors}
        queries = [each.filled(by_result.get(name, 0)) for name, each in self._results.items()]
        buckets = times.counts_from(_LATENCY_COUNTERS)
        return b"".join(queries), self._latency.histogram(buckets, times.sum_ns / SECOND_NS)


def _targets(plan: LoadPlan) -> list[tuple[str, str]]:
    """Return node and workload name of each server of the run that an agent observes."""
    pods = [(server.node, server.pod_uid) for server in plan.servers if server.pod_uid]
    for agent in plan.agents:
        pods += [(agent.node, uid) for uid in agent.pod_uids]
        pods += [(agent.node, f"process:{number}") for number in agent.process_ids]
    return list(dict.fromkeys(pods))
