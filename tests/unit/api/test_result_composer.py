"""The result document holds what the reports of a load generator said, in their order."""

from inferometer_api.plan.reports import (
    EnvironmentReport,
    ListeningReport,
    ProgressReport,
    ScenarioReport,
)
from inferometer_api.plan.result_composer import ResultComposer
from inferometer_api.results.result import Outcome
from support.results import a_result, an_environment

STARTED, FINISHED = "2026-01-31T12:00:00.000Z", "2026-01-31T12:00:09.000Z"
LOST = Outcome(state="Failed", reason="ServerLost", message="It was lost.")


def a_composer() -> ResultComposer:
    """Return the composer of an example run."""
    return ResultComposer(
        a_result().run, run_id="one", started_at=STARTED, inferometer_version="1.2.3"
    )


def test_a_document_without_reports_has_the_outcome() -> None:
    """A run that never started its load generator still has a document."""
    document = a_composer().document(LOST, finished_at=FINISHED)
    assert (document.run_id, document.inferometer_version) == ("one", "1.2.3")
    assert (document.started_at, document.finished_at) == (STARTED, FINISHED)
    assert (document.outcome, document.environment, document.scenarios) == (LOST, None, [])
    assert document.first_query_at is None


def test_a_document_holds_environment_and_scenarios() -> None:
    """Later reports do not change a document that was composed before them."""
    composer, scenarios = a_composer(), a_result().scenarios[:2]
    composer.add(ListeningReport(metrics_port=1))
    composer.add(ProgressReport(stage="Measuring"))
    composer.add(EnvironmentReport(environment=an_environment()))
    composer.add(ScenarioReport(scenario=scenarios[0]))
    before = composer.document(LOST, finished_at=FINISHED)
    composer.add(ScenarioReport(scenario=scenarios[1]))
    after = composer.document(LOST, finished_at=FINISHED, first_query_at=STARTED)
    assert before.environment == after.environment == an_environment()
    assert (before.scenarios, after.scenarios) == (scenarios[:1], scenarios)
    assert after.first_query_at == STARTED
