"""Measurement of one repeat of a scenario: its steps in order, or a search."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from inferometer_api.results.result import ScenarioResult
from inferometer_api.results.search import Peak
from inferometer_api.scenarios.scenario_kind import Executor, ScenarioKind
from inferometer_api.scenarios.table import SCENARIOS
from inferometer_api.spec.scenario import Scenario, Validity
from inferometer_loadgen.fleet.answers import WorkerLostError
from inferometer_loadgen.reporting.progress_reporter import ProgressReporter
from inferometer_loadgen.run.step import StepExecutor, StepOutcome
from inferometer_loadgen.schedule.steps import End, StepPlan
from inferometer_loadgen.search.knee import find_knee
from inferometer_loadgen.search.peak import SearchState, StopReason, next_step, peak_result
from inferometer_loadgen.search.steps import goal_from_row, plan_search_step, update_state
from inferometer_loadgen.verdict.judge import judge
from inferometer_loadgen.verdict.measurement import Measurement, ScenarioConditions
from inferometer_loadgen.wire import ConnectionFailedError

CUTS_SHORT = frozenset({End.SERVER_LOST, End.WORKER_LOST, End.INTERRUPTED})
_CUT_SHORT_BY: Mapping[type[BaseException], End] = {
    asyncio.CancelledError: End.INTERRUPTED,
    ConnectionFailedError: End.SERVER_LOST,
    WorkerLostError: End.WORKER_LOST,
}
"""The end of a scenario that raised one of these; any other error is a failure of the run."""
_SEEDS = 2**32


@dataclass(frozen=True, slots=True)
class ScenarioRepeat:
    """One repeat of one scenario."""

    scenario: Scenario
    index: int
    """The scenario's index, from 0."""
    steps: Sequence[StepPlan]
    """With the seed of the first repeat. Empty for a search, which chooses its steps."""
    validity: Validity
    load_seed: int
    repeat: int = 1

    @property
    def kind(self) -> ScenarioKind[Any]:
        """The row of its kind."""
        return SCENARIOS[self.scenario.kind]

    @property
    def seed(self) -> int:
        """The seed of this repeat."""
        return (self.load_seed + self.repeat - 1) % _SEEDS


@dataclass(slots=True)
class RepeatMeasurements:
    """The measurements of one repeat, whatever ended it."""

    measurements: list[Measurement] = field(default_factory=list)
    peak: Peak | None = None
    cut_short: End | None = None
    """What ended it before its limits did."""

    def result(self, repeat: ScenarioRepeat, conditions: ScenarioConditions) -> ScenarioResult:
        """Return the judged result."""
        steps = [measurement.step for measurement in self.measurements]
        conditions = replace(conditions, cut_short=self.cut_short, peak=self.peak)
        return ScenarioResult(
            name=repeat.scenario.name,
            kind=repeat.scenario.kind,
            repeat=repeat.repeat,
            seed=repeat.seed,
            steps=steps,
            verdict=judge(self.measurements, conditions),
            peak=self.peak,
            knee=find_knee(steps) if repeat.kind.finds_knee else None,
        )


@dataclass(frozen=True, slots=True)
class StepContext:
    """What the steps of all scenarios share."""

    executors: Mapping[Executor, StepExecutor]
    progress: ProgressReporter
    is_interrupted: Callable[[], bool]


async def measure_repeat(
    context: StepContext, repeat: ScenarioRepeat, measured: RepeatMeasurements
) -> End:
    """Measure one repeat of a scenario into `measured`; return why it ended.

    Raises what the executor raises, and CancelledError if it is interrupted between steps.
    """
    work = _RepeatRun(context, repeat, measured)
    try:
        end = await (work.search() if repeat.kind.steps == "search" else work.steps())
    except BaseException as error:
        ends = (end for kind, end in _CUT_SHORT_BY.items() if isinstance(error, kind))
        measured.cut_short = next(ends, End.FAILED)
        raise
    measured.cut_short = end if end in CUTS_SHORT else None
    return end


@dataclass(frozen=True, slots=True)
class _RepeatRun:
    context: StepContext
    repeat: ScenarioRepeat
    measured: RepeatMeasurements

    async def steps(self) -> End:
        """Measure the planned steps in order, until one is cut short."""
        end = End.DONE
        for plan in self.repeat.steps:
            finished = await self._step(replace(plan, seed=self.repeat.seed))
            end = End.INTERRUPTED if finished is None else finished.end
            if end in CUTS_SHORT:
                break
        return end

    async def search(self) -> End:
        """Measure the steps that the search chooses, until it has its peak or its time is over."""
        repeat = self.repeat
        if repeat.kind.search is None:
            raise TypeError(f"{repeat.scenario.name} is no search, but {repeat.scenario.kind}")
        goal = goal_from_row(repeat.kind.search(repeat.scenario.profile))
        found = SearchState()
        stopped: StopReason = "EndedEarly"
        until = time.monotonic() + repeat.validity.max_duration_seconds
        try:
            while True:
                ask = next_step(goal, found)
                if isinstance(ask, str):
                    stopped = ask
                    return End.DONE
                if time.monotonic() >= until:
                    stopped = "OutOfTime"
                    return End.DONE
                number = len(found.probes) + 1
                plan = plan_search_step(goal, ask, number, repeat.validity, repeat.seed)
                finished = await self._step(plan)
                if finished is None:
                    return End.INTERRUPTED
                if finished.measurement is None or finished.end in CUTS_SHORT:
                    return finished.end
                found = update_state(goal, found, ask, finished.measurement.step, finished.over)
        finally:
            self.measured.peak = peak_result(goal, found, stopped)

    async def _step(self, plan: StepPlan) -> StepOutcome | None:
        """Measure a step; return None if the run is interrupted before."""
        if self.context.is_interrupted():  # after the last answer of the step before
            return None
        repeat, context = self.repeat, self.context
        context.progress.preparing(repeat.scenario.name, plan.label, repeat.index, repeat.repeat)
        finished = await context.executors[repeat.kind.executor].run(repeat.scenario.name, plan)
        if finished.measurement is not None:
            self.measured.measurements.append(finished.measurement)
        return finished
