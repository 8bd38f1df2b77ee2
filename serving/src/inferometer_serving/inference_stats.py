"""Counts inferences that take no longer than counting them would.

Of each only its times are noted; what they come to in metrics and statistics is computed for many
at once, before anybody looks.
"""

from time import monotonic_ns, time_ns

import numpy as np

from inferometer_serving.metrics import ServerMetrics
from inferometer_serving.statistics import Statistics

_PROTOCOLS = ("http", "grpc")
_NUMBERS = {protocol: number for number, protocol in enumerate(_PROTOCOLS)}
_WIDTH = 6
_MOST_NOTED = 512 * _WIDTH


class InferenceStats:
    """Counts runs of the model for one request each, which waited for nothing."""

    def __init__(self, metrics: ServerMetrics, statistics: Statistics) -> None:
        self._metrics = metrics
        self._statistics = statistics
        self._noted: list[int] = []

    def note(
        self,
        protocol: str,
        samples: int,
        began_ns: int,
        started_ns: int,
        computed_ns: int,
        written_ns: int,
    ) -> None:
        """Note one inference: when it was here, read, computed and answered (monotonic clock)."""
        noted = self._noted
        noted += (_NUMBERS[protocol], samples, began_ns, started_ns, computed_ns, written_ns)
        if len(noted) >= _MOST_NOTED:
            self.settle()

    def settle(self) -> None:
        """Bring metrics and statistics up to date."""
        noted = self._noted
        if not noted:
            return
        protocols, samples, began, started, computed, written = (
            np.array(noted).reshape(-1, _WIDTH).T
        )
        noted.clear()
        metrics = self._metrics
        metrics.queue_seconds.observe_none(len(began))
        metrics.compute_seconds.observe_all((computed - started) / 1e9)
        metrics.joined[1] += len(began)
        for number, protocol in enumerate(_PROTOCOLS):
            taken = (written - began)[protocols == number]
            metrics.request_seconds[protocol].observe_all(taken / 1e9)
        last_ms = (time_ns() - monotonic_ns() + int(written[-1])) // 1_000_000
        for size in np.unique(samples).tolist():
            of_size = samples == size
            input_ns, infer_ns, output_ns = (
                int(each[of_size].sum())
                for each in (started - began, computed - started, written - computed)
            )
            runs = int(of_size.sum())
            metrics.batches[size] += runs
            self._statistics.count_inline_runs(size, runs, input_ns, infer_ns, output_ns, last_ms)
