"""Schedules are reproducible, exact, and have the requested rate and distribution."""

import hashlib
import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferometer_api.scenarios.step_setting import Bursts
from inferometer_loadgen.schedule.arrivals import (
    Constant,
    EndlessArrivals,
    MeasuredArrivals,
    Offsets,
    PhasedPoisson,
    Poisson,
    Replay,
    Schedule,
    Stream,
    WindowLimits,
    arrivals,
    generator,
    probe_seed,
)
from inferometer_loadgen.schedule.steps import SECOND_NS, LoadShare

BURSTS = Bursts(50_000, 800_000, SECOND_NS // 2, 2 * SECOND_NS)
PROBE_SEEDS = [2195756909, 3134381565]
RATES = st.integers(1, 10_000_000_000 - 1)


def poisson(milli_qps: int, seed: int = 42) -> Poisson:
    """Return the measured Poisson schedule of a seed."""
    return Poisson(milli_qps, generator(seed, Stream.MEASURED))


def in_blocks(schedule: Schedule, sizes: list[int]) -> Offsets:
    """Take a schedule in blocks of these sizes."""
    return np.concatenate([np.empty(0, np.int64), *(schedule.take(size) for size in sizes)])


def test_the_bytes_of_a_schedule_are_pinned() -> None:
    """Seed 42 at 1,000 queries a second gives these bytes, on every machine and version."""
    digest = hashlib.sha256(poisson(1_000_000).take(100_000).astype("<i8").tobytes()).hexdigest()
    assert digest == "6b151f2443f751d0a4ace17959f02da38374938e8d8ebc4b9acf4188f36516a3"


@given(RATES, st.integers(0, 2**32 - 1), st.lists(st.integers(0, 300), max_size=8))
def test_no_block_size_changes_a_schedule(rate: int, seed: int, sizes: list[int]) -> None:
    """A schedule is the same byte for byte, whatever its blocks."""
    whole = poisson(rate, seed).take(sum(sizes))
    assert whole.dtype == np.int64
    assert np.array_equal(in_blocks(poisson(rate, seed), sizes), whole)
    assert np.array_equal(in_blocks(Constant(rate), sizes), Constant(rate).take(sum(sizes)))


@given(RATES, st.integers(0, 2**32 - 1))
def test_arrivals_come_in_order(rate: int, seed: int) -> None:
    """No arrival is before the last, and none before the start."""
    offsets = poisson(rate, seed).take(500)
    assert offsets[0] >= 0
    assert (np.diff(offsets) >= 0).all()


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
def test_the_rate_is_the_requested_one(seed: int, milli_qps: int) -> None:
    """The mean gap is within 4 standard errors of the requested one."""
    count = 50_000
    mean = int(poisson(milli_qps, seed).take(count)[-1]) / count
    requested_gap = 10**12 / milli_qps
    assert abs(mean - requested_gap) < 4 * requested_gap / math.sqrt(count)


@pytest.mark.parametrize("seed", [0, 42])
def test_gaps_are_uncorrelated(seed: int) -> None:
    """Neighbouring gaps are not correlated."""
    gaps = np.diff(poisson(100_000, seed).take(50_000)).astype(np.float64)
    assert abs(np.corrcoef(gaps[:-1], gaps[1:])[0, 1]) < 4 / math.sqrt(len(gaps))


def test_streams_of_a_seed_are_independent() -> None:
    """No two share a number, and the measured one is PCG64 of the seed itself."""
    measured = arrivals("Poisson", 1000, 7, Stream.MEASURED).take(10)
    plain = np.random.Generator(np.random.PCG64(7)).standard_exponential(10) * 1e9
    assert np.array_equal(measured, np.rint(plain).astype(np.int64).cumsum())
    assert {each.name for each in Stream} == {
        *("MEASURED", "WARM_UP", "INPUTS", "PHASES", "PROBES", "MODELS")
    }
    assert len({generator(7, each).random() for each in Stream.__members__.values()}) == 6


def one_by_one(schedule: Schedule) -> Iterator[int]:
    """Yield a schedule's arrivals one after the other."""
    while True:
        yield from schedule.take(64).tolist()


def within(window: MeasuredArrivals) -> list[int]:
    """Return a share's arrivals within its window."""
    found: list[int] = []
    while not window.is_complete:
        found += window.take().tolist()
    return found


@settings(max_examples=50)
@given(
    st.integers(10**3, 10**7),
    st.integers(1, 10**10),
    st.integers(1, 5000),
    st.integers(0, 10**10),
)
def test_a_window_ends_when_both_minimums_hold(
    milli_qps: int, least_ns: int, min_count: int, extra_ns: int
) -> None:
    """It has the arrivals before its minimum duration, and more until there are enough.

    Then it lasts until the next would be due: a constant rate is found to be what it is.
    """
    longest_ns = least_ns + extra_ns
    window = MeasuredArrivals(Constant(milli_qps), WindowLimits(least_ns, min_count, longest_ns))
    found = within(window)
    expected: list[int] = []
    for offset in one_by_one(Constant(milli_qps)):
        enough = len(expected) >= min_count and offset >= least_ns
        if enough or offset >= longest_ns:
            break
        expected.append(offset)
    assert found == expected
    assert window.count == len(found)
    assert window.ended_early == (len(found) < min_count)
    if window.ended_early:
        assert window.duration_ns == longest_ns
    elif found[-1] < least_ns:
        assert window.duration_ns == least_ns
    else:
        assert window.duration_ns == min(offset, longest_ns)


@settings(max_examples=50)
@given(
    seed=st.integers(0, 2**32 - 1),
    workers=st.integers(1, 40),
    min_count=st.integers(1, 5000),
    kind=st.sampled_from(["Poisson", "Bursts", "Replay"]),
)
def test_shares_are_the_schedule(seed: int, workers: int, min_count: int, kind: str) -> None:
    """Worker i has the arrivals k with k % N == i, and all agree on when the window ends."""
    limits = WindowLimits(
        2 * SECOND_NS, min_count, 30 * SECOND_NS, last=700 if kind == "Replay" else None
    )

    def schedule() -> Schedule:
        match kind:
            case "Poisson":
                return poisson(200_000, seed)
            case "Bursts":
                return PhasedPoisson(BURSTS, seed, Stream.MEASURED)
            case _:
                return Replay(poisson(200_000, seed).take(700))

    whole = MeasuredArrivals(schedule(), limits)
    arrivals_of_all = within(whole)
    for index in range(workers):
        share = MeasuredArrivals(schedule(), limits, LoadShare(index, workers))
        assert within(share) == arrivals_of_all[index::workers]
        assert share.duration_ns == whole.duration_ns
        assert share.ended_early == whole.ended_early
        assert share.count == whole.count
        warm_up = EndlessArrivals(schedule(), LoadShare(index, workers))
        found = np.concatenate([warm_up.take() for _ in range(3)])
        assert np.array_equal(found, schedule().take(3 * 1024)[index::workers])


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1), st.lists(st.integers(0, 300), max_size=8))
def test_no_block_size_changes_bursts_or_a_replay(seed: int, sizes: list[int]) -> None:
    """Bursts and a replayed trace are the same, whatever their blocks."""
    bursts = Bursts(2_000, 50_000, SECOND_NS, 3 * SECOND_NS)
    whole = PhasedPoisson(bursts, seed, Stream.MEASURED).take(sum(sizes))
    assert np.array_equal(in_blocks(PhasedPoisson(bursts, seed, Stream.MEASURED), sizes), whole)
    assert (np.diff(whole) >= 0).all()
    times = poisson(1_000, seed).take(37)
    replayed = Replay(times).take(sum(sizes))
    assert np.array_equal(in_blocks(Replay(times), sizes), replayed)
    assert (np.diff(replayed) >= 0).all()
    assert np.array_equal(replayed[:37], times[: len(replayed)])


@pytest.mark.parametrize("seed", [0, 1, 42])
def test_bursts_are_poisson_at_both_rates(seed: int) -> None:
    """Counts in burst and base have the requested mean, and their variance is their mean."""
    bursts = Bursts(40_000, 400_000, SECOND_NS, 4 * SECOND_NS)
    periods = 400
    offsets = PhasedPoisson(bursts, seed, Stream.MEASURED).take(periods * 500 * 12 // 10)
    seconds = np.bincount(offsets // SECOND_NS, minlength=4 * periods)[: 4 * periods]
    by_place = seconds.reshape(periods, 4)
    for counts, mean in ((by_place[:, 0], 400), (by_place[:, 1:].ravel(), 40)):
        assert abs(counts.mean() - mean) < 4 * math.sqrt(mean / len(counts))
        # The variance of a sample variance of n Poisson counts is near 2 mean^2 / n.
        assert abs(counts.var() - mean) < 5 * mean * math.sqrt(2 / len(counts))


def test_streams_and_phases_of_bursts_are_independent() -> None:
    """Warm-up, window and each period draw from separate streams."""
    measured = PhasedPoisson(BURSTS, 7, Stream.MEASURED).take(2000)
    assert not np.array_equal(measured, PhasedPoisson(BURSTS, 7, Stream.WARM_UP).take(2000))
    first = measured[measured < BURSTS.burst_ns]
    second = measured[(measured >= BURSTS.period_ns)] - BURSTS.period_ns
    assert not np.array_equal(first[:20], second[:20])


def test_a_trace_ends_with_its_last_arrival() -> None:
    """The window is as long as the trace, whatever the minimums; a maximum ends it."""
    times = np.array([0, 5, 5, 2 * SECOND_NS], np.int64)
    short = MeasuredArrivals(Replay(times), WindowLimits(60 * SECOND_NS, 1024, 600 * SECOND_NS, 4))
    assert within(short) == times.tolist()
    assert (short.duration_ns, short.ended_early) == (2 * SECOND_NS, False)
    cut = MeasuredArrivals(Replay(times), WindowLimits(SECOND_NS, 1, SECOND_NS, 4))
    assert within(cut) == [0, 5, 5]
    assert (cut.duration_ns, cut.ended_early) == (SECOND_NS, True)


@pytest.mark.parametrize("times", [[0], [0, 0, 0], [5, 5], [0, 100_000_000]])
def test_a_trace_of_a_moment_is_replayed_once_a_second(times: list[int]) -> None:
    """A warm-up longer than the trace has at most that load."""
    replayed = Replay(np.array(times, np.int64)).take(5 * len(times))
    again = [SECOND_NS * second + time for second in range(5) for time in times]
    assert replayed.tolist() == again


def test_a_longer_trace_repeats_after_its_mean_gap() -> None:
    """A round is the trace plus its mean gap."""
    times = np.array([0, 4 * SECOND_NS], np.int64)
    assert Replay(times).take(4).tolist() == [0, *(SECOND_NS * each for each in (4, 6, 10))]


def test_the_seed_of_a_probe_is_fixed() -> None:
    """Each probe of a search has a seed of its own, the same in every version."""
    seeds = [probe_seed(42, probe) for probe in range(100)]
    assert seeds[:2] == PROBE_SEEDS
    assert len(set(seeds)) == 100
    assert all(0 <= seed < 2**32 for seed in seeds)
