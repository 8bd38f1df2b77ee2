"""Execution of one plan: heeds signals and always ends with a final report."""

import asyncio
import signal
import traceback
from datetime import UTC, datetime
from importlib.metadata import version
from typing import assert_never
from uuid import uuid4

from inferometer_api.plan.load_plan import LoadPlan, ServerTargets
from inferometer_api.plan.reports import FinalReport
from inferometer_api.plan.result_composer import ResultComposer
from inferometer_api.results.result import Outcome
from inferometer_api.timestamps import format_time
from inferometer_loadgen.reporting.live_metrics import LiveMetrics
from inferometer_loadgen.reporting.report_writer import LastingReport, ReaderGoneError, ReportSink
from inferometer_loadgen.run.executor import Executors
from inferometer_loadgen.run.executor_table import EXECUTORS
from inferometer_loadgen.run.session import MeasurementSession

INTERRUPTED = Outcome(state="Interrupted", reason="Interrupted")
TERMINATED = Outcome(state="Terminated", reason="Terminated")


class PlanExecution:
    """Executes one plan. A signal or `stop` ends it early and keeps what was measured."""

    def __init__(
        self, plan: LoadPlan, reports: ReportSink, executors: Executors = EXECUTORS
    ) -> None:
        self.live = LiveMetrics(plan)
        """Its metrics while it works."""
        self._composer = ResultComposer(
            plan.run,
            run_id=plan.run_id or str(uuid4()),
            started_at=plan.started_at or _now(),
            inferometer_version=version("inferometer"),
        )
        self._session = MeasurementSession(
            plan, _Tee(self._composer, reports), self.live, executors
        )
        self._stopped: Outcome | None = None

    def stop(self, outcome: Outcome) -> None:
        """End it now with this outcome; only the first call counts."""
        if self._stopped is None:
            self._stopped = outcome
        self._session.interrupt()

    def deliver_targets(self, targets: ServerTargets) -> str:
        """Take the servers of the repeat that is awaited; return why they are not taken."""
        return self._session.handover.deliver(targets)

    async def run(self) -> FinalReport:
        """Execute the plan and return the last report. Raises ReaderGoneError and no other."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self.stop, INTERRUPTED)
        loop.add_signal_handler(signal.SIGTERM, self.stop, TERMINATED)
        try:
            outcome = None if self._stopped else await self._session.run()
        except ReaderGoneError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever happened, the last report must say so
            traceback.print_exc()
            message = f"Internal error of the load generator: {error!r}."
            return self.final_report(
                Outcome(state="Failed", reason="InternalError", message=message)
            )
        outcome = self._stopped or outcome
        if outcome is None:
            raise ReaderGoneError("the reader of the reports is gone")
        return self.final_report(outcome)

    def final_report(self, outcome: Outcome) -> FinalReport:
        """Return the last report, with the document of everything measured so far."""
        document = self._composer.document(
            outcome, finished_at=_now(), first_query_at=self._session.first_query_at
        )
        return FinalReport(outcome=outcome, document=document)


class _Tee:
    """Passes each report to the composer and on to the sink."""

    def __init__(self, composer: ResultComposer, reports: ReportSink) -> None:
        self._composer = composer
        self.progress = reports.progress
        self._add = reports.add

    def add(self, report: LastingReport) -> None:
        """Add a report to the document and pass it on."""
        self._composer.add(report)
        self._add(report)


def exit_code(outcome: Outcome) -> int:
    """Return the exit code of an outcome; a verdict does not change it."""
    match outcome.state:
        case "Complete":
            return 0
        case "Failed":
            return 1
        case "Refused":
            return 2
        case "Interrupted":
            return 128 + signal.SIGINT
        case "Terminated":
            return 128 + signal.SIGTERM
        case _:
            assert_never(outcome.state)


def _now() -> str:
    return format_time(datetime.now(UTC))
