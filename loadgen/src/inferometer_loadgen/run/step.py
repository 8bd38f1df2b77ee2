"""How is one step measured, from its requests to its figures?"""

import gc
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from inferometer_api.timestamps import format_time
from inferometer_loadgen.drive import LoadDriver
from inferometer_loadgen.drive.prepare import DriverFactory
from inferometer_loadgen.record.silences import longest_ns
from inferometer_loadgen.reporting.live_metrics import DrivenStep, LiveMetrics
from inferometer_loadgen.reporting.progress_reporter import ProgressReporter
from inferometer_loadgen.run.resource_usage import ResourceUsage
from inferometer_loadgen.run.step_controller import StepController
from inferometer_loadgen.run.step_result import Metered, Span, Used, summarize, unanswered
from inferometer_loadgen.run.step_telemetry import RunTelemetry, StepTelemetry
from inferometer_loadgen.schedule.steps import End, StepPlan, target_qps
from inferometer_loadgen.search.goal import Over
from inferometer_loadgen.verdict.measurement import Measurement


@dataclass(frozen=True, slots=True)
class Bench:
    """What every step of a run has in common."""

    crew: DriverFactory
    server_process_ids: list[int]
    meter: RunTelemetry
    board: ProgressReporter
    live: LiveMetrics
    on_driver: Callable[[LoadDriver | None], None]
    """Told which driver can be ended from outside, and None when there is none."""


@dataclass(frozen=True, slots=True)
class Finished:
    """What came of a step."""

    end: End
    over: Over
    measurement: Measurement | None = None
    """Its figures; None where its window never began."""


async def run_step(bench: Bench, scenario: str, plan: StepPlan) -> Finished:
    """Measure one step.

    Raises what `DriverFactory.prepare` raises.
    """
    driving = await bench.crew.prepare(scenario, plan)
    meter = bench.meter.step(is_probe=plan.is_probe)
    watch = _Watch(driving, ResourceUsage(bench.server_process_ids, driving.client), meter)
    try:
        await meter.idle(bench.board)
        await driving.connect()
        bench.live.begin(
            DrivenStep(scenario, plan.label, plan.batch_size, target_qps(plan), driving)
        )
        looking = StepController(driving, plan)
        end, over, used = await _drive(bench, driving, watch, looking)
    finally:
        bench.live.end()
        await driving.close()
    if not watch.started_at:
        return Finished(end, over)
    span = _span(driving, watch.started_at)
    tallied = driving.recorder.tallied
    step = summarize(
        plan,
        tallied,
        span,
        used,
        Metered(meter.terms, meter.found(driving.window_ns), watch.answered),
        end=end,
        reconnects=driving.reconnects,
        open_loop=driving.open_loop,
        connections=driving.connection_count,
        workers=driving.workers,
    )
    left = unanswered(tallied)
    measurement = Measurement(plan, step, end, left, warmed_up=looking.warmed_up)
    return Finished(end, over, measurement)


def _span(driving: LoadDriver, started_at: str) -> Span:
    return Span(
        started_at=started_at,
        warm_up_ns=driving.window_ns - driving.begin_ns,
        duration_ns=driving.duration_ns,
        drain_ns=max(0, driving.last_reply_ns - driving.window_ns - driving.duration_ns),
        longest_silence_ns=None if driving.open_loop else longest_ns(driving.silences),
    )


class _Watch:
    """Reads meter and usage as the window goes on."""

    def __init__(self, driving: LoadDriver, usage: ResourceUsage, meter: StepTelemetry) -> None:
        self.started_at = ""
        """When the window began; empty where it did not."""
        self.answered = 0
        """Queries answered between the window's edges."""
        self._recorder = driving.recorder
        self._usage = usage
        self._meter = meter
        self._server_cpu_seconds: float | None = None
        driving.on_window, driving.on_second = self._begin, self._second
        driving.on_window_over = self._over

    def _begin(self) -> None:
        self._meter.begin()
        self.answered = -self._recorder.answered_at_all
        self.started_at = format_time(datetime.now(UTC))
        self._usage.begin()

    def _second(self) -> None:
        self._meter.second()
        self._usage.sample()

    def _over(self) -> None:
        self._meter.over()
        self.answered += self._recorder.answered_at_all
        self._server_cpu_seconds = self._usage.server_cpu_seconds()

    async def used(self) -> Used:
        """Return what was used, once the agents have answered."""
        usage = self._usage
        used = Used(
            usage.samples,
            self._server_cpu_seconds,
            usage.client_cpu_seconds(),
            usage.client_facts(),
        )
        await self._meter.settled()
        return used


async def _drive(
    bench: Bench, driving: LoadDriver, watch: _Watch, looking: StepController
) -> tuple[End, Over, Used]:
    bench.board.driving(driving)
    bench.on_driver(driving)
    # A collection takes tens of milliseconds: once now, over everything, never within the window.
    gc.collect()
    gc.freeze()
    looking.start()
    try:
        end = await driving.run()
        over = looking.over()
        # Whoever ends the run now ends what is over: the step is kept.
        return end, over, await watch.used()
    finally:
        looking.stop()
        gc.unfreeze()
        bench.on_driver(None)
