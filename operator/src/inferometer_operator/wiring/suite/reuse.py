"""The look-up of the stored results that stand for runs of one suite."""

import asyncio
from dataclasses import dataclass, field

import structlog

from inferometer_api.suite.plan_suite import SuitePlan
from inferometer_api.suite.progress import RunOutcome
from inferometer_api.suite.reuse import ReuseRequest
from inferometer_api.suite.status import SuiteStatus
from inferometer_api.timestamps import format_time
from inferometer_operator.cluster.results_client import DeliveryError
from inferometer_operator.reconcile.observed import Json
from inferometer_operator.reconcile.suite.reuse import reuse_questions, reused_outcomes
from inferometer_operator.wiring.dependencies import Dependencies

_log = structlog.get_logger()


@dataclass(slots=True)
class SuiteReuse:
    """What is known of the stored results; looked up once.

    Which runs are reused is decided before the suite begins. An operator that takes over looks up
    the same results again, because only those that were stored before count.
    """

    outcomes: dict[str, RunOutcome] = field(default_factory=dict)
    note: str = ""
    """Why runs are measured without a look-up; empty if that is not known, or nothing is."""
    _is_known: bool = False

    async def look_up(
        self, dependencies: Dependencies, suite: Json, plan: SuitePlan, status: SuiteStatus
    ) -> str:
        """Find the results; return why they are not known, empty once they are."""
        self._is_known |= bool(status.states) and "R" not in status.states
        if self._is_known:
            return ""
        client = dependencies.results
        if client is None:
            return "The operator has no results service."
        nodes = await dependencies.reader.list_nodes()
        # A thousand cells take a second or two.
        questions = await asyncio.to_thread(reuse_questions, plan, dependencies.settings, nodes)
        before = status.start_time or format_time(dependencies.now())
        request = ReuseRequest(stored_before=before, queries=questions.queries)
        metadata = suite["metadata"]
        try:
            answer = await client.find_reusable(metadata["namespace"], request)
        except DeliveryError as error:
            _log.warning("stored_results_unknown", suite=metadata["name"], error=str(error))
            return str(error)
        self.outcomes = reused_outcomes(questions, answer.results)
        self.note = " ".join(
            f"{count} runs are measured: {obstacle}"
            for obstacle, count in questions.obstacles.items()
        )
        self._is_known = True
        for name, outcome in self.outcomes.items():
            _log.info("suite_run_reused", suite=metadata["name"], run=name, result=outcome.result)
        return ""
