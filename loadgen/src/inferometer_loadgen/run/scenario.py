"""In which order are the steps of one scenario measured, and what is found of it?"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from inferometer_api.results.result import ScenarioResult
from inferometer_api.results.search import Peak
from inferometer_api.scenarios.scenario_kind import ScenarioKind
from inferometer_api.scenarios.table import SCENARIOS
from inferometer_api.spec.scenario import FindPeak, Scenario, Validity
from inferometer_loadgen.fleet.round import WorkerLostError
from inferometer_loadgen.run.step import Bench, Finished, run_step
from inferometer_loadgen.schedule.steps import End, StepPlan
from inferometer_loadgen.search.knee import knee_of
from inferometer_loadgen.search.peak import Found, Stopped, next_ask, peak_of
from inferometer_loadgen.search.steps import goal_asked, learned, step_of
from inferometer_loadgen.verdict.judge import judge
from inferometer_loadgen.verdict.measurement import Measurement, ScenarioConditions
from inferometer_loadgen.wire import ConnectionFailedError

CUTS_SHORT = frozenset({End.SERVER_LOST, End.WORKER_LOST, End.INTERRUPTED})
_CUT_SHORT_BY: Mapping[type[BaseException], End] = {
    asyncio.CancelledError: End.INTERRUPTED,
    ConnectionFailedError: End.SERVER_LOST,
    WorkerLostError: End.WORKER_LOST,
}
"""What ended a scenario that raised one of these; any other is the run's failure."""
_SEEDS = 2**32


@dataclass(frozen=True, slots=True)
class ScenarioRepeat:
    """One repeat of one scenario."""

    scenario: Scenario
    index: int
    """Of the scenario, from 0."""
    steps: Sequence[StepPlan]
    """With the seed of the first repeat; none of a search, whose steps are made as it goes on."""
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
    """What was measured of a turn, whatever ended it."""

    measurements: list[Measurement] = field(default_factory=list)
    peak: Peak | None = None
    cut_short: End | None = None
    """What ended it before its own limits did."""

    def result(self, turn: ScenarioRepeat, conditions: ScenarioConditions) -> ScenarioResult:
        """Return it judged."""
        steps = [measurement.step for measurement in self.measurements]
        conditions = replace(conditions, cut_short=self.cut_short, peak=self.peak)
        return ScenarioResult(
            name=turn.scenario.name,
            kind=turn.scenario.kind,
            repeat=turn.repeat,
            seed=turn.seed,
            steps=steps,
            verdict=judge(self.measurements, conditions),
            peak=self.peak,
            knee=knee_of(steps) if turn.kind.headline == "knee" else None,
        )


async def measure_repeat(
    bench: Bench,
    turn: ScenarioRepeat,
    gathered: RepeatMeasurements,
    is_interrupted: Callable[[], bool],
) -> End:
    """Measure one repeat of a scenario into `gathered`; return why it ended.

    Raises what `run_step` raises, and CancelledError where it is interrupted between steps.
    """
    work = _Work(bench, turn, gathered, is_interrupted)
    try:
        end = await (work.search() if turn.kind.steps == "search" else work.steps())
    except BaseException as error:
        ends = (end for kind, end in _CUT_SHORT_BY.items() if isinstance(error, kind))
        gathered.cut_short = next(ends, End.FAILED)
        raise
    gathered.cut_short = end if end in CUTS_SHORT else None
    return end


@dataclass(frozen=True, slots=True)
class _Work:
    bench: Bench
    turn: ScenarioRepeat
    gathered: RepeatMeasurements
    is_interrupted: Callable[[], bool]

    async def steps(self) -> End:
        """Measure one step after the other, until one is cut short."""
        end = End.DONE
        for plan in self.turn.steps:
            finished = await self._step(replace(plan, seed=self.turn.seed))
            end = End.INTERRUPTED if finished is None else finished.end
            if end in CUTS_SHORT:
                break
        return end

    async def search(self) -> End:
        """Measure what the search asks for, until it has found its peak or its time is over."""
        turn = self.turn
        if not isinstance(turn.scenario.profile, FindPeak):
            raise TypeError(f"{turn.scenario.name} is no search, but {turn.scenario.kind}")
        goal = goal_asked(turn.scenario.profile)
        found = Found()
        stopped: Stopped = "EndedEarly"
        until = time.monotonic() + turn.validity.max_duration_seconds
        try:
            while True:
                ask = next_ask(goal, found)
                if isinstance(ask, str):
                    stopped = ask
                    return End.DONE
                if time.monotonic() >= until:
                    stopped = "OutOfTime"
                    return End.DONE
                number = len(found.probes) + 1
                plan = step_of(goal, ask, number, turn.validity, turn.seed)
                finished = await self._step(plan)
                if finished is None:
                    return End.INTERRUPTED
                if finished.measurement is None or finished.end in CUTS_SHORT:
                    return finished.end
                found = learned(goal, found, ask, finished.measurement.step, finished.over)
        finally:
            self.gathered.peak = peak_of(goal, found, stopped)

    async def _step(self, plan: StepPlan) -> Finished | None:
        """Measure a step; None where the run is interrupted before."""
        if self.is_interrupted():  # after the last answer of the step before
            return None
        scenario = self.turn.scenario.name
        self.bench.board.preparing(scenario, plan.label, self.turn.index, self.turn.repeat)
        finished = await run_step(self.bench, scenario, plan)
        if finished.measurement is not None:
            self.gathered.measurements.append(finished.measurement)
        return finished
