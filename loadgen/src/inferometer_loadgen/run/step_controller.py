"""What must happen within a step as soon as what is counted says so: window opened, probe ended?"""

import asyncio

from inferometer_api.scenarios.step_setting import Closed
from inferometer_loadgen.drive import LoadDriver
from inferometer_loadgen.record.steadiness import is_steady
from inferometer_loadgen.schedule.steps import End, StepPlan
from inferometer_loadgen.search.goal import Decision, Over, Seen, decision
from inferometer_loadgen.wire import FailureKind

POLL_SECONDS = 0.05
_NEVER = 1 << 62


class StepController:
    """Looks at what is counted every 50 ms, where the plan of a step asks for that."""

    def __init__(self, driving: LoadDriver, plan: StepPlan) -> None:
        self._driving = driving
        self._plan = plan
        self._task: asyncio.Task[None] | None = None
        self.warmed_up = True
        """Whether a warm-up that goes on until it is steady became so."""
        self.decided_by: Decision | None = None
        """How a probe was decided while it went on."""

    def start(self) -> None:
        """Look from now on."""
        if self._plan.until_steady or (self._plan.is_probe and not self._plan.is_whole):
            self._task = asyncio.create_task(self._look())

    def stop(self) -> None:
        """Look no more; what went wrong while looking is raised."""
        if self._task is None:
            return
        if self._task.done():
            self._task.result()
        self._task.cancel()

    async def _look(self) -> None:
        if self._plan.until_steady:
            await self._await_steady()
        if self._plan.is_probe and not self._plan.is_whole:
            await self._await_decision()

    async def _await_steady(self) -> None:
        driving, plan = self._driving, self._plan
        while driving.window_ns >= _NEVER:
            elapsed_ns = driving.progress().elapsed_ns
            if elapsed_ns >= plan.warm_up_ns:
                seconds = list(driving.recorder.warm_up_windows)
                if is_steady(seconds, open_loop=driving.open_loop, clients=_clients(plan)):
                    driving.open_window()
                    return
                if elapsed_ns >= plan.max_duration_ns:
                    self.warmed_up = False
                    driving.open_window()
                    return
            await asyncio.sleep(POLL_SECONDS)

    async def _await_decision(self) -> None:
        driving, judged = self._driving, self._plan.judged
        if judged is None or judged.bound_ns is None:
            raise ValueError(f"the probe {self._plan.label!r} has no bound to be decided by")
        while self.decided_by is None:
            await asyncio.sleep(POLL_SECONDS)
            driving.recorder.flush()
            seen = seen_of(driving, driving.overdue(judged.bound_ns))
            self.decided_by = decision(judged.percentile, self._plan.min_queries, seen)
        driving.end(End.DECIDED)

    def over(self) -> Over:
        """Return what is known of the step now that it is over; called once, as soon as it is.

        What a probe that was decided left unanswered beyond its bound is counted as overshoots.
        """
        driving, judged = self._driving, self._plan.judged
        overdue = 0
        if self.decided_by is not None and judged is not None and judged.bound_ns is not None:
            overdue = driving.overdue(judged.bound_ns)
        seen = seen_of(driving, overdue)
        driving.recorder.tallied.overshoots += overdue
        return Over(seen, self.decided_by)


def seen_of(driving: LoadDriver, overdue: int) -> Seen:
    """Return what is counted of a step, with so many queries that are late and not answered."""
    recorder = driving.recorder
    return Seen(
        recorder.answered + recorder.failed + overdue,
        recorder.tallied.overshoots + overdue,
        recorder.failed,
        recorder.tallied.errors[FailureKind.TIMEOUT],
    )


def _clients(plan: StepPlan) -> int:
    """Return how many clients there are; 0 where that is as many as the connections hold."""
    return (plan.loop.clients or 0) if isinstance(plan.loop, Closed) else 0
