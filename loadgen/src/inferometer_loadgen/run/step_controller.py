"""Controller of one step: opens its window and ends a probe by what is counted."""

import asyncio

from typing_extensions import override

from inferometer_api.scenarios.step_setting import Closed
from inferometer_loadgen.drive import NEVER, DrivenStep, LoadDriver, StepObserver
from inferometer_loadgen.record.steadiness import is_steady
from inferometer_loadgen.schedule.steps import End, StepPlan
from inferometer_loadgen.search.goal import Decision, ObservedCounts, StepObservation, decide
from inferometer_loadgen.wire import FailureKind

POLL_SECONDS = 0.05


class StepController(StepObserver):
    """Checks the counts of a step every 50 ms, if its plan requires that.

    It opens the window once a warm-up is steady, and ends a probe once it is decided.
    """

    def __init__(self, driver: LoadDriver, plan: StepPlan) -> None:
        self._driver = driver
        self._plan = plan
        self._task: asyncio.Task[None] | None = None
        self.warmed_up = True
        """False if the warm-up reached its maximum before it was steady."""
        self.decided_by: Decision | None = None
        """How a probe was decided before its limits ended it."""

    @override
    def begin(self, step: DrivenStep) -> None:
        if self._plan.until_steady or (self._plan.is_probe and not self._plan.runs_to_completion):
            self._task = asyncio.create_task(self._check())

    @override
    def end(self) -> None:
        """Stop checking; raises what went wrong meanwhile."""
        if self._task is None:
            return
        if self._task.done():
            self._task.result()
        self._task.cancel()

    async def _check(self) -> None:
        if self._plan.until_steady:
            await self._await_steady()
        if self._plan.is_probe and not self._plan.runs_to_completion:
            await self._await_decision()

    async def _await_steady(self) -> None:
        driver, plan = self._driver, self._plan
        while driver.window_ns >= NEVER:
            elapsed_ns = driver.progress().elapsed_ns
            if elapsed_ns >= plan.warm_up_ns:
                seconds = list(driver.recorder.warm_up_windows)
                if is_steady(seconds, open_loop=driver.open_loop, clients=_clients(plan)):
                    driver.open_window()
                    return
                if elapsed_ns >= plan.max_duration_ns:
                    self.warmed_up = False
                    driver.open_window()
                    return
            await asyncio.sleep(POLL_SECONDS)

    async def _await_decision(self) -> None:
        driver, judged = self._driver, self._plan.judged
        if judged is None or judged.bound_ns is None:
            raise ValueError(f"the probe {self._plan.label!r} has no bound to be decided by")
        while self.decided_by is None:
            await asyncio.sleep(POLL_SECONDS)
            driver.recorder.flush()
            seen = seen_of(driver, driver.overdue(judged.bound_ns))
            self.decided_by = decide(judged.percentile, self._plan.min_queries, seen)
        driver.end(End.DECIDED)

    def over(self) -> StepObservation:
        """Return the final counts of the step; call it once, as soon as the step is over.

        Queries that a decided probe left unanswered beyond their bound count as overshoots.
        """
        driver, judged = self._driver, self._plan.judged
        overdue = 0
        if self.decided_by is not None and judged is not None and judged.bound_ns is not None:
            overdue = driver.overdue(judged.bound_ns)
        seen = seen_of(driver, overdue)
        driver.recorder.statistics.overshoots += overdue
        return StepObservation(seen, self.decided_by)


def seen_of(driver: LoadDriver, overdue: int) -> ObservedCounts:
    """Return the counts of a step; `overdue` queries are late and not answered yet."""
    recorder = driver.recorder
    return ObservedCounts(
        recorder.answered + recorder.failed + overdue,
        recorder.statistics.overshoots + overdue,
        recorder.failed,
        recorder.statistics.errors[FailureKind.TIMEOUT],
    )


def _clients(plan: StepPlan) -> int:
    """Return the number of clients; 0 if it is as many as the connections allow."""
    return (plan.loop.clients or 0) if isinstance(plan.loop, Closed) else 0
