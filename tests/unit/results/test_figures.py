"""Figures are written for people: one unit for a column, three significant digits."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer_api.wording import counted
from inferometer_results.quantity import (
    DASH,
    duration,
    energy,
    percent,
    significant,
    size,
    spread_percent,
    time_unit,
    watts,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.000457, "0.000457"),
        (1, "1.00"),
        (9.996, "10.0"),
        (12.345, "12.3"),
        (999.6, "1,000"),
        (1234.5, "1,230"),
        (987_654, "988,000"),
        (-1.5, "-1.50"),
        (1e308, "1.00e+308"),
        (5e-324, "4.94e-324"),
        (math.nan, DASH),
        (math.inf, DASH),
    ],
)
def test_three_digits_count(value: float, text: str) -> None:
    """A number has three significant digits and no more, and thousands are separated."""
    assert significant(value) == text


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (999, "999 ns"),
        (11_500, "11.5 µs"),
        (41_230_000, "41.2 ms"),
        (1_204_000_000, "1.20 s"),
        (0, "0 ms"),
        (None, DASH),
    ],
)
def test_a_time_has_the_unit_that_suits_it(nanoseconds: int | None, text: str) -> None:
    """A single time is written in the largest unit of which it has at least one."""
    assert duration(nanoseconds) == text


def test_a_size_counts_in_binary_units() -> None:
    """Memory is written in KiB, MiB and GiB, as Kubernetes does."""
    assert size(16 * 2**30) == "16.0 GiB"
    assert size(96 * 2**20 + 2**19) == "96.5 MiB"


def test_energy_and_power_have_the_unit_that_suits_them() -> None:
    """Net energy may be below zero, and is written as far below as above."""
    assert energy(812_000) == "812 mJ"
    assert energy(-4_200) == "-4.20 mJ"
    assert energy(None) == watts(None) == DASH
    assert watts(38_240) == "38.2 W"
    assert percent(0.4862) == "48.6 %"
    assert percent(1.84e-15) == "0 %"


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.0, "< 0.1 %"),
        (0.00049, "< 0.1 %"),
        (0.0005, "0.1 %"),
        (0.0123, "1.2 %"),
        (1.0, "100.0 %"),
    ],
)
def test_no_spread_is_zero(share: float, text: str) -> None:
    """A spread that rounds to zero is small, and not exact."""
    assert spread_percent(share) == text


def test_one_thing_is_no_plural() -> None:
    """A count names what it counts."""
    assert [counted(number, "run") for number in (0, 1, 1_200)] == ["0 runs", "1 run", "1,200 runs"]


def test_one_unit_serves_a_whole_column() -> None:
    """Times of one column share a unit in which the smallest is no fraction."""
    assert time_unit([70_100_000, 1_900_000_000]).name == "ms"
    assert time_unit([800_000, 20_000_000]).name == "ms", "20,000 µs would read badly"
    assert time_unit([800, 9_000]).name == "ns"
    assert time_unit([None, 0]).name == "ms"


@given(st.integers(min_value=1, max_value=2**53))
def test_rounding_errs_by_half_a_percent_at_most(nanoseconds: int) -> None:
    """What is written is the time, to three significant digits."""
    unit = time_unit([nanoseconds])
    written = float(unit.text(nanoseconds).replace(",", "")) * unit.size
    assert written == pytest.approx(nanoseconds, rel=0.0051)
