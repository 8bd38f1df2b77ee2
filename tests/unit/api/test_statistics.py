"""Quantiles of Student's t."""

import pytest

from inferometer_api.statistics import student_quantile


@pytest.mark.parametrize(
    ("degrees_of_freedom", "quantile"),
    [
        *[(1, 12.7062), (2, 4.3027), (4, 2.7764), (5, 2.5706), (10, 2.2281), (19, 2.0930)],
        *[(30, 2.0423), (60, 2.0003), (100, 1.9840), (10_000, 1.9602)],
    ],
)
def test_quantiles_agree_with_printed_tables(degrees_of_freedom: int, quantile: float) -> None:
    """The 0.975 quantile agrees with Abramowitz and Stegun, table 26.10, to four decimals."""
    assert student_quantile(0.975, degrees_of_freedom) == pytest.approx(quantile, abs=5e-5)
