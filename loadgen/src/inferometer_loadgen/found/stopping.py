"""What does MLPerf's early stopping say of a step?"""

import numpy as np

from inferometer_api.results.result import EarlyStopping
from inferometer_loadgen.record.histogram import Histogram, highest_of
from inferometer_loadgen.record.recorder import Tallied
from inferometer_loadgen.schedule.steps import Judged
from inferometer_loadgen.verdict.early_stopping import most_overshoots, required_queries


def early_stopping(judged: Judged | None, tallied: Tallied) -> EarlyStopping | None:
    """Return what is known of the percentile that a step is judged by; None where there is none.

    With a bound: how many queries it takes with so many overshoots. Without one: an estimate that
    the percentile does not exceed, as LoadGen makes it of single and multiple streams.
    """
    if judged is None:
        return None
    failed = tallied.errors.total()
    queries = tallied.latency.count + failed
    if judged.bound_ns is None:
        return _estimated(judged.percentile, tallied.latency, queries, failed)
    return EarlyStopping(
        percentile=judged.percentile,
        latency_bound_nanoseconds=judged.bound_ns,
        queries=queries,
        overshoots=tallied.overshoots,
        required_queries=required_queries(tallied.overshoots, judged.percentile),
    )


def _estimated(percentile: float, latency: Histogram, queries: int, failed: int) -> EarlyStopping:
    # LoadGen asks that one query at least may be beyond the estimate, and takes the last of those
    # that may for it: sorted[queries - t], from 0.
    most = most_overshoots(queries, percentile) or 0
    discarded = max(0, most - 1)
    known = most >= 1 and failed <= discarded  # a failed query is later than every answer
    return EarlyStopping(
        percentile=percentile,
        queries=queries,
        overshoots=discarded,
        required_queries=None if most >= 1 else required_queries(1, percentile),
        estimate_nanoseconds=_at_rank(latency, queries - discarded) if known else None,
    )


def _at_rank(latency: Histogram, rank: int) -> int:
    """Return the highest value equivalent to that of a rank, from 1."""
    sparse = latency.sparse()
    bucket = int(sparse.buckets[np.searchsorted(sparse.counts.cumsum(), rank)])
    return min(highest_of(bucket), latency.max_ns)
