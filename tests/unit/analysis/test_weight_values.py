"""The values of weights are counted as shares of the largest in their tensor."""

import numpy as np
import pytest

from inferometer_analysis.weight_values import EDGES, weight_values


def test_shares_count_zeros_and_what_rounding_to_few_bits_makes_zero() -> None:
    """With 8 bits half a step is 127 / 127 / 2, with 4 bits 127 / 7 / 2 = 9.07."""
    found = weight_values([np.array([[0.0, 0.5, 0.6], [9.0, -9.1, -127.0]], np.float32)])
    assert (found.tensors, found.count, found.not_finite) == (1, 6, 0)
    assert found.zero_share == pytest.approx(1 / 6)
    assert found.rounded_to_zero_share == pytest.approx({8: 2 / 6, 4: 4 / 6})


def test_each_tensor_has_a_scale_of_its_own() -> None:
    """The same values a thousand times as large lie in the same bins."""
    values = np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8)
    one, two = weight_values([values]), weight_values([values, 1000 * values])
    assert two.histogram == pytest.approx(one.histogram)
    assert two.rounded_to_zero_share == pytest.approx(one.rounded_to_zero_share)
    assert two.histogram.sum() == pytest.approx(1.0)
    assert len(two.histogram) == len(EDGES) - 1


def test_weights_that_are_no_numbers_are_counted_apart() -> None:
    """They move neither the scale nor the shares."""
    found = weight_values([np.array([[np.nan, np.inf], [1.0, 0.0]], np.float16)])
    assert (found.count, found.not_finite) == (2, 2)
    assert found.zero_share == pytest.approx(0.5)


def test_a_model_without_weights_and_a_tensor_of_zeros_have_shares_too() -> None:
    """Nothing is divided by zero."""
    assert weight_values([]).zero_share == 0
    zeros = weight_values([np.zeros((3, 3), np.float32)])
    assert zeros.zero_share == 1
    assert zeros.rounded_to_zero_share == {8: 1, 4: 1}
