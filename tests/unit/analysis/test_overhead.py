"""The overhead ladder attributes a delay to the rung that adds it."""

from itertools import pairwise

import numpy as np
import pytest

from inferometer_analysis.overhead import Pair, difference, ladder

RUNGS = ["in process", "server", "pod", "Service", "KServe"]
TRUTH_US = [4000.0, 4150.0, 4230.0, 4260.0, 4600.0]
DELAY_US = 500.0
ROUNDS = 32
SCATTER = 0.002
"""Of medians: so little that the interval of the gap is within 5 % of the overhead."""


def rounds_of(
    random: np.random.Generator, lower: float, upper: float, drift: float = 0.0
) -> list[Pair]:
    """Return medians of two rungs on a machine that gets slower by `drift` in each round."""
    found = []
    for number in range(ROUNDS):
        slower = 1 + drift * number
        pair = [each * slower * (1 + random.normal(0, SCATTER)) for each in (lower, upper)]
        found.append((pair[0], pair[1]))
    return found


@pytest.mark.parametrize("planted", range(1, len(RUNGS)))
@pytest.mark.parametrize("drift", [0.0, 0.0025])
def test_a_planted_delay_is_attributed_to_its_rung(planted: int, drift: float) -> None:
    """500 us at any rung are found there within 10 %, and nowhere else; also while it drifts."""
    random = np.random.default_rng(planted)
    slow = [each + DELAY_US * (place >= planted) for place, each in enumerate(TRUTH_US)]

    def measured(truth: list[float]) -> list[float]:
        pairs = [rounds_of(random, *pair, drift) for pair in pairwise(truth)]
        found = ladder(RUNGS, pairs, rounds_of(random, truth[0], truth[-1], drift))
        assert found.outcome == "closes"
        return [each.added for each in found.steps]

    added = np.array(measured(slow)) - np.array(measured(TRUTH_US))
    assert added[planted - 1] == pytest.approx(DELAY_US, rel=0.1)
    assert max(abs(each) for place, each in enumerate(added) if place != planted - 1) < 50


def test_a_ladder_that_does_not_close_is_seen() -> None:
    """A delay that only the direct comparison has is no rung's."""
    random = np.random.default_rng(1)
    pairs = [rounds_of(random, a, b) for a, b in pairwise(TRUTH_US)]
    found = ladder(RUNGS, pairs, rounds_of(random, TRUTH_US[0], TRUTH_US[-1] + DELAY_US))
    assert found.outcome == "does not close"
    assert found.gap == pytest.approx(DELAY_US, rel=0.15)
    assert found.unexplained == pytest.approx(DELAY_US / (600 + DELAY_US), rel=0.15)


def test_a_small_overhead_over_a_slow_engine_is_explained_or_not() -> None:
    """The overhead counts, not the latency of the engine; noise leaves the question open."""

    def outcome(direct: float, noise: float = 0.0) -> str:
        engine = 30_000.0

        def rounds(added: float) -> list[Pair]:
            return [(engine, engine + added + each) for each in (-noise, 0.0, noise)]

        found = ladder(RUNGS[:3], [rounds(300.0), rounds(50.0)], rounds(direct))
        assert found.unexplained == pytest.approx(abs(direct - 350) / direct)
        return found.outcome

    assert outcome(1800.0) == "does not close"
    assert outcome(360.0) == "closes"
    assert outcome(400.0) == "does not close"
    assert outcome(400.0, noise=100.0) == "undecided"
    assert outcome(1800.0, noise=100.0) == "does not close"
    # The gap is small, but its interval reaches beyond 5 % of the overhead.
    assert outcome(350.0, noise=100.0) == "undecided"
    assert outcome(360.0, noise=100.0) == "undecided"
    assert outcome(360.0, noise=1.0) == "closes"


def test_a_ladder_of_one_step_adds_up() -> None:
    """What a reader adds up line by line is the whole, however uneven the rounds are."""
    rounds = [(1.0, 2.0), (1.5, 9.0), (4.0, 4.6)]
    found = ladder(RUNGS[:2], [rounds], rounds)
    (step,) = found.steps
    assert step.below + step.added == pytest.approx(found.whole)


def test_the_interval_is_student_s() -> None:
    """The margin is t times the standard error; too few rounds have none."""
    mean, margin = difference([(0.0, 1.0), (0.0, 2.0), (0.0, 3.0)])
    assert mean == 2.0
    assert margin == pytest.approx(4.30265273 / np.sqrt(3))
    mean, margin = difference([(0.0, float(number)) for number in range(31)])
    assert mean == 15.0
    assert margin == pytest.approx(2.04227246 * np.sqrt(32 / 12))
    with pytest.raises(ValueError, match="at least 3 rounds, not 2"):
        difference([(0, 1), (0, 1)])
