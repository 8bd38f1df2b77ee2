"""What does the server tell of its own work at /metrics?

On the hot path figures are plain numbers, each with one writer; prometheus-client reads them when
it is asked, through `collect`.
"""

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector
from typing_extensions import override

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"
_BOUNDS_SECONDS = (
    *(0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005),
    *(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0),
)


class Durations:
    """A histogram of durations in seconds."""

    __slots__ = ("_counts", "_total_seconds")

    def __init__(self) -> None:
        self._counts = [0] * (len(_BOUNDS_SECONDS) + 1)
        self._total_seconds = 0.0

    def observe(self, seconds: float) -> None:
        """Count one duration."""
        self._counts[bisect_left(_BOUNDS_SECONDS, seconds)] += 1
        self._total_seconds += seconds

    def buckets(self) -> list[tuple[str, float]]:
        """Return the cumulative counts as Prometheus has them."""
        bounds = [*(str(bound) for bound in _BOUNDS_SECONDS), "+Inf"]
        return list(zip(bounds, map(float, accumulate(self._counts)), strict=True))

    @property
    def total_seconds(self) -> float:
        """Return the sum of all durations."""
        return self._total_seconds


class Metrics(Collector):
    """The figures of one server process."""

    def __init__(self, server_version: str) -> None:
        self._server_version = server_version
        self.requests: dict[tuple[str, str, str], int] = {}
        """How many requests ended, by protocol, endpoint and code."""
        self.request_seconds = {"http": Durations(), "grpc": Durations()}
        """From an inference request's last byte to its answer, by protocol."""
        self.compute_seconds = Durations()
        """Within the model."""
        self.is_ready = False
        self.pending = 0
        """Inferences that wait or run."""

    def count(self, protocol: str, endpoint: str, code: str) -> None:
        """Count one request as ended. All three words come from small fixed sets."""
        key = (protocol, endpoint, code)
        self.requests[key] = self.requests.get(key, 0) + 1

    @override
    def collect(self) -> Iterator[Metric]:
        """Yield every metric as prometheus-client wants it."""
        yield GaugeMetricFamily(
            "inferometer_server_ready",
            "1 while the model is loaded, warm and not draining.",
            value=float(self.is_ready),
        )
        yield GaugeMetricFamily(
            "inferometer_server_pending_inferences",
            "Inferences that wait for the worker thread or run in it.",
            value=float(self.pending),
        )
        info = GaugeMetricFamily(
            "inferometer_server_info", "Always 1; tells the version.", labels=["version"]
        )
        info.add_metric([self._server_version], 1.0)
        yield info
        requests = CounterMetricFamily(
            "inferometer_server_requests",
            "Requests that ended.",
            labels=["protocol", "endpoint", "code"],
        )
        for key, value in self.requests.copy().items():
            requests.add_metric(list(key), float(value))
        yield requests
        durations = HistogramMetricFamily(
            "inferometer_server_request_duration_seconds",
            "From the last byte of an inference request to its answer being ready to be sent.",
            labels=["protocol"],
        )
        for protocol, histogram in self.request_seconds.items():
            durations.add_metric([protocol], histogram.buckets(), histogram.total_seconds)
        yield durations
        yield HistogramMetricFamily(
            "inferometer_server_compute_seconds",
            "Time within the model per inference.",
            buckets=self.compute_seconds.buckets(),
            sum_value=self.compute_seconds.total_seconds,
        )


class Exposition:
    """Writes metrics in Prometheus' text format."""

    def __init__(self, metrics: Metrics) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(metrics)
        ProcessCollector(registry=self._registry)

    def text(self) -> bytes:
        """Return all metrics as they are now."""
        return generate_latest(self._registry)
