"""Dispatch lag against latency: when the load generator's own lateness spoils a percentile."""

from typing import NamedTuple

from inferometer_api.results.result import Step, nanoseconds_at

LAG_SHARE_LIMIT = 0.05
LAG_LEAST_NS = 1_000_000


class Late(NamedTuple):
    """A percentile at which the dispatch lag is too large a part of the latency."""

    percentile: float
    latency_ns: int
    lag_ns: int
    limit_ns: int


def late_at(step: Step, percentile: float) -> Late | None:
    """Return how late the load generator was at a percentile, None if it was not."""
    latency = nanoseconds_at(step.latency, percentile)
    lag = nanoseconds_at(step.dispatch_lag, percentile)
    if latency is None or lag is None:
        return None
    limit = round(max(LAG_LEAST_NS, LAG_SHARE_LIMIT * latency))
    return Late(percentile, latency, lag, limit) if lag > limit else None
