"""Shares of the models of a mix."""

import pytest

from inferometer_api.spec.model_mix import MixedModel, MixWeights, mix_shares


def test_weights_are_relative() -> None:
    """A weight counts against the sum of all."""
    mix = [MixedModel(model="a", weight=3), MixedModel(model="b", weight="0.5")]
    assert mix_shares(mix, None) == pytest.approx((3 / 3.5, 0.5 / 3.5))


@pytest.mark.parametrize(
    ("weights", "relative"),
    [
        ("Uniform", (1.0, 1.0, 1.0)),
        ("Zipf", (1.0, 1 / 2, 1 / 3)),
        ("Pareto", (1 - 2**-1.5, 2**-1.5 - 3**-1.5, 3**-1.5 - 4**-1.5)),
    ],
)
def test_weights_by_rank(weights: MixWeights, relative: tuple[float, ...]) -> None:
    """The order of the models gives their weights: equal, 1/k, or a Pareto law of shape 1.5."""
    mix = [MixedModel(model=name) for name in "abc"]
    shares = mix_shares(mix, weights)
    assert shares == pytest.approx([each / sum(relative) for each in relative])
    assert sum(shares) == pytest.approx(1)
