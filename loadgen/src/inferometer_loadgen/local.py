"""In which order does a local load generator listen, measure and report?"""

from collections.abc import Callable
from dataclasses import dataclass

from aiohttp import web

from inferometer_api.plan.load_plan import LoadPlan
from inferometer_api.plan.reports import FinalReport, ListeningReport
from inferometer_api.results.result import Outcome
from inferometer_loadgen.reporting.http_endpoint import (
    HttpEndpoint,
    metrics_response,
    text_response,
)
from inferometer_loadgen.reporting.report_writer import ReportWriter
from inferometer_loadgen.run.execution import PlanExecution


@dataclass(frozen=True, slots=True)
class MetricsAt:
    """Where a local load generator shows its metrics."""

    host: str
    port: int


async def execute_locally(
    plan: LoadPlan, reporter: ReportWriter, metrics_at: MetricsAt | None
) -> FinalReport:
    """Carry a plan out, reporting what is found; return the last report. Raises ReaderGoneError."""
    execution = PlanExecution(plan, reporter)
    answering = HttpEndpoint(_metrics_alone(execution.live.text))
    if metrics_at is not None:
        try:
            port = await answering.listen(metrics_at.host, metrics_at.port)
        except OSError as error:
            message = f"The load generator cannot listen on port {metrics_at.port}: {error}."
            return FinalReport(
                outcome=Outcome(state="Failed", reason="SystemError", message=message)
            )
        reporter.tell(ListeningReport(metrics_port=port))
    try:
        outcome = await execution.run()
    finally:
        await answering.close()
    return FinalReport(outcome=outcome, first_query_at=execution.first_query_at)


def _metrics_alone(metrics: Callable[[], bytes]) -> Callable[[web.BaseRequest], web.Response]:
    def answer(request: web.BaseRequest) -> web.Response:
        if (request.method, request.path) == ("GET", "/metrics"):
            return metrics_response(metrics())
        return text_response(404, "Only GET /metrics is answered here.")

    return answer
