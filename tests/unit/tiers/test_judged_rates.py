"""The comparison of a probe with a judge: what passes, what fails, and what is inconclusive."""

import itertools
from collections.abc import Mapping

import numpy as np
import pytest

from support import judged_rates
from support.judged_rates import MeasureRates, compare_in_turn
from support.quiet import INCONCLUSIVE

_ROUNDS = 12


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no neighbour disturb the rounds."""
    monkeypatch.setattr(judged_rates, "disturbance", lambda _before, _after: None)


def _rates(factor: float, noise: float, seed: int, drift: "itertools.count[int]") -> MeasureRates:
    """Return a program whose rate scatters, on a machine that becomes slower with each call."""
    rng = np.random.default_rng(seed)

    def measure() -> Mapping[str, float]:
        return {"copy": factor * rng.lognormal(0, noise) * 0.995 ** next(drift)}

    return measure


def _require(factor: float, noise: float) -> None:
    drift = itertools.count()
    probe, judge = _rates(1e9 * factor, noise, 1, drift), _rates(1e9, noise, 2, drift)
    compare_in_turn(probe, judge, _ROUNDS).require()


@pytest.mark.parametrize("factor", [0.97, 1.0, 1.03])
def test_rates_within_the_tolerance_agree(factor: float) -> None:
    """Neither scatter of 2 % nor a machine that loses a fifth of its rate makes them differ."""
    _require(factor, 0.02)


@pytest.mark.parametrize("factor", [0.9, 1.1])
@pytest.mark.parametrize("noise", [0.0, 0.02])
def test_a_probe_that_is_wrong_by_ten_percent_fails(factor: float, noise: float) -> None:
    """It fails with its ratio, on a machine whose rates scatter by 2 %, too."""
    with pytest.raises(pytest.fail.Exception, match=r"more than 5% apart: copy: (0\.[89]|1\.[01])"):
        _require(factor, noise)


@pytest.mark.parametrize("factor", [0.9, 1.0])
def test_a_judge_that_scatters_is_inconclusive(factor: float) -> None:
    """Where the judge does not repeat itself, nothing passes or fails, and the figure is shown."""
    with pytest.raises(pytest.skip.Exception, match=rf"{INCONCLUSIVE}: the rates scatter; copy: "):
        _require(factor, 0.2)


def test_a_difference_that_may_be_chance_is_inconclusive() -> None:
    """A probe that is right in only half of the rounds neither passes nor fails."""
    rates = itertools.cycle([1.0, 1.0, 1.12, 1.12])
    agreement = compare_in_turn(lambda: {"copy": next(rates)}, lambda: {"copy": 1.0}, _ROUNDS)
    with pytest.raises(pytest.skip.Exception, match=rf"{INCONCLUSIVE}: .*copy: 1\.060"):
        agreement.require()


def test_a_busy_machine_is_inconclusive(monkeypatch: pytest.MonkeyPatch) -> None:
    """The neighbours and the ratio are in the reason."""
    monkeypatch.setattr(judged_rates, "disturbance", lambda _before, _after: "others took 9 %")
    with pytest.raises(pytest.skip.Exception, match=r"others took 9 %; copy: 0\.90"):
        _require(0.9, 0.0)
