"""Recorder of the queries of one step.

The driver records each query as it happens. Times are gathered in flat arrays and counted in
blocks, so that recording one costs a fraction of a microsecond.
"""

from array import array
from collections import Counter, deque
from dataclasses import dataclass, field

import numpy as np

from inferometer_loadgen.record.histogram import Histogram, Integers
from inferometer_loadgen.record.windows import STEADY_WINDOWS, Second, SecondStatistics, Windows

BLOCK = 2048
"""Number of queries after which their times are counted."""


@dataclass(slots=True)
class ModelStatistics:
    """Counts of the queries of a step that went to one model of a mix."""

    model: str
    share: float
    """Its planned share of the queries, from 0 to 1."""
    latency: Histogram = field(default_factory=Histogram)
    errors: Counter[str] = field(default_factory=Counter)
    latencies: "array[int]" = field(default_factory=lambda: array("q"))
    """Nanoseconds that are not yet in the histogram."""

    def flush(self) -> None:
        """Count the latencies gathered so far."""
        self.latency.add(_take(self.latencies))


@dataclass(slots=True)
class StepStatistics:
    """All counts of one step, read when the step is over."""

    latency: Histogram = field(default_factory=Histogram)
    service_time: Histogram = field(default_factory=Histogram)
    dispatch_lag: Histogram = field(default_factory=Histogram)
    windows: Windows = field(default_factory=Windows)
    errors: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    scheduled: int = 0
    waited_for_connection: int = 0
    checked_replies: int = 0
    warm_up_queries: int = 0
    warm_up_answered: int = 0
    """Successful ones of these; some may be answered within the window."""
    answered_within: int = 0
    """Queries answered successfully within the window, whenever they were sent."""
    unanswered_early: int = 0
    """In open loops: median number of unanswered queries in the window's first quarter."""
    unanswered_late: int = 0
    """The same for its last quarter."""
    resent: int = 0
    """Queries that were sent a second time, after the server had closed their connection unread."""
    shape_deviations: dict[str, str] = field(default_factory=dict)
    """By output: a sentence on a shape that all first replies share and the metadata do not."""
    json_replies: int = 0
    """First replies that carried tensors as JSON although the request wanted binary data."""
    overshoots: int = 0
    """Queries that failed or exceeded the step's latency bound, if it has one."""
    models: list[ModelStatistics] = field(default_factory=list)
    """One for each model of a mix."""


class Recorder:
    """Counts the queries of one step.

    `latencies`, `service_times` and `lags` are arrays of nanoseconds that the driver appends to;
    `flush` counts and empties them, and the driver calls it when one is `BLOCK` long. `warm_ups` is
    such an array for a warm-up until steady.
    """

    def __init__(self, bound_ns: int | None = None) -> None:
        self.statistics = StepStatistics()
        self.latencies = array("q")
        self.service_times = array("q")
        self.lags = array("q")
        self.warm_ups = array("q")
        self._bound_ns = bound_ns
        self._second = Second()
        self.last_second: SecondStatistics | None = None
        self.warm_up_windows: deque[SecondStatistics] = deque(maxlen=STEADY_WINDOWS)
        """The last whole seconds of a warm-up until steady."""
        self._answered_before: int | None = None
        """Number of answers before the window; None while there is none."""

    def begin_window(self) -> None:
        """Count later answers as answers within the window."""
        self._answered_before = self.answered_at_all

    def end_window(self) -> None:
        """Count later answers as answers after the window."""
        self.flush()
        self._answered_before = None

    def flush(self) -> None:
        """Count the times gathered so far."""
        statistics = self.statistics
        latencies = _take(self.latencies)
        statistics.latency.add(latencies)
        self._second.add(latencies)
        if self._bound_ns is not None:
            statistics.overshoots += int(np.count_nonzero(latencies > self._bound_ns))
        statistics.service_time.add(_take(self.service_times))
        lags = _take(self.lags)
        statistics.dispatch_lag.add(lags)
        statistics.scheduled += len(lags)
        self._second.schedule(len(lags))
        for model in statistics.models:
            model.flush()
        if self._answered_before is not None:
            statistics.answered_within = self.answered_at_all - self._answered_before

    def fail(self, kind: str, message: str) -> None:
        """Count a measured query that failed."""
        self.statistics.errors[kind] += 1
        self.statistics.examples.setdefault(kind, message)
        self.statistics.overshoots += self._bound_ns is not None
        self._second.fail()

    def end_second(self) -> None:
        """Close the current second."""
        self.flush()
        self.last_second = self._second.close(1.0)
        self.statistics.windows.add(self.last_second)

    def end_warm_up_second(self) -> None:
        """Close the current second of a warm-up until steady."""
        second = Second()
        second.add(_take(self.warm_ups))
        self.warm_up_windows.append(second.close(1.0))

    def end(self, seconds: float) -> None:
        """Close the last second after this part of it, in seconds."""
        self.flush()
        self.statistics.windows.add_last(self._second.close(seconds))

    @property
    def answered(self) -> int:
        """Number of measured queries answered successfully so far."""
        return self.statistics.latency.count + len(self.latencies)

    @property
    def answered_at_all(self) -> int:
        """Number of queries answered successfully so far, including the warm-up."""
        return self.answered + self.statistics.warm_up_answered

    @property
    def failed(self) -> int:
        """Number of measured queries that failed so far."""
        return self.statistics.errors.total()


def _take(times: "array[int]") -> Integers:
    values = np.array(times, dtype=np.int64)
    del times[:]
    return values
