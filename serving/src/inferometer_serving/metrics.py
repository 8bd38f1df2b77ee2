"""The server's Prometheus metrics.

On the hot path figures are plain numbers, each with one writer at a time; they become text at a
scrape.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest

from inferometer_api.metrics import definitions as names
from inferometer_api.metrics.definitions import METRICS, Metric
from inferometer_api.metrics.exposition import Form, form, head


class Durations:
    """A histogram of durations in seconds."""

    __slots__ = ("_bounds", "_counts", "_total_seconds")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._total_seconds = 0.0

    def observe(self, seconds: float) -> None:
        """Count one duration."""
        self._counts[bisect_left(self._bounds, seconds)] += 1
        self._total_seconds += seconds

    def observe_all(self, seconds: npt.NDArray[np.float64]) -> None:
        """Count many durations."""
        places, times = np.unique(np.searchsorted(self._bounds, seconds), return_counts=True)
        for place, count in zip(places.tolist(), times.tolist(), strict=True):
            self._counts[place] += count
        self._total_seconds += float(seconds.sum())

    def observe_none(self, count: int) -> None:
        """Count so many durations of 0."""
        self._counts[0] += count

    def filled(self, lines: Form) -> bytes:
        """Return its lines."""
        return lines.histogram(self._counts, self._total_seconds)


class ServerMetrics:
    """The figures of one server process."""

    def __init__(self) -> None:
        self.requests: defaultdict[tuple[str, str, str | int], int] = defaultdict(int)
        """How many requests ended, by protocol, endpoint and code."""
        self.request_seconds = {
            protocol: Durations(names.SERVER_REQUEST.buckets) for protocol in ("http", "grpc")
        }
        """From an inference request's last byte to its answer, by protocol."""
        self.queue_seconds = Durations(names.SERVER_QUEUE.buckets)
        """How long inference requests waited for the model."""
        self.compute_seconds = Durations(names.SERVER_COMPUTE.buckets)
        """Within the model."""
        self.batches: defaultdict[int, int] = defaultdict(int)
        """How often the model was run with so many samples."""
        self.joined: defaultdict[int, int] = defaultdict(int)
        """How often the model was run for so many requests at once."""
        self.is_ready = False
        self.pending = 0
        """Inference requests that wait or are computed."""

    def count(self, protocol: str, endpoint: str, code: str) -> None:
        """Count one request as ended. All three words come from small fixed sets."""
        self.requests[protocol, endpoint, code] += 1


class Exposition:
    """Writes metrics in Prometheus' text format.

    `served` are the values of the labels that all have: the run's namespace, the run, the model.
    """

    def __init__(self, metrics: ServerMetrics, served: tuple[str, str, str], version: str) -> None:
        self._metrics = metrics
        self._router = served
        self._version = version
        self._heads = {metric.name: head(metric) for metric in METRICS["server"]}
        self._forms: dict[tuple[str, ...], Form] = {}
        self._process = CollectorRegistry()
        ProcessCollector(registry=self._process)

    def text(self) -> bytes:
        """Return all metrics as they are now."""
        lines = dict(self._heads)
        for metric, written in self._lines():
            lines[metric.name] += written
        return b"".join((*lines.values(), generate_latest(self._process)))

    def _lines(self) -> Iterator[tuple[Metric, bytes]]:
        now = self._metrics
        batches = now.batches.copy()
        samples = sum(size * times for size, times in batches.items())
        for metric, value in (
            (names.SERVER_READY, int(now.is_ready)),
            (names.SERVER_INFERENCES, samples),
            (names.SERVER_PENDING, now.pending),
        ):
            yield metric, self._form(metric).filled(value)
        yield names.SERVER_INFO, self._form(names.SERVER_INFO, self._version).filled(1)
        for key, count in now.requests.copy().items():
            lines = self._form(names.SERVER_REQUESTS, *map(str, key))
            yield names.SERVER_REQUESTS, lines.filled(count)
        for protocol, durations in now.request_seconds.items():
            lines = self._form(names.SERVER_REQUEST, protocol)
            yield names.SERVER_REQUEST, durations.filled(lines)
        yield names.SERVER_QUEUE, now.queue_seconds.filled(self._form(names.SERVER_QUEUE))
        yield names.SERVER_COMPUTE, now.compute_seconds.filled(self._form(names.SERVER_COMPUTE))
        counts = _counts(batches, names.SERVER_BATCH.buckets)
        yield names.SERVER_BATCH, self._form(names.SERVER_BATCH).histogram(counts, samples)
        joined = now.joined.copy()
        requests = sum(count * times for count, times in joined.items())
        counts = _counts(joined, names.SERVER_JOINED.buckets)
        yield names.SERVER_JOINED, self._form(names.SERVER_JOINED).histogram(counts, requests)

    def _form(self, metric: Metric, *labels: str) -> Form:
        key = (metric.name, *labels)
        if key not in self._forms:
            self._forms[key] = form(metric, (*self._router, *labels))
        return self._forms[key]


def _counts(batches: dict[int, int], bounds: Sequence[float]) -> list[int]:
    counts = [0] * (len(bounds) + 1)
    for size, times in batches.items():
        counts[bisect_left(bounds, size)] += times
    return counts
