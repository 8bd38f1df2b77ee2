"""Composer of the result document from the reports of one load generator."""

from inferometer_api.plan.reports import EnvironmentReport, RepeatsReport, Report, ScenarioReport
from inferometer_api.results.result import (
    SCHEMA_VERSION,
    Environment,
    Outcome,
    ResultDocument,
    ScenarioResult,
)
from inferometer_api.results.search import RepeatSummary
from inferometer_api.spec.run import BenchmarkRun


class ResultComposer:
    """Collects the reports of one execution of a run and composes its result document.

    The load generator composes the document that it hands over. The command line uses the same
    class for a load generator that was killed, or never started.
    """

    def __init__(
        self, run: BenchmarkRun, *, run_id: str, started_at: str, inferometer_version: str
    ) -> None:
        self._run = run
        self._run_id = run_id
        self._started_at = started_at
        self._inferometer_version = inferometer_version
        self._environment: Environment | None = None
        self._scenarios: list[ScenarioResult] = []
        self._repeat_summaries: list[RepeatSummary] = []

    def add(self, report: Report) -> None:
        """Add what a report contributes to the document; other reports are ignored."""
        match report:
            case EnvironmentReport():
                self._environment = report.environment
            case ScenarioReport():
                self._scenarios.append(report.scenario)
            case RepeatsReport():
                self._repeat_summaries.append(report.summary)
            case _:
                return

    def _place(self, result: ScenarioResult) -> tuple[int, int]:
        """Return the place of a result: repeats of one scenario stand in a row."""
        names = [each.name for each in self._run.spec.scenarios]
        index = names.index(result.name) if result.name in names else len(names)
        return index, result.repeat

    def document(
        self, outcome: Outcome, *, finished_at: str, first_query_at: str | None = None
    ) -> ResultDocument:
        """Return the document of everything that was added so far."""
        return ResultDocument(
            api_version="inferometer.dev/v1alpha1",
            kind="BenchmarkResult",
            schema_version=SCHEMA_VERSION,
            run_id=self._run_id,
            inferometer_version=self._inferometer_version,
            started_at=self._started_at,
            finished_at=finished_at,
            first_query_at=first_query_at,
            outcome=outcome,
            run=self._run,
            environment=self._environment,
            scenarios=sorted(self._scenarios, key=self._place),
            repeat_summaries=list(self._repeat_summaries),
        )
