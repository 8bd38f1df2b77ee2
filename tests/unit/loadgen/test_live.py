"""The live metrics show the step that goes on and keep those that ended."""

from dataclasses import dataclass
from typing import Literal, cast, get_args

import numpy as np
import pytest
from docgen.metrics_page import step_series

from inferometer_api.metrics.definitions import LOAD_STAGE, METRICS
from inferometer_api.plan.load_plan import LoadPlan, PlannedAgent, PlannedServer
from inferometer_api.plan.reports import ProgressReport
from inferometer_api.scenarios.step_setting import Closed, Open, Steady
from inferometer_loadgen import drive
from inferometer_loadgen.drive import DrivenStep, LoadDriver
from inferometer_loadgen.record.recorder import ModelStatistics, Recorder
from inferometer_loadgen.reporting.live_metrics import MOST_ENDED, LiveMetrics
from inferometer_loadgen.schedule.steps import SECOND_NS, StepPlan
from inferometer_loadgen.wire import FailureKind
from support.exposed import Series, families, samples
from support.load_runs import a_plan

RUN = {"run_namespace": "local", "run": "test"}
Stage = Literal[
    "WaitingForWorkers",
    "WaitingForServer",
    "WaitingForRestart",
    "Preparing",
    "Idle",
    "WarmUp",
    "Measuring",
    "Draining",
]
STAGES = get_args(Stage)


@dataclass(slots=True)
class Driven:
    """As much of a driver as is shown."""

    recorder: Recorder
    open_loop: bool = False
    outstanding: int = 3
    draining: bool = False

    def progress(self) -> drive.StepProgress:
        """Return whether all is sent."""
        return drive.StepProgress(measuring=True, draining=self.draining, elapsed_ns=0, fraction=0)


def a_step(label: str, batch_size: int, qps: float | None) -> StepPlan:
    """Return the plan of a step with this rate, or of a closed loop."""
    loop = Closed(clients=1) if qps is None else Open(Steady("Constant", round(1000 * qps)))
    return StepPlan(label, batch_size, 0, SECOND_NS, SECOND_NS, 1, loop=loop)


class Shown:
    """Live metrics, their inputs and their text."""

    def __init__(self, plan: LoadPlan | None = None) -> None:
        self.live = LiveMetrics(plan or a_plan("http://127.0.0.1:1", {"singleStream": {}}))
        self.driven = Driven(Recorder())
        self.recorder = Recorder()
        self.where = ProgressReport(stage="WaitingForServer")
        self.live.follow(lambda: self.where)

    def begin(
        self,
        scenario: str = "s0",
        label: str = "",
        *,
        batch_size: int = 1,
        qps: float | None = None,
        is_trace: bool = False,
    ) -> None:
        """Begin a step."""
        self.recorder = Recorder()
        self.driven = Driven(self.recorder, open_loop=is_trace or qps is not None)
        driving = cast(LoadDriver, self.driven)
        self.live.begin(DrivenStep(scenario, a_step(label, batch_size, qps), driving))
        self.at("WarmUp", scenario, label)

    def at(self, stage: Stage, scenario: str = "s0", label: str = "") -> None:
        """Be in a stage."""
        self.where = ProgressReport(stage=stage, scenario=scenario, step=label)

    def answer(self, *milliseconds: float) -> None:
        """Record queries that were answered well."""
        self.recorder.latencies.extend(int(each * 1e6) for each in milliseconds)
        self.recorder.flush()

    def value(self, name: str, scenario: str = "s0", step: str = "", **labels: str) -> float | None:
        """Return a sample's value; None if it is not there."""
        found = samples(self.live.text().decode())
        key = {**RUN, "scenario": scenario, "step": step, **labels}
        return found.get((f"inferometer_load_{name}", frozenset(key.items())))

    def stages(self, scenario: str = "s0", step: str = "") -> list[str]:
        """Return the stages that are 1; every one has a value."""
        here = {**RUN, "scenario": scenario, "step": step}
        values = {
            dict(pairs)["stage"]: value
            for (name, pairs), value in samples(self.live.text().decode()).items()
            if name == "inferometer_load_stage" and pairs >= here.items()
        }
        assert set(values) == set(STAGES)
        assert set(values.values()) <= {0.0, 1.0}
        return [stage for stage, value in values.items() if value]


def test_every_family_is_there_from_the_beginning() -> None:
    """Before anything is known every metric has its type and help, and the process its own."""
    found = families(Shown().live.text().decode())
    exposed = {name for name in found if not name.startswith("process_")}
    assert exposed == {metric.name for metric in METRICS["load generator"]}
    assert "process_cpu_seconds_total" in found


def test_a_step_is_shown_while_it_goes_on() -> None:
    """Queries, samples, errors, rates, in flight and lag of an open loop, as they are counted."""
    shown = Shown()
    shown.begin("s0", "batch 8", batch_size=8, qps=12.5)
    assert shown.value("queries_total", step="batch 8", result="ok") == 0
    assert shown.value("in_flight_queries", step="batch 8") == 3
    assert shown.value("target_queries_per_second", step="batch 8") == 12.5
    assert shown.value("achieved_queries_per_second", step="batch 8") is None
    shown.recorder.lags.extend([3_000, 5_000_000])
    shown.recorder.fail(FailureKind.TIMEOUT, "There was no answer.")
    shown.answer(1, 2, 400)
    shown.recorder.end_second()
    assert shown.value("queries_total", step="batch 8", result="ok") == 3
    assert shown.value("queries_total", step="batch 8", result="timeout") == 1
    assert shown.value("queries_total", step="batch 8", result="status") == 0
    assert shown.value("samples_total", step="batch 8") == 24
    assert shown.value("scheduled_queries_total", step="batch 8") == 2
    assert shown.value("achieved_queries_per_second", step="batch 8") == 3
    assert shown.value("latency_seconds_count", step="batch 8") == 3
    assert shown.value("latency_seconds_sum", step="batch 8") == pytest.approx(0.403)
    assert shown.value("dispatch_lag_seconds_sum", step="batch 8") == pytest.approx(0.005003)
    shown.driven.draining = True
    assert shown.value("target_queries_per_second", step="batch 8") == 0


def test_the_warm_up_is_in_flight_and_nowhere_else() -> None:
    """Queries of the warm-up are no queries of the window."""
    shown = Shown()
    shown.begin(qps=10.0)
    shown.recorder.statistics.warm_up_queries = 100
    assert shown.value("in_flight_queries") == 3
    for name in ("samples_total", "scheduled_queries_total", "latency_seconds_count"):
        assert shown.value(name) == 0
    assert shown.value("queries_total", result="ok") == 0


def test_a_closed_loop_has_no_schedule() -> None:
    """Target rate, scheduled queries and dispatch lag are shown for open loops only."""
    shown = Shown()
    shown.begin()
    shown.answer(1)
    assert shown.value("queries_total", result="ok") == 1
    for name in (
        "scheduled_queries_total",
        "target_queries_per_second",
        "dispatch_lag_seconds_sum",
    ):
        assert shown.value(name) is None


def test_a_step_that_ended_stays_as_it_was() -> None:
    """Its counters keep their last value, its gauges are 0, and the next step has its own."""
    shown = Shown()
    shown.begin("s0", qps=10.0)
    shown.answer(1, 2, 3)
    shown.recorder.end_second()
    shown.live.end()
    shown.begin("s1", batch_size=2)
    shown.answer(5)
    assert shown.value("queries_total", "s0", result="ok") == 3
    assert shown.value("latency_seconds_count", "s0") == 3
    for name in ("in_flight_queries", "target_queries_per_second", "achieved_queries_per_second"):
        assert shown.value(name, "s0") == 0
    assert shown.value("samples_total", "s1") == 2
    shown.live.end()
    shown.live.end()
    assert shown.value("latency_seconds_count", "s0") == 3
    assert shown.value("latency_seconds_count", "s1") == 1


def test_counters_never_go_back() -> None:
    """Scraped after every event of three steps, no counter and no bucket is ever less."""
    shown = Shown()
    random = np.random.default_rng(1)
    before: dict[Series, float] = {}
    names = {metric.name for metric in METRICS["load generator"] if metric.type != "gauge"}
    for label in ("batch 1", "batch 2", "batch 4"):
        shown.begin("s0", label, batch_size=2, qps=5.0)
        for turn in range(6):
            shown.answer(*random.lognormal(1, 2, 20))
            if turn % 2:
                shown.recorder.fail(FailureKind.STATUS, "It failed.")
                shown.recorder.end_second()
            if turn == 5:
                shown.live.end()
            now = {
                series: value
                for series, value in samples(shown.live.text().decode()).items()
                if series[0].removesuffix("_bucket").removesuffix("_sum").removesuffix("_count")
                in names
            }
            assert all(now[series] >= value for series, value in before.items())
            before = dict(now)
    assert len(before) > 3 * 150


def test_the_stage_is_one_and_the_others_are_none() -> None:
    """Exactly the stage that the load generator is in is 1; a step that ended is in none."""
    shown = Shown()
    assert shown.stages("", "") == ["WaitingForServer"]
    shown.at("Preparing")
    assert (shown.stages(), shown.stages("", "")) == (["Preparing"], [])
    shown.at("Idle")
    assert shown.stages() == ["Idle"]
    shown.begin()
    assert shown.stages() == ["WarmUp"]
    shown.at("Measuring")
    assert shown.stages() == ["Measuring"]
    shown.live.end()
    assert shown.stages() == []
    shown.at("Preparing", "s1")
    assert (shown.stages("s1"), shown.stages()) == (["Preparing"], [])


def test_an_unscraped_step_has_its_stages_too() -> None:
    """A late scraper sees that the step existed and is over."""
    shown = Shown()
    shown.begin("s0", "batch 1")
    shown.live.end()
    shown.begin("s0", "batch 2")
    assert shown.stages("s0", "batch 1") == []


def test_every_stage_is_in_the_metrics_help() -> None:
    """The help of the metric names the stages that there are."""
    assert all(stage in LOAD_STAGE.help for stage in STAGES)


def test_the_servers_of_a_run_are_its_agents_targets() -> None:
    """Pods by their UIDs, processes by their IDs, each with its node, each once."""
    plan = a_plan("http://127.0.0.1:1", {"singleStream": {}}).model_copy(
        update={
            "servers": [
                PlannedServer(url="http://a:1", pod_uid="u1", node="n1"),
                PlannedServer(url="http://b:1", pod_uid="u2", node="n2"),
                PlannedServer(url="http://c:1"),
            ],
            "agents": [
                PlannedAgent(url="http://n1:9465", node="n1", pod_uids=["u1"]),
                PlannedAgent(url="http://n3:9465", node="n3", process_ids=[7, 8]),
            ],
        }
    )
    found = samples(Shown(plan).live.text().decode())
    targets = {
        (labels["node"], labels["workload"])
        for (name, pairs), value in found.items()
        if name == "inferometer_load_server_info" and value == 1
        for labels in [dict(pairs)]
        if RUN.items() <= labels.items()
    }
    assert targets == {("n1", "u1"), ("n2", "u2"), ("n3", "process:7"), ("n3", "process:8")}


def test_the_reference_counts_the_series_of_a_step() -> None:
    """An open-loop step has as many series as the reference page says."""
    shown = Shown()
    shown.begin(qps=1.0)
    shown.recorder.end_second()
    shown.at("Measuring")
    own = [
        series for series in samples(shown.live.text().decode()) if ("scenario", "s0") in series[1]
    ]
    assert len(own) == step_series()


def test_only_the_newest_of_many_steps_stay() -> None:
    """A run of a thousand steps has a text of seventeen; the newest stay as they were."""
    shown = Shown()
    for number in range(MOST_ENDED + 5):
        shown.begin("s0", f"batch {number}", qps=1.0)
        shown.answer(1, 2)
        shown.recorder.end_second()
        if number == MOST_ENDED:
            size = len(shown.live.text())
        shown.live.end()
    shown.begin("s1")
    found = samples(shown.live.text().decode())
    steps = {dict(pairs).get("step") for _, pairs in found if ("scenario", "s0") in pairs}
    assert steps == {f"batch {number}" for number in range(5, MOST_ENDED + 5)}
    assert shown.value("latency_seconds_count", "s0", "batch 5") == 2
    assert shown.stages("s0", "batch 5") == []
    assert len(shown.live.text()) < size + 1000


def test_a_trace_asks_for_no_rate_but_has_a_schedule() -> None:
    """What was due and how late it was taken up is shown of every open loop."""
    shown = Shown()
    shown.begin(is_trace=True)
    shown.recorder.lags.extend([3_000, 4_000])
    shown.recorder.flush()
    assert shown.value("scheduled_queries_total") == 2
    assert shown.value("target_queries_per_second") is None
    shown.live.end()
    assert shown.value("scheduled_queries_total") == 2


def test_a_mix_shows_each_model() -> None:
    """Queries, failures and latency of each model of a mix are shown."""
    shown = Shown()
    recorder = Recorder()
    models = [ModelStatistics("a", 0.75), ModelStatistics("b", 0.25)]
    recorder.statistics.models = models
    step = a_step("", 1, None)
    shown.live.begin(DrivenStep("s0", step, cast(LoadDriver, Driven(recorder))))
    for each, count in zip(models, (3, 1), strict=True):
        each.latency.add(np.full(count, 2_000_000))
    models[1].errors["timeout"] += 2
    assert shown.value("model_queries_total", model="a", result="ok") == 3
    assert shown.value("model_queries_total", model="b", result="ok") == 1
    assert shown.value("model_queries_total", model="b", result="timeout") == 2
    assert shown.value("model_latency_seconds_count", model="a") == 3
    assert shown.value("model_latency_seconds_sum", model="b") == pytest.approx(0.002)
