"""The search of `inferometer tune` on grids whose best cell is known."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest

from inferometer_analysis.tune.candidates import Candidate, candidates
from inferometer_analysis.tune.halving import FINALISTS, Halving, plan_rungs, seconds_of

ENGINES = [("OnnxRuntime", "Default"), ("OpenVino", "FP32"), ("OpenVino", "BF16")]
FULL_SECONDS, START_SECONDS = 60.0, 2.0
BOUND_SECONDS = 0.05


def grid_of(seed: int, cpus: int = 4) -> tuple[list[Candidate], list[float]]:
    """Return candidates and the true rate of each within the bound, of a machine by chance."""
    made = np.random.default_rng(seed)
    found = candidates(cpus, ENGINES, [4, 8], delay_us=1000, most=48)
    speeds = {engine: made.uniform(0.8, 2.5) for engine in ENGINES}
    one = made.uniform(0.002, 0.02)
    scaling, contention, gain = made.uniform(0.5, 0.95), made.uniform(0, 0.1), made.uniform(0, 0.6)

    def rate(each: Candidate) -> float:
        speed = speeds[each.runtime, each.precision]
        seconds = one / speed / each.threads**scaling
        seconds *= 1 + contention * (each.instances - 1)
        if each.max_batch_size:
            size = each.max_batch_size
            seconds *= 1 - gain * (1 - 1 / size)
            if size * seconds + each.max_delay_microseconds / 1e6 > BOUND_SECONDS:
                return 0.0
        elif seconds > BOUND_SECONDS:
            return 0.0
        return float(each.instances / seconds)

    return found, [rate(each) for each in found]


def replayed(seed: int, truth: list[float]) -> tuple[float, float]:
    """Search a grid by noisy measurements; return the share of the optimum and of the time."""
    noise = np.random.default_rng(1000 + seed)

    def measured(index: int, seconds: float) -> float:
        scatter = noise.normal(0, 0.02) + noise.normal(0, 0.08 / seconds**0.5)
        return float(truth[index] * max(0.0, 1 + scatter))

    rungs = plan_rungs(len(truth), full_seconds=FULL_SECONDS, start_seconds=START_SECONDS)
    search = Halving(len(truth), rungs, seed)
    spent = 0.0
    while (round_ := search.next_round())[0]:
        for index in round_[0]:
            search.observe(index, measured(index, round_[1]), round_[1])
            spent += START_SECONDS + round_[1]
    best = max(search.finalists(), key=lambda each: measured(each, FULL_SECONDS))
    spent += FINALISTS * (START_SECONDS + FULL_SECONDS)
    return truth[best] / max(truth), spent / (len(truth) * (START_SECONDS + FULL_SECONDS))


def test_the_optimum_is_reached_in_a_fifth_of_the_time() -> None:
    """At least 18 of 20 grids give 95 % of the best rate, in 20 % of the time of a full grid."""
    shares = []
    for seed in range(20):
        found, truth = grid_of(seed)
        assert 24 <= len(found) <= 48
        share, spent = replayed(seed, truth)
        assert spent <= 0.2 + 1e-9
        shares.append(share)
    assert sum(share >= 0.95 for share in shares) >= 18, shares


def test_a_search_that_ignored_the_rates_would_be_seen() -> None:
    """The grids are not flat: a cell by chance has far less than the optimum."""
    shares = []
    for seed in range(20):
        _, truth = grid_of(seed)
        shares.append(sum(truth) / len(truth) / max(truth))
    assert max(shares) < 0.8


@pytest.mark.parametrize("count", [1, 3, 4, 10, 48, 200])
def test_rungs_get_smaller_and_longer(count: int) -> None:
    """Fewer candidates are measured longer, and at least one more than the finalists begin."""
    rungs = plan_rungs(count, full_seconds=FULL_SECONDS, start_seconds=START_SECONDS)
    assert all(a.count > b.count and a.seconds <= b.seconds for a, b in pairwise(rungs))
    assert [each.count for each in rungs][:1] == ([count] if count > FINALISTS else [])
    if count >= 48:
        whole = count * (FULL_SECONDS + START_SECONDS)
        finals = FINALISTS * (FULL_SECONDS + START_SECONDS)
        assert seconds_of(rungs, START_SECONDS) + finals <= 0.2 * whole + 1e-6


RECORDED = (
    ("OnnxRuntime, 1 x 1", 503, (295, 282, 337, 274, 302, 352, 455, 324, 408, 350)),
    ("OnnxRuntime, 2 x 1", 813, (364, 447, 0, 323, 337, 477, 332, 353)),
    ("OnnxRuntime, 1 x 2", 511, (241, 148, 276, 213, 284, 180, 300, 263, 184)),
    ("OpenVino FP32, 1 x 1", 527, (271, 251, 375, 320, 268, 378, 351, 258, 299)),
    ("OpenVino FP32, 2 x 1", 706, (350, 384, 341, 353, 249, 261, 349, 350, 318)),
    ("OpenVino FP32, 1 x 2", 418, (327, 305, 418, 324, 262, 320, 298, 256, 297, 337, 358)),
    ("OpenVino BF16, 1 x 1", 729, (400, 315, 424, 352, 539, 449, 438, 472)),
    ("OpenVino BF16, 2 x 1", 777, (459, 444, 397, 407, 455, 490, 447, 391)),
    ("OpenVino BF16, 1 x 2", 523, (311, 469, 511, 440, 419, 465, 472, 462, 309, 435, 523)),
)
"""Trials of ShuffleNet on two CPUs, instances x threads: the rate on the idle machine, and rates
while other processes used about one of the CPUs. Three candidates
(OnnxRuntime 1 x 1, FP32 and BF16 1 x 2) never had the idle machine: theirs is the highest rate."""
_CHANGES = 0.25
"""Probability that the other processes begin, or end, from one trial to the next."""


def share_on_busy_machine(seed: int, *, is_reported: bool) -> float:
    """Search the recorded grid while others come and go; return the finalists' share of the best.

    `is_reported`: whether the search learns which trials were disturbed.
    """
    chance = np.random.default_rng(seed)
    rungs = plan_rungs(len(RECORDED), full_seconds=FULL_SECONDS, start_seconds=START_SECONDS)
    search = Halving(len(RECORDED), rungs, seed)
    is_busy = bool(chance.random() < 0.5)
    while (round_ := search.next_round())[0]:
        for index in round_[0]:
            is_busy ^= bool(chance.random() < _CHANGES)
            _, idle, busy = RECORDED[index]
            rate = float(chance.choice(busy) if is_busy else idle * chance.normal(1, 0.03))
            search.observe(index, rate, round_[1], is_disturbed=is_busy and is_reported)
    rates = [idle for _, idle, _ in RECORDED]
    return max(rates[each] for each in search.finalists()) / max(rates)


def test_other_processes_do_not_hide_the_optimum() -> None:
    """On a recorded grid, at least 18 of 20 searches next to other work keep 95 % of the best.

    A search that takes disturbed rates for true ones does not: next to other work, two instances
    are no faster than one.
    """
    found = [share_on_busy_machine(seed, is_reported=True) for seed in range(20)]
    assert sum(share >= 0.95 for share in found) >= 18, found
    naive = [share_on_busy_machine(seed, is_reported=False) for seed in range(20)]
    assert sum(share >= 0.95 for share in naive) < 18, naive


def test_a_disturbed_candidate_is_measured_again_after_the_others() -> None:
    """It is at most twice; an undisturbed measurement then counts alone."""
    search = Halving(5, plan_rungs(5, full_seconds=10, start_seconds=0), 1)
    first, seconds = search.next_round()
    for index in first:
        search.observe(index, 10.0 + index, seconds, is_disturbed=index in {1, 4})
    repeating = [search.is_repeating]
    assert sorted(search.next_round()[0]) == [1, 4]
    assert [*repeating, search.is_repeating] == [False, True]
    search.observe(1, 50.0, seconds)
    search.observe(4, 7.0, seconds, is_disturbed=True)
    assert search.next_round()[0] == [4]
    search.observe(4, 12.0, seconds, is_disturbed=True)
    assert search.next_round()[0] == []
    assert search.rates() == {0: 10.0, 1: 50.0, 2: 12.0, 3: 13.0, 4: 14.0}
    assert search.finalists() == [1, 4, 3]


def search_of(count: int, rate: Callable[[int], float]) -> Halving:
    """Return the search of exact rates at its end."""
    search = Halving(count, plan_rungs(count, full_seconds=10, start_seconds=0), 1)
    while (round_ := search.next_round())[0]:
        for index in round_[0]:
            search.observe(index, rate(index), round_[1])
    return search


def test_exact_rates_give_the_three_best() -> None:
    """Without noise the finalists are the best three, in order."""
    assert search_of(30, lambda index: (index * 7) % 30).finalists() == [
        index for _, index in sorted(((i * 7) % 30, i) for i in range(30))[::-1][:3]
    ]


def test_a_longer_measurement_of_a_candidate_counts_more() -> None:
    """Rungs get longer: what was measured briefly at first is no more than a hint."""
    search = Halving(4, plan_rungs(4, full_seconds=10, start_seconds=0), 1)
    search.observe(0, 10.0, 1.0)
    search.observe(0, 20.0, 3.0)
    assert search.rates() == {0: 17.5}


def test_what_misses_the_bound_is_no_finalist() -> None:
    """A candidate without any rate within the bound is not confirmed."""
    assert search_of(12, lambda index: 5.0 if index == 4 else 0.0).finalists() == [4]
    assert search_of(12, lambda _: 0.0).finalists() == []


def test_an_excluded_candidate_is_not_measured_again() -> None:
    """What computes something else is out, however fast."""
    search = Halving(9, plan_rungs(9, full_seconds=10, start_seconds=0), 1)
    first, seconds = search.next_round()
    assert sorted(first) == list(range(9))
    for index in first:
        search.observe(index, float(index), seconds)
    search.exclude(8)
    later = [search.next_round()[0] for _ in range(4)]
    assert all(8 not in each for each in later)
    assert search.finalists() == [7, 6, 5]


def test_every_round_has_an_order_of_its_own() -> None:
    """What changes slowly on the machine affects all candidates alike."""
    orders = [Halving(20, plan_rungs(20, full_seconds=9, start_seconds=0), s) for s in (1, 2)]
    first, second = (each.next_round()[0] for each in orders)
    assert sorted(first) == sorted(second) == list(range(20))
    assert first != second


def test_a_grid_that_is_too_large_uses_more_cpus() -> None:
    """Combinations that leave CPUs idle go first, then large batches, and the rest is refused."""
    small = candidates(2, ENGINES, [4, 8], delay_us=1, most=48)
    assert len(small) == 3 * 3 * 3
    assert {(each.threads, each.instances) for each in small} == {(1, 1), (1, 2), (2, 1)}
    large = candidates(16, ENGINES, [4, 8], delay_us=1, most=48)
    assert len(large) <= 48
    assert {each.threads * each.instances for each in large} == {16}
    with pytest.raises(ValueError, match="name fewer"):
        candidates(64, ENGINES, [], delay_us=1, most=5)


def test_a_candidate_is_a_server_of_the_spec() -> None:
    """Joining has a delay only where there is joining."""
    alone, joined = candidates(1, ENGINES[:1], [4], delay_us=500, most=9)
    assert alone.server() == {
        "runtime": "OnnxRuntime",
        "precision": "Default",
        "threads": 1,
        "instances": 1,
    }
    assert joined.server()["batching"] == {"maxBatchSize": 4, "maxDelayMicroseconds": 500}
    assert joined.most_useful_clients == 4
    assert joined.label == "OnnxRuntime, 1 instance of 1 thread, batches of up to 4"
