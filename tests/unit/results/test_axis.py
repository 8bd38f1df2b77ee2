"""Axes end on round numbers, and positions on them rise with the values."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer_results.report.axis import (
    ChartAxis,
    category_axis,
    linear_axis,
    log_axis,
    log_span_axis,
    percentile_axis,
    span_axis,
)

_POSITIVE = st.floats(min_value=1e-6, max_value=1e12)


def _texts(axis: ChartAxis) -> list[str]:
    return [tick.text for tick in axis.ticks]


def test_a_linear_axis_begins_at_zero_and_ends_on_a_round_number() -> None:
    """Lengths can be compared with the eye: the axis has its zero."""
    axis = linear_axis("Latency (ms)", [21.0, 26.2])
    assert _texts(axis) == ["0", "10", "20", "30"]
    assert (axis.low, axis.high) == (0.0, 30.0)


def test_counts_have_no_fractions() -> None:
    """An axis of counts has whole ticks even where the counts are small."""
    assert _texts(linear_axis("Failed queries", [0.0, 1.0], whole=True)) == ["0", "1"]
    assert _texts(linear_axis("Failed queries", [3.0], whole=True)) == ["0", "1", "2", "3"]


def test_a_logarithmic_axis_names_decades_where_it_spans_many() -> None:
    """Ticks are 1, 2 and 5 of each decade over a short range, decades over a long one."""
    assert _texts(log_axis("", [20.0, 450.0])) == ["20", "50", "100", "200", "500"]
    assert _texts(log_axis("", [1.0, 90_000.0])) == ["1", "10", "100", "1,000", "10,000", "100,000"]


def test_each_nine_of_a_percentile_axis_takes_the_same_room() -> None:
    """99, 99.9 and 99.99 percent stand at equal distances, as far as the queries reach."""
    axis = percentile_axis("", 100_000)
    places = {tick.text: float(axis.position(tick.value)) for tick in axis.ticks}
    assert places["99.9"] - places["99"] == pytest.approx(places["99.99"] - places["99.9"])
    assert "99.9" not in _texts(percentile_axis("", 100))


def test_categories_stand_in_the_middle_of_their_share() -> None:
    """Three bars stand at a sixth, a half and five sixths."""
    axis = category_axis("Batch size", ["1", "8", "32"])
    assert axis.position(np.array([0.0, 1.0, 2.0])).tolist() == pytest.approx([1 / 6, 1 / 2, 5 / 6])


@given(st.lists(_POSITIVE, min_size=1, max_size=20))
def test_every_axis_holds_its_values_in_order(values: list[float]) -> None:
    """Whatever the values, each axis covers them, with at least one tick and rising positions."""
    low, high = min(values), max(values)
    for axis in (linear_axis("", values), log_axis("", values)):
        assert axis.low <= low * (1 + 1e-6)
        assert axis.high >= high * (1 - 1e-6)
        assert 2 <= len(axis.ticks) <= 20
    for axis in (*(f("", low, high) for f in (span_axis, log_span_axis)), linear_axis("", values)):
        places = axis.position(np.array(sorted(values)))
        assert ((places >= 0) & (places <= 1)).all()
        assert (np.diff(places) >= 0).all()


@pytest.mark.parametrize("values", [[], [0.0], [math.nan], [math.inf, math.nan], [-1.0]])
def test_an_axis_needs_no_values(values: list[float]) -> None:
    """Nothing to show, or zeros, still make an axis with a length."""
    for axis in (linear_axis("", values), log_axis("", values)):
        assert axis.high > axis.low
        assert np.isfinite(axis.position(np.array([axis.low, axis.high]))).all()


def test_what_is_too_little_to_be_divided_counts_as_nothing() -> None:
    """The least numbers that there are get the axis of zero."""
    assert linear_axis("x", [5e-324]) == linear_axis("x", [0.0])
