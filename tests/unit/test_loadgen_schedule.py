"""Are schedules what they say: seeded, exact, of the asked rate and law?"""

import hashlib
import math
from fractions import Fraction
from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferometer_loadgen.schedule import (
    Constant,
    MeasuredArrivals,
    Offsets,
    Poisson,
    Schedule,
    Stream,
    arrivals,
    generator,
    one_by_one,
)

RATES = st.integers(1, 10_000_000_000 - 1)


def poisson(milli_qps: int, seed: int = 42) -> Poisson:
    """Return the measured Poisson schedule of a seed."""
    return Poisson(milli_qps, generator(seed, Stream.MEASURED))


def in_blocks(schedule: Schedule, sizes: list[int]) -> Offsets:
    """Take a schedule in blocks of these sizes."""
    return np.concatenate([np.empty(0, np.int64), *(schedule.take(size) for size in sizes)])


def test_the_bytes_of_a_schedule_are_pinned() -> None:
    """Seed 42 at 1,000 queries a second gives these very bytes, on every machine and version."""
    digest = hashlib.sha256(poisson(1_000_000).take(100_000).astype("<i8").tobytes()).hexdigest()
    assert digest == "6b151f2443f751d0a4ace17959f02da38374938e8d8ebc4b9acf4188f36516a3"


@settings(deadline=None)
@given(RATES, st.integers(0, 2**32 - 1), st.lists(st.integers(0, 300), max_size=8))
def test_no_block_size_changes_a_schedule(rate: int, seed: int, sizes: list[int]) -> None:
    """A schedule is the same byte for byte, whatever the blocks that it is made in."""
    whole = poisson(rate, seed).take(sum(sizes))
    assert whole.dtype == np.int64
    assert np.array_equal(in_blocks(poisson(rate, seed), sizes), whole)
    assert np.array_equal(in_blocks(Constant(rate), sizes), Constant(rate).take(sum(sizes)))


@settings(deadline=None)
@given(RATES, st.integers(0, 2**32 - 1))
def test_arrivals_come_in_order(rate: int, seed: int) -> None:
    """No arrival is before the last, and none before the start."""
    offsets = poisson(rate, seed).take(500)
    assert offsets[0] >= 0
    assert (np.diff(offsets) >= 0).all()


@settings(deadline=None)
@given(RATES, st.integers(0, 5_000))
def test_constant_arrivals_are_exact(rate: int, skipped: int) -> None:
    """The k-th arrival is the whole nanosecond below k gaps: rounding never adds up."""
    schedule = Constant(rate)
    schedule.take(skipped)
    for index, offset in enumerate(schedule.take(50).tolist(), skipped):
        assert offset == math.floor(Fraction(index * 10**12, rate))


@pytest.mark.parametrize("seed", [0, 1, 42, 2**32 - 1])
def test_gaps_are_exponential(seed: int) -> None:
    """The gaps follow the exponential law: Kolmogorov's distance is below its 0.1 % point."""
    count = 20_000
    gaps = np.sort(np.diff(poisson(50_000, seed).take(count + 1)))
    law = 1 - np.exp(-gaps / 20_000_000)
    steps = np.arange(count + 1) / count
    distance = max(np.abs(law - steps[1:]).max(), np.abs(law - steps[:-1]).max())
    assert distance < 1.95 / math.sqrt(count)


@pytest.mark.parametrize("seed", [0, 1, 42])
@pytest.mark.parametrize("milli_qps", [1, 12_500, 20_000_000])
def test_the_rate_is_the_asked_one(seed: int, milli_qps: int) -> None:
    """The mean gap is within 4 standard errors of what was asked."""
    count = 50_000
    mean = int(poisson(milli_qps, seed).take(count)[-1]) / count
    asked = 10**12 / milli_qps
    assert abs(mean - asked) < 4 * asked / math.sqrt(count)


@pytest.mark.parametrize("seed", [0, 42])
def test_gaps_do_not_know_of_each_other(seed: int) -> None:
    """Neighbouring gaps are not correlated."""
    gaps = np.diff(poisson(100_000, seed).take(50_000)).astype(np.float64)
    assert abs(np.corrcoef(gaps[:-1], gaps[1:])[0, 1]) < 4 / math.sqrt(len(gaps))


def test_streams_of_a_seed_are_independent() -> None:
    """Warm-up draws from a stream of its own, and the measured one is PCG64 of the seed itself."""
    measured = arrivals("Poisson", 1000, 7, Stream.MEASURED).take(10)
    warm_up = arrivals("Poisson", 1000, 7, Stream.WARM_UP).take(10)
    plain = np.random.Generator(np.random.PCG64(7)).standard_exponential(10) * 1e9
    assert np.array_equal(measured, np.rint(plain).astype(np.int64).cumsum())
    assert not np.array_equal(measured, warm_up)


@settings(max_examples=50, deadline=None)
@given(
    st.integers(1, 10**6),
    st.integers(1, 10**10),
    st.integers(1, 500),
    st.integers(0, 10**10),
)
def test_a_window_ends_when_both_minimums_hold(
    milli_qps: int, least_ns: int, least_count: int, extra_ns: int
) -> None:
    """A window has just the arrivals before its least duration, and more until there are enough."""
    longest_ns = least_ns + extra_ns
    window = MeasuredArrivals(Constant(milli_qps), least_ns, least_count, longest_ns)
    found = list(islice(window, 20_000))
    if len(found) == 20_000:
        return
    expected: list[int] = []
    for offset in one_by_one(Constant(milli_qps)):
        enough = len(expected) >= least_count and offset >= least_ns
        if enough or offset >= longest_ns:
            break
        expected.append(offset)
    assert found == expected
    assert window.count == len(found)
    assert window.ended_early == (len(found) < least_count)
    if window.ended_early:
        assert window.duration_ns == longest_ns
    else:
        assert least_ns <= window.duration_ns <= longest_ns
    assert not found or found[-1] <= window.duration_ns
