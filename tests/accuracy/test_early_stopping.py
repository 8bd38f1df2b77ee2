"""Early stopping is that of MLPerf LoadGen, to the last query."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer_loadgen.verdict.early_stopping import (
    max_overshoots,
    meets_bound,
    min_passing_queries,
    required_queries,
)
from support import loadgen_source

MOST = 1000
PERCENTILES = (50.0, 60.0, 75.0, 80.0, 85.0, 90.0, 92.5, 95.0, 97.0, 98.0, 99.0, 99.5, 99.8, 99.9)


@pytest.mark.skipif(
    loadgen_source.compiler() is None, reason="MLPerf LoadGen cannot be compiled: there is no c++"
)
def test_the_table_of_required_queries_is_loadgens(tmp_path: Path) -> None:
    """For 0 to 1,000 overshoots at every percentile our numbers are those of early_stopping.cc."""
    theirs = loadgen_source.min_passing_queries(tmp_path, PERCENTILES, MOST)
    for percentile, expected in zip(PERCENTILES, theirs, strict=True):
        ours = [min_passing_queries(overshoots, percentile) for overshoots in range(MOST + 1)]
        assert ours == expected, f"P{percentile:g}"


@given(st.integers(0, 200_000), st.floats(50, 99.9))
def test_the_least_number_is_least(overshoots: int, percentile: float) -> None:
    """So many queries keep the bound and one fewer do not, and so many may then be beyond it."""
    queries = required_queries(overshoots, percentile)
    assert meets_bound(queries, overshoots, percentile)
    assert not meets_bound(queries - 1, overshoots, percentile)
    assert not meets_bound(queries, overshoots + 1, percentile)
    assert max_overshoots(queries, percentile) == overshoots
    fewer = max_overshoots(queries - 1, percentile)
    assert fewer == (overshoots - 1 if overshoots else None)
