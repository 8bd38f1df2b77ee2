"""A counter's wrap-around is undone, and no total is made up or lost."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from inferometer_telemetry.counting import EnergyTotal, Highest, Rising, step

RANGE = 262_143_328_850
SECOND = 10**9


@given(
    begin=st.integers(0, RANGE - 1),
    grown=st.lists(st.integers(0, 1_000_000_000), min_size=1, max_size=50),
)
def test_a_total_is_what_was_used_however_often_the_counter_wrapped(
    begin: int, grown: list[int]
) -> None:
    """The joules between readings add up exactly, through every wrap-around."""
    energy = EnergyTotal(RANGE)
    now = begin
    assert energy.take(now, 0)
    for at, more in enumerate(grown):
        now = (now + more) % RANGE
        assert energy.take(now, (at + 1) * SECOND)
    assert energy.microjoules == sum(grown)


@given(before=st.integers(0, RANGE), now=st.integers(0, RANGE), elapsed=st.integers(0, SECOND))
def test_a_step_is_never_below_zero_nor_beyond_the_range(
    before: int, now: int, elapsed: int
) -> None:
    """Whatever a counter shows, what it grew by lies between zero and its range."""
    grown, _ = step(before, now, range_microjoules=RANGE, elapsed_ns=elapsed)
    assert 0 <= grown <= RANGE


def test_a_counter_that_began_anew_is_no_wrap_around() -> None:
    """A fall that would mean megawatts ends the total: what was used is not known."""
    energy = EnergyTotal(RANGE)
    assert energy.take(50_000_000_000, 0)
    assert energy.take(50_100_000_000, SECOND)
    assert energy.microjoules == 100_000_000
    assert not energy.take(5_000_000, 2 * SECOND)
    assert energy.microjoules == 0
    assert energy.take(8_000_000, 3 * SECOND)
    assert energy.microjoules == 3_000_000


def test_a_slow_reader_still_sees_a_wrap_around() -> None:
    """What can be had within the time between two readings is a wrap-around: 240 kJ in a minute."""
    grown, how = step(20 * 10**9, 5, range_microjoules=RANGE, elapsed_ns=60 * SECOND)
    assert (grown, how) == (RANGE - 20 * 10**9 + 5, "Wrapped")


def test_what_was_not_read_for_long_is_not_known() -> None:
    """After a range's worth of a kilowatt the counter may have wrapped unseen: it began anew."""
    small = 65_712_999_999
    energy = EnergyTotal(small)
    assert energy.take(0, 0)
    assert energy.take(20_000_000_000, small), "65 s are within the range of a kilowatt"
    assert not energy.take(34_287_000_001, small + 200 * SECOND)
    assert energy.microjoules == 0
    assert energy.take(34_287_000_005, small + 201 * SECOND)
    assert energy.microjoules == 4


@given(readings=st.lists(st.integers(0, 2**62), min_size=1, max_size=50))
def test_a_sum_that_dips_or_leaps_for_a_moment_counts_once(readings: list[int]) -> None:
    """A total of parts is its highest reading: what is missed once is not added again."""
    total = Highest.at(readings[0])
    accepted = [total.take(reading) for reading in readings]
    assert total.total == max(readings)
    assert accepted == [reading >= max(readings[: at + 1]) for at, reading in enumerate(readings)]


def test_a_counter_without_a_range_cannot_wrap() -> None:
    """Where the range is not known, a fall ends the total."""
    energy = EnergyTotal(None)
    assert energy.take(10, 0)
    assert not energy.take(5, SECOND)


@given(readings=st.lists(st.integers(0, 2**64), min_size=2, max_size=50))
def test_a_rising_total_never_falls(readings: list[int]) -> None:
    """Whatever a counter shows, its total does not fall, and each fall is reported."""
    total = Rising()
    totals, accepted = [], []
    for reading in readings:
        accepted.append(total.take(reading))
        totals.append(total.total)
    assert all(before <= after for before, after in pairwise(totals))
    assert accepted[1:] == [after >= before for before, after in pairwise(readings)]


def test_a_total_may_begin_with_what_the_counter_shows() -> None:
    """A target's total is the kernel's, so that one that was forgotten goes on where it was."""
    total = Rising.at(700)
    assert total.take(900)
    assert total.total == 900
