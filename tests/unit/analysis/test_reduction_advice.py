"""Advice on reductions, on figures recorded on an NVIDIA H200 on 2026-11-26."""

import pytest

from inferometer_analysis.reduction_advice import (
    MatrixUnitRates,
    Reduction,
    advise_matrix_units,
    predicted_ns,
)

_H200 = MatrixUnitRates(
    sums={16: 4.38e12, 64: 4.17e12, 1024: 4.48e12},
    scans={16: 4.14e12, 1024: 4.13e12},
    copy_bytes_per_second=4.26e12,
    launch_ns=2_000,
)
_MOVED = 2 * (1 << 29) + 4 * (1 << 23)
"""Of sums over 2^29 elements in segments of 64, for which CUB took 1.3809 ms."""
_BY_CUB = Reduction("ReduceSum", 64, _MOVED, 1_380_900)


def test_a_slow_sum_is_predicted_by_the_rate_at_its_length() -> None:
    """The bytes that must be moved, at the rate of the next shorter length, and a launch."""
    assert predicted_ns(_BY_CUB, _H200) == pytest.approx(2_000 + 1e9 * _MOVED / 4.17e12)
    longer = Reduction("ReduceMean", 1000, _MOVED, 1.0)
    assert predicted_ns(longer, _H200) == predicted_ns(_BY_CUB, _H200)
    shorter = Reduction("ReduceMean", 5, _MOVED, 1.0)
    assert predicted_ns(shorter, _H200) == pytest.approx(2_000 + 1e9 * _MOVED / 4.38e12)


def test_advice_names_the_reductions_and_what_they_would_save() -> None:
    """A model whose one slow sum takes half of its time."""
    found = advise_matrix_units([_BY_CUB], _H200, 2 * _BY_CUB.nanoseconds)
    assert found is not None
    assert found.question == "Q3"
    assert found.gain.value == pytest.approx(0.405, abs=0.005)
    assert found.sentence.startswith("Reductions (ReduceSum) take 1.381 ms")
    assert "custom operator" in found.why_not


def test_a_normalisation_gains_at_most_what_it_takes_beyond_a_copy() -> None:
    """Its elements must be moved in any case."""
    moved = 4 * (1 << 29)
    at_copy = Reduction("Softmax", 1024, moved, 1e9 * moved / 4.26e12)
    assert advise_matrix_units([at_copy], _H200, at_copy.nanoseconds) is None
    slow = Reduction("LayerNormalization", 1024, moved, 3 * at_copy.nanoseconds)
    found = advise_matrix_units([slow, at_copy], _H200, slow.nanoseconds)
    assert found is not None
    assert found.gain.value == pytest.approx(2 / 3, abs=0.01)


@pytest.mark.parametrize(
    "reduction",
    [
        Reduction("ReduceSum", 64, _MOVED, 1e9 * _MOVED / 4.17e12),
        Reduction("ReduceMax", 64, _MOVED, 1_380_900),
        Reduction("CumSum", 64, 6 << 10, 1_900),
    ],
)
def test_there_is_no_advice_where_nothing_is_saved(reduction: Reduction) -> None:
    """At the same rate, for another operator, or below the time of a launch."""
    assert advise_matrix_units([reduction], _H200, reduction.nanoseconds) is None


def test_what_saves_at_most_a_hundredth_is_no_advice() -> None:
    """It would be lost in the noise."""
    assert advise_matrix_units([_BY_CUB], _H200, 100 * _BY_CUB.nanoseconds) is None
    assert advise_matrix_units([_BY_CUB], _H200, 50 * _BY_CUB.nanoseconds) is not None
