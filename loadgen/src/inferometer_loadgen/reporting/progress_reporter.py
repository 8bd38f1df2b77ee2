"""Progress reports, about twice a second."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from typing_extensions import override

from inferometer_api.plan.reports import ProgressReport
from inferometer_loadgen.drive import DrivenStep, LoadDriver, StepObserver
from inferometer_loadgen.reporting.report_writer import ReaderGoneError, ReportSink
from inferometer_loadgen.schedule.steps import SECOND_NS

EVERY_SECONDS = 0.5
_USUAL_PERCENTILE = 99.0
_UndrivenStage = Literal[
    "WaitingForWorkers",
    "WaitingForServer",
    "WaitingForRestart",
    "Preparing",
    "Idle",
    "Measuring",
]


@dataclass(frozen=True, slots=True)
class _SampleProgress:
    """How many samples of a data set are processed or failed, and how many are sent in all."""

    count: int
    done: int = 0
    failed: int = 0


class ProgressReporter(StepObserver):
    """Reports the progress of the work; calls `on_gone` once the reader is gone."""

    def __init__(
        self,
        reports: ReportSink,
        scenario_count: int,
        on_gone: Callable[[], None],
        repeat_count: int = 1,
    ) -> None:
        self._reports = reports
        self._scenario_count = scenario_count
        self._repeat, self._repeat_count = 1, repeat_count
        self._on_gone = on_gone
        self._loop = asyncio.get_running_loop()
        self._stage: _UndrivenStage = "WaitingForServer"
        self._server_pods: list[str] = []
        self._idle_seconds = 0.0
        self._scenario, self._step, self._index = "", "", 0
        self._fraction = 0.0
        self._detail = ""
        self._began = self._loop.time()
        self._driver: LoadDriver | None = None
        self._samples: _SampleProgress | None = None
        self._timer: asyncio.Handle = self._loop.call_soon(self._report)

    def gathering(self, fraction: float, detail: str) -> None:
        """Report the share of a fleet's workers that are connected, and which are missing."""
        self._stage = "WaitingForWorkers"
        self._fraction = fraction
        self._detail = detail

    def waiting(self, fraction: float, detail: str) -> None:
        """Report the spent share of the readiness deadline, and why the server is not ready."""
        self._stage = "WaitingForServer"
        self._fraction = fraction
        self._detail = detail

    def restarting(self, repeat: int) -> None:
        """Report that the servers of a further repeat are awaited."""
        self._repeat = repeat
        self._stage = "WaitingForRestart"
        self._detail = ""
        self._scenario, self._step, self._index = "", "", 0
        self._fraction = 0.0
        self._began = self._loop.time()
        self._driver = self._samples = None

    def aim_at(self, server_pods: list[str]) -> None:
        """Report these servers' pods from now on."""
        self._server_pods = server_pods
        self._stage = "WaitingForServer"

    def preparing(self, scenario: str, step: str, index: int, repeat: int = 1) -> None:
        """Report that a step is being prepared."""
        self._repeat = repeat
        self._stage = "Preparing"
        self._detail = ""
        self._scenario, self._step, self._index = scenario, step, index
        self._fraction = 0.0
        self._began = self._loop.time()
        self._driver = self._samples = None

    def report_preparation(self, fraction: float) -> None:
        """Report the progress of the preparation."""
        self._fraction = fraction

    def sending(self, sample_count: int) -> None:
        """Report that so many samples of a data set are sent from now on, without a driver."""
        self._stage = "Measuring"
        self._samples = _SampleProgress(sample_count)
        self._fraction = 0.0
        self._began = self._loop.time()

    def report_samples(self, done: int, failed: int) -> None:
        """Report how many of these samples are done, and how many of the done ones failed."""
        if self._samples is not None:
            self._samples = _SampleProgress(self._samples.count, done, failed)
            self._fraction = done / self._samples.count

    def idle(self, seconds: float) -> None:
        """Report that no load is sent for this long."""
        self._stage = "Idle"
        self._idle_seconds = seconds
        self._began = self._loop.time()

    @override
    def begin(self, step: DrivenStep) -> None:
        """Report the progress of the step's driver from now on."""
        self._driver = step.driver

    def close(self) -> None:
        """Stop reporting."""
        self._timer.cancel()

    def _report(self) -> None:
        try:
            self._reports.progress(self.now())
        except ReaderGoneError:
            self._on_gone()
            return
        self._timer = self._loop.call_later(EVERY_SECONDS, self._report)

    def now(self) -> ProgressReport:
        """Return the current progress."""
        return (
            self._undriven_progress()
            if self._driver is None
            else self._driving_progress(self._driver)
        )

    def _undriven_progress(self) -> ProgressReport:
        samples = self._samples
        elapsed = self._loop.time() - self._began
        fraction = elapsed / self._idle_seconds if self._stage == "Idle" else self._fraction
        return ProgressReport(
            stage=self._stage,
            scenario=self._scenario,
            step=self._step,
            scenario_index=self._index,
            scenario_count=self._scenario_count,
            repeat=self._repeat,
            repeat_count=self._repeat_count,
            server_pods=self._server_pods,
            fraction=_bounded(fraction),
            elapsed_seconds=elapsed,
            detail=self._detail,
            queries=0 if samples is None else samples.done,
            failed=0 if samples is None else samples.failed,
            sample_count=None if samples is None else samples.count,
        )

    def _driving_progress(self, driver: LoadDriver) -> ProgressReport:
        now, recorder = driver.progress(), driver.recorder
        stage: Literal["WarmUp", "Measuring", "Draining"] = (
            "Draining" if now.draining else "Measuring" if now.measuring else "WarmUp"
        )
        last = recorder.last_second
        return ProgressReport(
            stage=stage,
            scenario=self._scenario,
            step=self._step,
            scenario_index=self._index,
            scenario_count=self._scenario_count,
            repeat=self._repeat,
            repeat_count=self._repeat_count,
            server_pods=self._server_pods,
            fraction=_bounded(now.fraction),
            elapsed_seconds=now.elapsed_ns / SECOND_NS,
            queries=recorder.answered + recorder.failed,
            failed=recorder.failed,
            qps=None if last is None else last.latencies.total / last.seconds,
            p99_nanoseconds=(
                None if last is None else last.latencies.at_percentile(_USUAL_PERCENTILE)
            ),
        )


def _bounded(fraction: float) -> float:
    return min(1.0, max(0.0, fraction))
