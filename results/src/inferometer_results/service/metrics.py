"""Metrics of the service: requests by route and status, and how many results there are."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.25, 0.5, 1.0, 2.5, 10.0)


class ServiceMetrics:
    """The metrics of one application."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Take a clock in seconds."""
        self.clock = clock
        self._registry = CollectorRegistry()
        self.requests = Counter(
            "inferometer_results_requests",
            "Requests answered, by route and status.",
            ["route", "status"],
            registry=self._registry,
        )
        self.seconds = Histogram(
            "inferometer_results_request_seconds",
            "Time from a request to the end of its answer.",
            ["route"],
            buckets=_BUCKETS,
            registry=self._registry,
        )
        self._stored = Gauge(
            "inferometer_results_stored",
            "Results in the store, retracted ones included.",
            registry=self._registry,
        )

    def exposition(self, stored: int) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        self._stored.set(stored)
        return generate_latest(self._registry)


class RequestMetrics:
    """Counts and times the requests of an application."""

    def __init__(self, app: ASGIApp, metrics: ServiceMetrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = self._metrics.clock()
        status = [500]

        async def send_noted(message: Message) -> None:
            if message["type"] == "http.response.start":
                status[0] = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, send_noted)
        finally:
            # Requests without a route share one label: addresses are not bounded.
            route = getattr(scope.get("route"), "path", "none")
            self._metrics.requests.labels(route, str(status[0])).inc()
            self._metrics.seconds.labels(route).observe(self._metrics.clock() - started)
