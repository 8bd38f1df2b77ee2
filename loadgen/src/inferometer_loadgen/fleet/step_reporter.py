"""Reports of a measuring process while a step runs."""

import asyncio
import time
from collections.abc import Callable
from types import TracebackType
from typing import Literal, Self

from typing_extensions import override

from inferometer_loadgen.drive import NEVER, LoadDriver, StepObserver
from inferometer_loadgen.fleet.deltas import DeltaReader
from inferometer_loadgen.fleet.messages import WorkerMessage, WorkerProgress
from inferometer_loadgen.schedule.steps import End, StepPlan

EVERY_SECONDS = 1.0
OFTEN_SECONDS = 0.1
"""For a probe, which ends as soon as it is decided."""

Stage = Literal["warm-up", "window", "measuring", "window-over", "ended"]


class StepReporter(StepObserver):
    """Reports the progress of a step while its context is entered.

    It reports every second, and when a stage begins or ends. Each report has all that was counted
    since the one before.
    """

    def __init__(
        self, driving: LoadDriver, send: Callable[[WorkerMessage], None], plan: StepPlan
    ) -> None:
        self._driving = driving
        self._send = send
        self._deltas = DeltaReader(driving.recorder)
        self._seconds = OFTEN_SECONDS if plan.is_probe else EVERY_SECONDS
        self._bound_ns = None if plan.judged is None else plan.judged.bound_ns
        self._timer: asyncio.TimerHandle | None = None
        self._client = driving.client
        self._begun_ns = 0
        self.end_reason: End | None = None
        """Why the step ended; set before the context is left."""
        driving.observer = self

    def __enter__(self) -> Self:
        """Start the timer; all workers of a machine wake at this moment, so nothing is sent now."""
        self._begun_ns = time.monotonic_ns()
        self._start_timer()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Report the end."""
        if self._timer is not None:
            self._timer.cancel()
        if kind is None:
            self._report("ended")

    @override
    def begin_window(self) -> None:
        self._client.begin()
        # The driver calls this before it counts the first query of the window, and sets its begin
        # in the same turn of the loop.
        asyncio.get_running_loop().call_soon(self._report, "window")

    @override
    def second(self) -> None:
        self._tick()

    @override
    def end_window(self) -> None:
        self._report("window-over")

    def _start_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(self._seconds, self._tick)

    def _tick(self) -> None:
        """Report at once, and start the timer of the next report."""
        self._start_timer()
        self._client.second()
        measures = self._driving.window_ns <= time.monotonic_ns()
        self._report("measuring" if measures else "warm-up")

    def _report(self, stage: Stage) -> None:
        driving = self._driving
        progress = driving.progress()
        window_ns = driving.window_ns
        self._send(
            WorkerProgress(
                stage=stage,
                gained=self._deltas.take(),
                begin_ns=self._begun_ns,
                window_ns=None if window_ns == NEVER else window_ns,
                duration_ns=driving.duration_ns,
                silences=list(driving.silences),
                last_reply_ns=driving.last_reply_ns,
                outstanding=driving.outstanding,
                overdue=0 if self._bound_ns is None else driving.overdue(self._bound_ns),
                reconnects=driving.reconnects,
                fraction=progress.fraction,
                draining=progress.draining,
                cpu_seconds=self._client.cpu_seconds(),
                memory_bytes=self._client.memory_bytes(),
                client=self._client.facts() if stage == "ended" else None,
                end=self.end_reason,
                last_error=driving.last_error,
            )
        )
