"""A scenario that lacks steps is never VALID, whatever ended it."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from inferometer_api.plan.reports import ScenarioReport
from inferometer_api.results.result import ScenarioResult
from inferometer_api.spec.scenario import Concurrency, Scenario, Validity
from inferometer_loadgen.drive.first_requests import FirstRequestsRefusedError
from inferometer_loadgen.fleet.answers import worker_lost_error
from inferometer_loadgen.run.executor import Interruption, ScenarioRepeat
from inferometer_loadgen.run.load_executor import LoadRepeat
from inferometer_loadgen.run.load_step import StepOutcome
from inferometer_loadgen.run.scenario import ScenarioRepeats, measure_repeat
from inferometer_loadgen.schedule.steps import End, StepPlan
from inferometer_loadgen.search.goal import ObservedCounts, StepObservation
from inferometer_loadgen.verdict.measurement import Measurement, ScenarioConditions
from inferometer_loadgen.wire import ConnectionFailedError
from support.judged_steps import a_step

VALIDITY = Validity(min_duration_seconds=10, min_queries=100)
SWEEP = Scenario(name="sweep", concurrency=Concurrency(clients=[1, 2, 4]))


def swept(third: BaseException | End) -> ScenarioResult:
    """Judge a sweep whose third step raises this, or ends so before its window begins."""
    measured: list[str] = []
    reports: list[Any] = []

    class Steps:
        async def run(self, scenario: str, plan: StepPlan) -> StepOutcome:
            measured.append(scenario)
            over = StepObservation(ObservedCounts(0, 0))
            if len(measured) < 3:
                step = a_step(label=plan.label, scheduled_qps=None, dispatch_lag=None)
                return StepOutcome(End.DONE, over, Measurement(plan, step, End.DONE))
            if isinstance(third, BaseException):
                raise third
            return StepOutcome(third, over)

    async def no_starts() -> list[frozenset[str]]:
        return []

    def start(repeat: ScenarioRepeat) -> LoadRepeat:
        steps: Any = Steps()
        return LoadRepeat(repeat, steps, ScenarioConditions(kind="concurrency"), lambda: "")

    run: Any = SimpleNamespace(
        servers=SimpleNamespace(starts=no_starts),
        reports=SimpleNamespace(add=reports.append),
        progress=SimpleNamespace(preparing=lambda *_: None),
        interruption=Interruption(),
    )
    executor: Any = SimpleNamespace(start=start)
    try:
        repeat = ScenarioRepeat(SWEEP, 0, VALIDITY, 1)
        asyncio.run(measure_repeat(run, executor, repeat, ScenarioRepeats()))
    except BaseException as error:
        if error is not third:
            raise
    (report,) = reports
    assert isinstance(report, ScenarioReport)
    return report.scenario


@pytest.mark.parametrize(
    ("third", "why"),
    [
        (worker_lost_error(1, "its process ended"), End.WORKER_LOST),
        (End.WORKER_LOST, End.WORKER_LOST),
        (ConnectionFailedError("gone"), End.SERVER_LOST),
        (asyncio.CancelledError(), End.INTERRUPTED),
        (FirstRequestsRefusedError("The server refused it."), End.FAILED),
        (ZeroDivisionError(), End.FAILED),
    ],
    ids=["between steps", "in a warm-up", "server", "interrupted", "refused", "a fault of our own"],
)
def test_missing_steps_are_reported(third: BaseException | End, why: End) -> None:
    """The two steps that were measured are kept, and the verdict says what ended the rest."""
    result = swept(third)
    assert len(result.steps) == 2
    (reason,) = result.verdict.reasons
    assert (reason.rule, reason.figure) == ("EndedEarly", why.value)
