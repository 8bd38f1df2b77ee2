"""Suites for tests: as JSON, planned, and with outcomes."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from inferometer_api.status.run_status import ScenarioSummary, StepSummary
from inferometer_api.suite.plan_suite import ANYWHERE, PlannedRun, SuitePlan, System, plan_suite
from inferometer_api.suite.progress import RunOutcome, State
from inferometer_api.suite.spec import BenchmarkSuite

NODE = "node-a"


def an_axis(name: str, *values: str, path: str = "spec.load.connections") -> dict[str, Any]:
    """Return an axis whose values set a number, the first one 1."""
    return {
        "name": name,
        "values": [
            {"name": value, "set": {path: number}} for number, value in enumerate(values, start=1)
        ],
    }


def a_suite(name: str = "nightly", **spec: Any) -> dict[str, Any]:
    """Return a suite of two stacks, with members of its spec replaced."""
    return {
        "apiVersion": "inferometer.dev/v1alpha1",
        "kind": "BenchmarkSuite",
        "metadata": {"name": name},
        "spec": {
            "template": {
                "spec": {
                    "model": {"uri": "zoo://classification/resnet50"},
                    "scenarios": [{"name": "latency", "singleStream": {}}],
                }
            },
            "axes": [an_axis("stack", "old", "new")],
            **spec,
        },
    }


def parsed(data: dict[str, Any]) -> BenchmarkSuite:
    """Return the suite that JSON describes."""
    return BenchmarkSuite.model_validate(data, by_alias=True, by_name=False)


def planned(data: dict[str, Any], systems: Sequence[System] = (ANYWHERE,)) -> SuitePlan:
    """Return the plan of a suite as JSON."""
    return plan_suite(parsed(data), systems)


def an_outcome(p50_microseconds: int = 1000, state: State = "V", *, node: str = NODE) -> RunOutcome:
    """Return the outcome of a run with one scenario of a closed loop."""
    summary = ScenarioSummary(
        name="latency",
        verdict="VALID" if state == "V" else "INVALID",
        p50_microseconds=p50_microseconds,
        p99_microseconds=2 * p50_microseconds,
        achieved_milli_qps=round(1e9 / p50_microseconds),
    )
    return RunOutcome(state, "Complete", (summary,), node)


def sweeps(
    plan: SuitePlan, latency: Callable[[PlannedRun, int], float], clients: Sequence[int]
) -> list[RunOutcome]:
    """Return a VALID outcome of each run over numbers of clients; the last step is the headline."""
    return [_sweep([(each, round(latency(run, each))) for each in clients]) for run in plan.runs]


def _sweep(steps: Sequence[tuple[int, int]]) -> RunOutcome:
    summaries = [
        StepSummary(
            step=f"clients {clients}",
            achieved_milli_qps=round(clients * 1e9 / p50_microseconds),
            p50_microseconds=p50_microseconds,
        )
        for clients, p50_microseconds in steps
    ]
    found = an_outcome(steps[-1][1])
    (headline,) = found.scenarios
    several = {
        "step": summaries[-1].step,
        "steps": summaries,
        "queries": 500,
        "total_queries": 1000,
    }
    return replace(found, scenarios=(headline.model_copy(update=several),))


def outcomes(plan: SuitePlan, latency: Callable[[PlannedRun], float]) -> list[RunOutcome]:
    """Return a VALID outcome of each run, with the median latency in us that a function says."""
    return [an_outcome(round(latency(run))) for run in plan.runs]


def two_by_two() -> dict[str, Any]:
    """Return a suite of two models and two protocols on every node."""
    models = [
        {"name": name.partition("_")[0], "set": {"spec.model.uri": f"zoo://classification/{name}"}}
        for name in ("squeezenet1_1", "shufflenet_v2_x0_5")
    ]
    protocols = [
        {"name": name.lower(), "set": {"spec.load.protocol": name}} for name in ("HTTP", "GRPC")
    ]
    suite = a_suite(
        "two-by-two",
        axes=[{"name": "model", "values": models}, {"name": "protocol", "values": protocols}],
        systems={"each": "Node"},
    )
    suite["spec"]["template"]["spec"] |= {
        "validity": {"warmUpSeconds": 0, "minDurationSeconds": 1, "minQueries": 10},
        "server": {"resources": {"cpu": "250m", "memory": "512Mi"}},
    }
    return suite
