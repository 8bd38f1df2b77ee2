"""Delivery of the outcome of a suite that is over to the results service."""

from dataclasses import dataclass

import structlog

from inferometer_api.results.service_paths import suite_page
from inferometer_api.suite.outcome import SuiteOutcome
from inferometer_api.suite.status import SuiteStatus
from inferometer_operator.cluster.results_client import DeliveryError, ResultsClient
from inferometer_operator.reconcile.observed import Json

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 5.0, 600.0
_log = structlog.get_logger()


@dataclass(slots=True)
class OutcomeDelivery:
    """The attempts to deliver the outcome of one suite."""

    pause_seconds: float = _FIRST_PAUSE_SECONDS
    """Pause after the next failure."""

    async def attempt(self, client: ResultsClient, suite: Json, outcome: SuiteOutcome) -> str:
        """Try once; return the address of the suite's page, empty after a failure."""
        namespace = suite["metadata"]["namespace"]
        try:
            await client.deliver_outcome(
                namespace, outcome.model_dump_json(exclude_none=True).encode()
            )
        except DeliveryError as error:
            self.pause_seconds = min(2 * self.pause_seconds, _LONGEST_PAUSE_SECONDS)
            _log.warning("suite_not_stored", suite=suite["metadata"]["name"], error=str(error))
            return ""
        page = suite_page(outcome.suite, f"{namespace}/{outcome.execution}")
        return f"{client.service.web_url.rstrip('/')}{page}"


def is_deliverable(suite: Json, status: SuiteStatus) -> bool:
    """Return whether a suite that is over has an outcome that the service lacks."""
    is_schedule = (suite.get("spec") or {}).get("schedule") is not None
    return status.page is None and status.plan_sha256 is not None and not is_schedule
