"""Minimums of MLPerf Inference for its scenarios, and of its early stopping.

Durations and percentiles: "Scenarios" of MLPerf's inference_rules.adoc (github.com/mlcommons/
inference_policies) and mlperf.conf of the mlcommons-loadgen sdist, 6.0.17. Queries: mlperf.conf,
and where it has none LoadGen's own default (test_settings.h).
"""

from dataclasses import dataclass
from math import ceil, log

CONFIDENCE = 0.99
"""Confidence of early stopping, as in early_stopping.cc."""
DURATION_SECONDS = 600
"""Minimum duration of a scenario."""
SERVER_PERCENTILE = 99.0
"""Lowest percentile that `server` may have a bound for."""


@dataclass(frozen=True, slots=True)
class Minimums:
    """Minimums of a scenario."""

    duration_seconds: int
    queries: int = 1
    samples: int = 1


def fewest_queries(percentile: float) -> int:
    """Return how many queries early stopping takes to know that a percentile keeps its bound.

    At least: where none of them is beyond it (the load generator's `required_queries` of 0).
    """
    return ceil(log(1 - CONFIDENCE) / log(percentile / 100))
