"""Repeated figures become medians, spreads, ratios and verdicts on goals."""

from typing import Literal

import pytest
from bench.figures import Bound, is_reached, ratios, summary
from bench.machine import Moment, disturbance
from bench.measure import turn_order
from bench.processes import BenchError
from bench.wrk import REQUESTS, parse_wrk
from hypothesis import given
from hypothesis import strategies as st

SLOW = Bound("ratio", "at most", 1.02)
MANY = Bound("figure", "at least", 20_000)
THRICE = Bound("ratio", "at least", 3)

WRK = """Running 3s test @ http://127.0.0.1:8000
  1 threads and 8 connections
  39210 requests in 3.10s, 9.09MB read
Requests/sec:  12648.39
Transfer/sec:      2.93MB
"""

figures = st.floats(min_value=1e-9, max_value=1e9)


@given(st.lists(figures, min_size=1, max_size=9))
def test_a_median_is_a_repeat_or_between_two_and_within_the_spread(values: list[float]) -> None:
    """A median lies within the spread, and half of the repeats are on each side of it."""
    found = summary(values)
    assert found.least == min(values) <= found.median <= max(values) == found.most
    assert sum(each <= found.median for each in values) >= len(values) / 2
    assert sum(each >= found.median for each in values) >= len(values) / 2


def test_nothing_cannot_be_summarised() -> None:
    """Without any repeat there is no figure, and that is said."""
    with pytest.raises(ValueError, match="no repeat"):
        summary([])


def test_ratios_are_of_figures_taken_side_by_side() -> None:
    """Each repeat has a ratio of its own."""
    assert ratios([10.0, 22.0, 30.0], [5.0, 10.0, 20.0]) == [2.0, 2.2, 1.5]


def test_repeats_must_pair() -> None:
    """Ratios of series of different lengths are refused: they were not taken side by side."""
    with pytest.raises(ValueError, match="zip"):
        ratios([1.0, 2.0], [1.0])


@pytest.mark.parametrize(
    ("goal", "figure", "to_peer", "reached"),
    [
        ((SLOW,), 1.0, 1.02, True),
        ((SLOW,), 1.0, 1.0201, False),
        ((SLOW,), 1.0, None, None),
        ((MANY, THRICE), 20_000.0, None, True),
        ((MANY, THRICE), 19_999.0, 3.0, True),
        ((MANY, THRICE), 19_999.0, 2.9, False),
        ((MANY, THRICE), 19_999.0, None, None),
        ((), 1.0, 1.0, False),
    ],
)
def test_a_goal_is_reached_by_any_of_its_bounds(
    goal: tuple[Bound, ...], figure: float, to_peer: float | None, *, reached: bool | None
) -> None:
    """One bound that holds is enough; what needs a peer that was not run is not known."""
    ratio_of_each = [] if to_peer is None else [to_peer]
    assert is_reached(goal, [figure], ratio_of_each) is reached


@pytest.mark.parametrize(
    ("over", "figures", "reached"),
    [
        ("median", [1.0, 0.0, 1.0], True),
        ("every repeat", [1.0, 0.0, 1.0], False),
        ("every repeat", [1.0, 1.0, 1.0], True),
    ],
)
def test_a_goal_over_every_repeat_is_missed_by_one(
    over: Literal["median", "every repeat"], figures: list[float], *, reached: bool
) -> None:
    """What must hold each time is not saved by its median."""
    assert is_reached((Bound("figure", "at least", 1, over=over),), figures) is reached
    to_peer = Bound("ratio", "at least", 1, over=over)
    assert is_reached((to_peer,), [5.0] * len(figures), figures) is reached


def test_no_side_always_comes_after_the_same_other() -> None:
    """Every other round goes the other way round."""
    assert [turn_order(["a", "b", "c"], number) for number in range(3)] == [
        ["a", "b", "c"],
        ["c", "b", "a"],
        ["a", "b", "c"],
    ]


def test_other_load_is_what_the_machine_did_besides() -> None:
    """Busy time that is not our own is reported as other processes' share of all cores."""
    before = Moment(wall_seconds=100, busy_seconds=50, stolen_seconds=1, own_seconds=5)
    after = Moment(wall_seconds=110, busy_seconds=62, stolen_seconds=1.5, own_seconds=15)
    disturbance_text = disturbance(before, after, cores=2)
    assert "other processes took 10.0 %" in disturbance_text
    assert "hypervisor 2.5 %" in disturbance_text


def test_wrk_is_believed() -> None:
    """A report without faults gives its count and its rate."""
    assert parse_wrk(WRK) == (39210, 12648.39)


@pytest.mark.parametrize(
    "report",
    [
        WRK + "  Non-2xx or 3xx responses: 7\n",
        WRK + "  Socket errors: connect 0, read 3, write 0, timeout 0\n",
        WRK.replace("39210", "0"),
        "unable to connect to 127.0.0.1:8000 Connection refused\n",
    ],
)
def test_a_wrk_run_with_errors_is_rejected(report: str) -> None:
    """Failed requests are quick to count and mean nothing: they give no figure."""
    with pytest.raises(BenchError):
        parse_wrk(report)


def test_wrk_sends_numbers_of_the_size_it_names() -> None:
    """The binary body's four numbers are as many bytes as its JSON says."""
    text = (REQUESTS / "binary.lua").read_text(encoding="utf-8")
    escaped = text.partition('local numbers = "')[2].partition('"')[0]
    assert len(escaped.split("\\")[1:]) == 16
    assert '"binary_data_size":16' in text
