"""In which order does a local load generator listen, measure and report?"""

from collections.abc import Callable
from dataclasses import dataclass

from aiohttp import web

from inferometer_api.plan.load_plan import LoadPlan
from inferometer_api.plan.reports import Ended, Listening
from inferometer_api.results.result import Outcome
from inferometer_loadgen.reporting.answering import Answering, metrics_answer, sentence
from inferometer_loadgen.reporting.report import Reporter
from inferometer_loadgen.run.execution import Execution


@dataclass(frozen=True, slots=True)
class MetricsAt:
    """Where a local load generator shows its metrics."""

    host: str
    port: int


async def carry_out_locally(
    plan: LoadPlan, reporter: Reporter, metrics_at: MetricsAt | None
) -> Ended:
    """Carry a plan out, reporting what is found; return the last report. Raises ReaderGoneError."""
    execution = Execution(plan, reporter)
    answering = Answering(_metrics_alone(execution.live.text))
    if metrics_at is not None:
        try:
            port = await answering.listen(metrics_at.host, metrics_at.port)
        except OSError as error:
            message = f"The load generator cannot listen on port {metrics_at.port}: {error}."
            return Ended(outcome=Outcome(state="Failed", reason="SystemError", message=message))
        reporter.tell(Listening(metrics_port=port))
    try:
        outcome = await execution.run()
    finally:
        await answering.close()
    return Ended(outcome=outcome, first_query_at=execution.first_query_at)


def _metrics_alone(metrics: Callable[[], bytes]) -> Callable[[web.BaseRequest], web.Response]:
    def answer(request: web.BaseRequest) -> web.Response:
        if (request.method, request.path) == ("GET", "/metrics"):
            return metrics_answer(metrics())
        return sentence(404, "Only GET /metrics is answered here.")

    return answer
