"""Collector of reports in a pod: keeps the state for GET /progress and writes the log."""

from collections.abc import Callable

from inferometer_api.plan.load_report import LoadReport
from inferometer_api.plan.reports import (
    STAGE_PHRASES,
    FinalReport,
    ListeningReport,
    ProgressReport,
    ScenarioReport,
)
from inferometer_api.results.result import Outcome
from inferometer_api.results.scenario_summary import scenario_summary
from inferometer_api.status.run_status import ScenarioSummary
from inferometer_loadgen.reporting.report_writer import LastingReport


class ReportCollector:
    """Keeps what a session reports; `log` receives a line whenever a stage begins or ends."""

    def __init__(self, log: Callable[[str], None]) -> None:
        self._summaries: list[ScenarioSummary] = []
        self._progress: ProgressReport | None = None
        self._outcome: Outcome | None = None
        self._log = log
        self._logged_stage = ("", "", "")

    def progress(self, report: ProgressReport) -> None:
        """Replace the progress; log it if the stage is a new one."""
        self._progress = report
        stage = (report.stage, report.scenario, report.step)
        if stage != self._logged_stage:
            self._logged_stage = stage
            self._log(_stage_line(report))

    def add(self, report: LastingReport) -> None:
        """Keep a summary of a report and log it."""
        match report:
            case ListeningReport():
                self._log(f"Locust's web page is on port {report.fleet_web_port}.")
            case ScenarioReport():
                summary = scenario_summary(report.scenario)
                self._summaries.append(summary)
                self._log(f"{summary.name} is measured: {summary.verdict}.")
            case FinalReport():
                self._outcome = report.outcome
                self._progress = None
                self._log(_final_line(report.outcome))
            case _:
                return

    def load_report(self) -> LoadReport:
        """Return the current state."""
        return LoadReport(
            progress=self._progress, scenarios=list(self._summaries), outcome=self._outcome
        )


def _stage_line(progress: ProgressReport) -> str:
    what = progress.scenario + (f" ({progress.step})" if progress.step else "")
    stage = STAGE_PHRASES[progress.stage]
    return f"{what}: {stage}." if what else f"{stage.capitalize()}."


def _final_line(outcome: Outcome) -> str:
    return f"{outcome.state} ({outcome.reason}). {outcome.message}".strip()
