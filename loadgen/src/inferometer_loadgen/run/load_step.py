"""Measurement of one step under load."""

import gc
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from typing_extensions import override

from inferometer_api.results.tracing import StepTracing
from inferometer_api.timestamps import format_time
from inferometer_loadgen.drive import NEVER, DrivenStep, LoadDriver, StepObserver
from inferometer_loadgen.drive.prepare import DriverFactory
from inferometer_loadgen.record.recorder import Recorder
from inferometer_loadgen.record.silences import longest_ns
from inferometer_loadgen.reporting.progress_reporter import ProgressReporter
from inferometer_loadgen.run.executor import Interruption
from inferometer_loadgen.run.other_load import OtherLoadScope, OtherLoadWatch, other_loads
from inferometer_loadgen.run.resource_usage import ResourceUsage
from inferometer_loadgen.run.server_sampling import ServerSampling
from inferometer_loadgen.run.step_controller import StepController
from inferometer_loadgen.run.step_result import MeasuredTimes, Metered, summarize, unanswered
from inferometer_loadgen.run.step_telemetry import RunTelemetry
from inferometer_loadgen.run.step_tracing import RunTracing
from inferometer_loadgen.schedule.steps import End, StepPlan
from inferometer_loadgen.search.goal import StepObservation
from inferometer_loadgen.verdict.measurement import Measurement


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """How a step ended, and its figures."""

    end: End
    over: StepObservation
    measurement: Measurement | None = None
    """None if its window never began."""
    last_error: str = ""
    """Why a lost server could not be reached again, as a sentence; empty if none was lost."""


@dataclass(frozen=True, slots=True)
class LoadStepRunner:
    """Drives the steps of one run, and composes their figures."""

    drivers: DriverFactory
    server_process_ids: Sequence[int]
    telemetry: RunTelemetry
    sampling: ServerSampling
    progress: ProgressReporter
    observers: Sequence[StepObserver]
    """Observers of every step, besides those that it makes for each."""
    other_load: OtherLoadScope
    tracing: RunTracing | None = None

    async def run(self, scenario: str, plan: StepPlan) -> StepOutcome:
        """Measure one step. Raises what `DriverFactory.prepare` raises."""
        driver = await self.drivers.prepare(scenario, plan)
        controller = StepController(driver, plan)
        telemetry = self.telemetry.step(is_probe=plan.is_probe)
        server = self.sampling.step()
        window = _WindowRecord(driver.recorder)
        usage = ResourceUsage(self.server_process_ids, driver.client)
        others = OtherLoadWatch(self.other_load)
        observers = _Observers(
            [
                *self.observers,
                _GarbageFreeze(),
                controller,
                telemetry,
                server,
                window,
                usage,
                others,
            ]
        )
        driver.observer = observers
        try:
            await telemetry.measure_idle(self.progress.idle)
            await driver.connect()
            if self.tracing is not None:
                self.tracing.begin()
            with observers.watching(DrivenStep(scenario, plan, driver)):
                end = await driver.run()
                over = controller.over()
                used, other_load = usage.totals(), others.total()
                # An interrupt from here on ends a step that is over: its figures are kept.
                await telemetry.wait_until_settled()
                spent = await server.time()
            traced = await self._collect_trace(driver, plan)
        finally:
            await driver.close()
        if not window.started_at:
            return StepOutcome(end, over, last_error=driver.last_error)
        tallied = driver.recorder.statistics
        step = summarize(
            plan,
            tallied,
            _span(driver, window.started_at),
            used,
            Metered(telemetry.terms, telemetry.windows(driver.window_ns), window.answered, spent),
            end=end,
            reconnects=driver.reconnects,
            open_loop=driver.open_loop,
            connections=driver.connection_count,
            workers=driver.workers,
        )
        loads = other_loads(other_load, step.telemetry, step.duration_nanoseconds)
        step = step.model_copy(update={"other_load": loads, "tracing": traced})
        left = unanswered(tallied)
        measurement = Measurement(plan, step, end, left, warmed_up=controller.warmed_up)
        return StepOutcome(end, over, measurement, driver.last_error)

    async def _collect_trace(self, driver: LoadDriver, plan: StepPlan) -> StepTracing | None:
        """Return the traced queries of a step whose window began; None without tracing."""
        if self.tracing is None or driver.window_ns == NEVER:
            return None
        return await self.tracing.step(driver, is_probe=plan.is_probe)


def _span(driver: LoadDriver, started_at: str) -> MeasuredTimes:
    return MeasuredTimes(
        started_at=started_at,
        warm_up_ns=driver.window_ns - driver.begin_ns,
        duration_ns=driver.duration_ns,
        drain_ns=max(0, driver.last_reply_ns - driver.window_ns - driver.duration_ns),
        longest_silence_ns=None if driver.open_loop else longest_ns(driver.silences),
    )


class _Observers(StepObserver):
    """Notifies several observers, in their order."""

    def __init__(self, observers: Sequence[StepObserver]) -> None:
        self._observers = observers

    @contextmanager
    def watching(self, step: DrivenStep) -> Iterator[None]:
        """Begin all observers, and end them in reverse order whatever happens."""
        with ExitStack() as stack:
            for observer in self._observers:
                stack.callback(observer.end)
                observer.begin(step)
            yield

    @override
    def begin_window(self) -> None:
        for observer in self._observers:
            observer.begin_window()

    @override
    def second(self) -> None:
        for observer in self._observers:
            observer.second()

    @override
    def end_window(self) -> None:
        for observer in self._observers:
            observer.end_window()


class EndOnInterruption(StepObserver):
    """Ends the step that is driven once an interruption is requested."""

    def __init__(self, interruption: Interruption) -> None:
        self._interruption = interruption

    @override
    def begin(self, step: DrivenStep) -> None:
        self._interruption.end_step = partial(step.driver.end, End.INTERRUPTED)
        if self._interruption.requested:
            step.driver.end(End.INTERRUPTED)

    @override
    def end(self) -> None:
        self._interruption.end_step = None


class _GarbageFreeze(StepObserver):
    """Collects garbage once before the load, so that no collection falls into the window.

    A collection over everything takes tens of milliseconds.
    """

    @override
    def begin(self, step: DrivenStep) -> None:
        gc.collect()
        gc.freeze()

    @override
    def end(self) -> None:
        gc.unfreeze()


class _WindowRecord(StepObserver):
    """Records when the window began and how many queries were answered within it."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.started_at = ""
        """Empty until the window begins."""
        self.answered = 0
        """Queries answered between the window's edges, whenever they were due."""

    @override
    def begin_window(self) -> None:
        self.answered = -self._recorder.answered_at_all
        self.started_at = format_time(datetime.now(UTC))

    @override
    def end_window(self) -> None:
        self.answered += self._recorder.answered_at_all
