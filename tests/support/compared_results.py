"""Results that comparisons are tried on: one scenario, with known service times."""

from typing import Any

from inferometer_api.results.result import ResultDocument, ScenarioResult, Step, Verdict
from support.results import a_result, a_run
from support.steps import Load, a_step

LATENCY = {"name": "latency", "singleStream": {}}


def with_service(milliseconds: float, *, seed: int = 7, **changes: Any) -> ResultDocument:
    """Return a VALID run of one scenario whose server takes so long."""
    step = a_step(Load(service_milliseconds=milliseconds, seed=seed))
    scenario = ScenarioResult(
        name="latency",
        kind="singleStream",
        seed=42,
        steps=[step],
        verdict=Verdict(state="VALID"),
    )
    return a_result(**({"run": a_run([LATENCY]), "scenarios": [scenario]} | changes))


def repeats_of(document: ResultDocument, count: int = 3) -> ResultDocument:
    """Return a result whose scenarios are repeated; their latencies scatter by 0.1 %."""
    scenarios = []
    for repeat in range(1, count + 1):
        factor = 1 + repeat / 1000
        scenarios += [
            each.model_copy(
                update={
                    "repeat": repeat,
                    "steps": [slower_step(step, factor) for step in each.steps],
                }
            )
            for each in document.scenarios
        ]
    return document.model_copy(update={"scenarios": scenarios})


def slower_step(step: Step, factor: float) -> Step:
    """Return a step whose latencies are longer by a factor."""
    assert step.latency is not None
    values = [
        each.model_copy(update={"nanoseconds": round(each.nanoseconds * factor)})
        for each in step.latency.percentiles
    ]
    latency = step.latency.model_copy(update={"percentiles": values})
    return step.model_copy(update={"latency": latency, "achieved_qps": step.achieved_qps / factor})
