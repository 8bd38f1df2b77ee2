"""What has been found so far, and which of it does the pod's log tell?"""

from collections.abc import Callable

from inferometer_api.plan.load_report import LoadReport
from inferometer_api.plan.reports import (
    EnvironmentReport,
    FinalReport,
    ListeningReport,
    ProgressReport,
    RepeatsReport,
    ScenarioReport,
)
from inferometer_api.results.result import Environment, Outcome, ScenarioResult
from inferometer_api.results.scenario_summary import scenario_summary
from inferometer_api.results.search import RepeatSummary
from inferometer_api.status.run_status import ScenarioSummary

Place = tuple[str, str, str]


class ReportCollector:
    """Keeps what a session reports; `log` is told in a sentence when a stage begins or ends."""

    def __init__(self, log: Callable[[str], None]) -> None:
        self.environment: Environment | None = None
        self.scenarios: list[ScenarioResult] = []
        self.repeated: list[RepeatSummary] = []
        self._summaries: list[ScenarioSummary] = []
        self._progress: ProgressReport | None = None
        self._outcome: Outcome | None = None
        self._log = log
        self._at: Place = ("", "", "")

    def progress(self, progress: ProgressReport) -> None:
        """Keep how far the work is, instead of what was told before."""
        self._progress = progress
        at = (progress.stage, progress.scenario, progress.step)
        if at != self._at:
            self._at = at
            self._log(_sentence(progress))

    def tell(
        self,
        report: ListeningReport | EnvironmentReport | ScenarioReport | RepeatsReport | FinalReport,
    ) -> None:
        """Keep what was found."""
        match report:
            case ListeningReport():
                self._log(f"Locust's web page is on port {report.fleet_web_port}.")
            case EnvironmentReport():
                self.environment = report.environment
            case ScenarioReport():
                self.scenarios.append(report.scenario)
                summary = scenario_summary(report.scenario)
                self._summaries.append(summary)
                self._log(f"{summary.name} is measured: {summary.verdict}.")
            case RepeatsReport():
                self.repeated.append(report.summary)
            case FinalReport():
                self._outcome = report.outcome
                self._progress = None
                self._log(_end(report.outcome))

    def report(self) -> LoadReport:
        """Return what is known now."""
        return LoadReport(
            progress=self._progress, scenarios=list(self._summaries), outcome=self._outcome
        )


_STAGES = {
    "WaitingForWorkers": "waiting for the workers",
    "WaitingForServer": "waiting for the server",
    "Preparing": "preparing",
    "Idle": "measuring the idle power",
    "WarmUp": "warming up",
    "Measuring": "measuring",
    "Draining": "waiting for the last replies",
}


def _sentence(progress: ProgressReport) -> str:
    what = progress.scenario + (f" ({progress.step})" if progress.step else "")
    stage = _STAGES[progress.stage]
    return f"{what}: {stage}." if what else f"{stage.capitalize()}."


def _end(outcome: Outcome) -> str:
    return f"{outcome.state} ({outcome.reason}). {outcome.message}".strip()
