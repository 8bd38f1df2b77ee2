"""The mix of models that the case model-cache-mix requests, and its figures."""

import pytest
from bench.cache_mix import popularity
from bench.case_cache_mix import figures_of


def test_a_fifth_of_the_models_gets_four_fifths_of_the_requests() -> None:
    """The shares of 20 models fall, add up to 1, and follow the Pareto rule."""
    shares = popularity(20)
    assert list(shares) == sorted(shares, reverse=True)
    assert shares.sum() == pytest.approx(1)
    assert shares[:4].sum() == pytest.approx(0.8, abs=0.05)


def test_first_answers_are_split_by_the_tier_that_answered() -> None:
    """Hits and misses have medians of their own; without a hit there is none of hits."""
    answers = [{"seconds": each, "wasCached": each < 1} for each in (0.1, 0.2, 0.3, 2.0, 4.0)]
    found = figures_of({"firstAnswers": answers, "seconds": 10})
    assert found["first answers per second"] == pytest.approx(0.5)
    assert found["p50"] == pytest.approx(300)
    assert found["p50 of those from memory"] == pytest.approx(200)
    assert found["p50 of those from the store"] == pytest.approx(3000)
    assert found["share from memory"] == pytest.approx(60)
    assert "p50 of those from memory" not in figures_of(
        {"firstAnswers": answers[3:], "seconds": 10}
    )
