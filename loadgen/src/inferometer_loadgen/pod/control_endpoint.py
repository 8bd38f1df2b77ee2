"""HTTP control endpoint of a load generator in a pod: progress, metrics and stop."""

import hmac
from collections.abc import Callable
from dataclasses import dataclass

from aiohttp import web

from inferometer_api.plan.load_report import PROGRESS_BYTES, LoadReport, report_within
from inferometer_loadgen.reporting.http_endpoint import metrics_response, text_response

_MOST_BODY_BYTES = 4096
_BEARER = "Bearer "


@dataclass(frozen=True, slots=True)
class ControlEndpoint:
    """Answers GET /progress with a LoadReport, GET /metrics with metrics, and POST /stop.

    POST /stop ends the load generator; it requires the plan's token.
    """

    report: Callable[[], LoadReport]
    metrics: Callable[[], bytes]
    stop: Callable[[], None]
    stop_token: str

    def respond(self, request: web.BaseRequest) -> web.StreamResponse:
        """Return the response to one request."""
        match (request.method, request.path):
            case ("GET", "/progress"):
                body = report_within(self.report(), PROGRESS_BYTES)
                return web.Response(body=body, content_type="application/json")
            case ("GET", "/metrics"):
                return metrics_response(self.metrics())
            case ("POST", "/stop"):
                return self._stop_if_authorized(request)
            case _:
                return text_response(
                    404, "Only GET /progress, GET /metrics and POST /stop are answered here."
                )

    def _stop_if_authorized(self, request: web.BaseRequest) -> web.Response:
        if (request.content_length or 0) > _MOST_BODY_BYTES:
            return text_response(413, f"A body of at most {_MOST_BODY_BYTES} bytes is taken.")
        given = request.headers.get("Authorization", "")
        token = given.removeprefix(_BEARER).encode("utf-8", "surrogateescape")
        known = hmac.compare_digest(token, self.stop_token.encode())
        if not (known and self.stop_token and given.startswith(_BEARER)):
            return text_response(403, "The token of this load generator's plan was not given.")
        self.stop()
        return text_response(202, "The load generator ends, and hands over what it measured.")
