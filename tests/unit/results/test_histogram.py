"""What a histogram's encoding holds is what was recorded."""

import base64

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferometer_results.report.histogram import decode
from support.steps import a_distribution

_TIMES = st.lists(st.integers(min_value=0, max_value=3_600_000_000_000), min_size=1, max_size=40)


@given(_TIMES)
@settings(max_examples=50)
def test_each_time_is_in_its_bucket(times: list[int]) -> None:
    """Every recorded time lies within one bucket, whose width is at most 0.1 % of it."""
    recorded = decode(a_distribution(np.array(times)).histogram)
    assert recorded is not None
    assert recorded.total == len(times)
    for time in times:
        within = (recorded.low <= time) & (time < recorded.high)
        assert within.sum() == 1
    assert (recorded.high - recorded.low <= np.maximum(1, recorded.low / 1000)).all()


@given(_TIMES, st.sampled_from([0.5, 0.9, 0.99, 1.0]))
@settings(max_examples=50)
def test_a_share_of_the_queries_keeps_its_time(times: list[int], share: float) -> None:
    """At least the share lies at or below the time given for it, to 0.1 %."""
    recorded = decode(a_distribution(np.array(times)).histogram)
    assert recorded is not None
    value = float(recorded.at_shares(np.array([share]))[0])
    exact = np.sort(times)[int(np.ceil(share * len(times) - 1e-9)) - 1]
    assert value == pytest.approx(exact, rel=0.001, abs=1)


def test_shares_of_all_bins_make_the_whole() -> None:
    """The bins of a chart hold each query once, however fine they are."""
    times = np.random.default_rng(3).lognormal(17, 0.5, 1000).astype(np.int64)
    recorded = decode(a_distribution(times).histogram)
    assert recorded is not None
    edges = np.linspace(recorded.low[0], recorded.high[-1], 500)
    assert recorded.share_between(edges).sum() == pytest.approx(1.0)


def test_what_lies_outside_the_bins_is_not_lost() -> None:
    """Times below the first edge count to the first bin, times above the last to the last."""
    recorded = decode(a_distribution(np.array([0, 0, 0, 50, 900])).histogram)
    assert recorded is not None
    assert recorded.share_between(np.array([1.0, 10.0, 100.0])).tolist() == pytest.approx(
        [0.6, 0.4]
    )


@pytest.mark.parametrize(
    "text", ["", "not base64", base64.b64encode(b"\x1c\x84\x93\x14 damaged").decode(), "AAAA"]
)
def test_a_damaged_histogram_is_none(text: str) -> None:
    """A text that is not a histogram is recognised without a crash."""
    assert decode(text) is None
