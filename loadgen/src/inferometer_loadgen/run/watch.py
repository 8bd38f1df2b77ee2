"""What must happen within a step as soon as what is counted says so: window opened, probe ended?"""

import asyncio

from inferometer_loadgen.drive import Driving
from inferometer_loadgen.record.steadiness import is_steady
from inferometer_loadgen.schedule.steps import End, StepPlan
from inferometer_loadgen.search.goal import Seen, decision

POLL_SECONDS = 0.05
_NEVER = 1 << 62


class StepWatch:
    """Looks at what is counted every 50 ms, where the plan of a step asks for that."""

    def __init__(self, driving: Driving, plan: StepPlan) -> None:
        self._driving = driving
        self._plan = plan
        self._task: asyncio.Task[None] | None = None
        self.warmed_up = True
        """Whether a warm-up that goes on until it is steady became so."""

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
                if is_steady(seconds, open_loop=driving.open_loop):
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
        recorder = driving.recorder
        while True:
            await asyncio.sleep(POLL_SECONDS)
            recorder.flush()
            overdue = driving.overdue(judged.bound_ns)
            seen = Seen(
                recorder.answered + recorder.failed + overdue,
                recorder.tallied.overshoots + overdue,
                recorder.failed,
            )
            if decision(judged.percentile, self._plan.min_queries, seen) is not None:
                driving.end(End.DECIDED)
                return
