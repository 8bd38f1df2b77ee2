"""HTTP control endpoint of a load generator in a pod: progress, metrics, stop and targets."""

from collections.abc import Callable
from dataclasses import dataclass

from aiohttp import web

from inferometer_api.plan.load_plan import ServerTargets
from inferometer_api.plan.load_report import PROGRESS_BYTES, LoadReport, report_within
from inferometer_loadgen.reporting.control_requests import take_targets, unauthorized
from inferometer_loadgen.reporting.http_endpoint import metrics_response, text_response

_MOST_BODY_BYTES = 4096


@dataclass(frozen=True, slots=True)
class ControlEndpoint:
    """Answers GET /progress with a LoadReport, GET /metrics with metrics, and two POST requests.

    POST /stop ends the load generator; POST /targets hands over the servers of a further repeat.
    Both require the plan's token.
    """

    report: Callable[[], LoadReport]
    metrics: Callable[[], bytes]
    stop: Callable[[], None]
    deliver_targets: Callable[[ServerTargets], str]
    """Takes the servers of a repeat; returns why not."""
    stop_token: str

    async def respond(self, request: web.BaseRequest) -> web.StreamResponse:
        """Return the response to one request."""
        match (request.method, request.path):
            case ("GET", "/progress"):
                body = report_within(self.report(), PROGRESS_BYTES)
                return web.Response(body=body, content_type="application/json")
            case ("GET", "/metrics"):
                return metrics_response(self.metrics())
            case ("POST", "/stop"):
                return self._stop_if_authorized(request)
            case ("POST", "/targets"):
                return await take_targets(request, self.stop_token, self.deliver_targets)
            case _:
                return text_response(
                    404,
                    "Only GET /progress, GET /metrics, POST /stop and POST /targets are answered "
                    "here.",
                )

    def _stop_if_authorized(self, request: web.BaseRequest) -> web.Response:
        refusal = unauthorized(request, self.stop_token, _MOST_BODY_BYTES)
        if refusal is not None:
            return refusal
        self.stop()
        return text_response(202, "The load generator ends, and hands over what it measured.")
