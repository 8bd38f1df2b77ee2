"""What does the load generator show of its work while it goes on?

A scrape shares the loop with the measurement: it reads what is counted anyway, and writes anew only
the lines of the step that goes on.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import get_args

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest

from inferometer_api import metrics as names
from inferometer_api.exposition import Form, form, head
from inferometer_api.metrics import METRICS, Metric, run_labels
from inferometer_api.plan import LoadPlan, Progress
from inferometer_loadgen.drive import Driver
from inferometer_loadgen.record import counters_from
from inferometer_loadgen.recorder import Recorder
from inferometer_loadgen.steps import SECOND_NS
from inferometer_loadgen.wire import FailureKind

_OK = "ok"
_STAGES: tuple[str, ...] = get_args(Progress.model_fields["stage"].annotation)
_LATENCY_COUNTERS = counters_from(names.LOAD_LATENCY.buckets)
_LAG_COUNTERS = counters_from(names.LOAD_LAG.buckets)

Place = tuple[str, str]
"""A scenario and a step of it; both are empty before the first."""
Lines = Iterator[tuple[Metric, bytes]]


@dataclass(frozen=True, slots=True)
class LiveStep:
    """A step that is being driven."""

    scenario: str
    label: str
    batch_size: int
    asked_qps: float | None
    """The rate that an open loop is asked for; None for a closed one."""
    driver: Driver
    recorder: Recorder


class Live:
    """Shows the metrics of one load generator; counters of steps that ended stay as they were."""

    def __init__(self, plan: LoadPlan) -> None:
        self._run = run_labels(plan.run)
        self._written = {metric.name: head(metric) for metric in METRICS["load generator"]}
        for node, target in _targets(plan):
            line = form(names.LOAD_TARGET, (*self._run, node, target)).filled(1)
            self._written[names.LOAD_TARGET.name] += line
        self._stages: dict[Place, dict[str, Form]] = {}
        self._ended: set[Place] = set()
        self._where: Callable[[], Progress] | None = None
        self._step: _StepLines | None = None
        self._process = CollectorRegistry()
        ProcessCollector(registry=self._process)

    def follow(self, where: Callable[[], Progress]) -> None:
        """Show the stage that `where` tells, from now on."""
        self._where = where

    def begin(self, step: LiveStep) -> None:
        """Show a step from now on."""
        place = (step.scenario, step.label)
        self._add_place(place)
        self._step = _StepLines((*self._run, *place), step)

    def end(self) -> None:
        """Keep what the step's counters have come to."""
        if self._step is None:
            return
        step, self._step = self._step, None
        self._ended.add(step.place)
        for metric, lines in step.lines(ended=True):
            self._written[metric.name] += lines

    def text(self) -> bytes:
        """Return all metrics as they are now, in Prometheus's text format."""
        written = dict(self._written)
        for metric, lines in () if self._step is None else self._step.lines(ended=False):
            written[metric.name] += lines
        written[names.LOAD_STAGE.name] += self._stage_lines()
        return b"".join((*written.values(), generate_latest(self._process)))

    def _stage_lines(self) -> bytes:
        now = None if self._where is None else self._where()
        at = None if now is None else (now.scenario, now.step)
        if at is not None:
            self._add_place(at)
        lines = []
        for place, forms in self._stages.items():
            is_here = place == at and place not in self._ended
            stage = now.stage if is_here and now is not None else None
            lines += [each.filled(int(name == stage)) for name, each in forms.items()]
        return b"".join(lines)

    def _add_place(self, place: Place) -> None:
        if place not in self._stages:
            labels = (*self._run, *place)
            self._stages[place] = {
                stage: form(names.LOAD_STAGE, (*labels, stage)) for stage in _STAGES
            }


class _StepLines:
    """The lines of one step; they are made ready before it is driven."""

    def __init__(self, labels: tuple[str, str, str, str], step: LiveStep) -> None:
        self._step = step
        self.place = (step.scenario, step.label)
        shown = [names.LOAD_SAMPLES, names.LOAD_IN_FLIGHT, names.LOAD_ACHIEVED, names.LOAD_LATENCY]
        if step.asked_qps is not None:
            shown += [names.LOAD_SCHEDULED, names.LOAD_ASKED, names.LOAD_LAG]
        self._forms = {metric.name: form(metric, labels) for metric in shown}
        self._results = {
            result: form(names.LOAD_QUERIES, (*labels, result)) for result in (_OK, *FailureKind)
        }

    def lines(self, *, ended: bool) -> Lines:
        """Return the lines as they are now; of a step that has ended nothing goes on."""
        step, forms = self._step, self._forms
        tallied = step.recorder.tallied
        answered = tallied.latency.count
        counts = {_OK: answered, **tallied.errors}
        queries = [each.filled(counts.get(result, 0)) for result, each in self._results.items()]
        yield names.LOAD_QUERIES, b"".join(queries)
        yield self._one(names.LOAD_SAMPLES, answered * step.batch_size)
        yield self._one(names.LOAD_IN_FLIGHT, 0 if ended else step.driver.outstanding)
        last = step.recorder.last_second
        if ended or last is not None:
            rate = 0.0 if ended or last is None else last.latencies.total / last.seconds
            yield self._one(names.LOAD_ACHIEVED, rate)
        latencies = tallied.latency.counts_from(_LATENCY_COUNTERS)
        seconds = tallied.latency.sum_ns / SECOND_NS
        yield names.LOAD_LATENCY, forms[names.LOAD_LATENCY.name].histogram(latencies, seconds)
        if step.asked_qps is None:
            return
        yield self._one(names.LOAD_SCHEDULED, tallied.scheduled)
        asks = not (ended or step.driver.progress().draining)
        yield self._one(names.LOAD_ASKED, step.asked_qps if asks else 0.0)
        lags = tallied.dispatch_lag.counts_from(_LAG_COUNTERS)
        seconds = tallied.dispatch_lag.sum_ns / SECOND_NS
        yield names.LOAD_LAG, forms[names.LOAD_LAG.name].histogram(lags, seconds)

    def _one(self, metric: Metric, value: float) -> tuple[Metric, bytes]:
        return metric, self._forms[metric.name].filled(value)


def _targets(plan: LoadPlan) -> list[tuple[str, str]]:
    """Return the node and the name of each target of a node agent that is a server of the run."""
    pods = [(server.node, server.pod_uid) for server in plan.servers if server.pod_uid]
    for agent in plan.agents:
        pods += [(agent.node, uid) for uid in agent.pod_uids]
        pods += [(agent.node, f"process:{number}") for number in agent.process_ids]
    return list(dict.fromkeys(pods))
