"""The number of queries of early stopping is the smallest that shows the bound."""

import pytest

from inferometer_loadgen.verdict.early_stopping import meets_bound, min_passing_queries


@pytest.mark.parametrize("percentile", [50.0, 90.0, 97.0, 99.0, 99.9])
def test_one_query_less_would_not_do(percentile: float) -> None:
    """With few overshoots and with many; tests/accuracy compares it with LoadGen's own code."""
    for overshoots in (*range(12), *range(20, 400, 37)):
        passing = min_passing_queries(overshoots, percentile)
        assert meets_bound(passing + overshoots, overshoots, percentile)
        assert not meets_bound(passing - 1 + overshoots, overshoots, percentile)
