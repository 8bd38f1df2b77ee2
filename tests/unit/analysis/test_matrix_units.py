"""Reduction and scan on 16 x 16 tiles give what plain sums give, within their stated errors."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferometer_analysis import matrix_units as units
from inferometer_analysis.matrix_units import Floats, Operands

EXACT = Operands("float32")
TYPES = ("float16", "bfloat16", "float32")


def _integers(count: int, seed: int) -> npt.NDArray[np.float32]:
    """Return small whole numbers, which every type holds and whose sums float32 holds."""
    return np.random.default_rng(seed).integers(-8, 9, count).astype(np.float32)


REDUCTIONS: dict[str, tuple[int, Callable[[Floats, int, Operands], Floats]]] = {
    "16": (16, lambda values, _, of: units.reduce_16(values, of)),
    "16N": (80, units.reduce_16n),
    "256": (256, lambda values, _, of: units.reduce_256(values, of)),
    "256N": (768, units.reduce_256n),
    "block": (2048, units.reduce_block),
}
SCANS: dict[str, tuple[int, Callable[[Floats, int, Operands], Floats]]] = {
    "16": (16, lambda values, _, of: units.scan_16(values, of)),
    "16N": (80, units.scan_16n),
    "256": (256, lambda values, _, of: units.scan_256(values, of)),
    "256N": (768, units.scan_256n),
    "block": (2048, units.scan_block),
}


@pytest.mark.parametrize("of_type", TYPES)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_of_whole_numbers_are_exact(name: str, of_type: str) -> None:
    """Each segment has the sum that NumPy has, in every type of operands."""
    length, reduce = REDUCTIONS[name]
    values = _integers(length * 48, 1)
    expected = values.reshape(-1, length).sum(axis=1)
    np.testing.assert_array_equal(reduce(values, length, Operands(of_type)), expected)


@pytest.mark.parametrize("of_type", TYPES)
@pytest.mark.parametrize("name", SCANS)
def test_scans_of_whole_numbers_are_exact(name: str, of_type: str) -> None:
    """Each element has the sum of its segment up to it."""
    length, scan = SCANS[name]
    values = _integers(length * 48, 2)
    expected = values.reshape(-1, length).cumsum(axis=1).reshape(-1)
    np.testing.assert_array_equal(scan(values, length, Operands(of_type)), expected)


@settings(deadline=None, max_examples=20)
@given(st.integers(1, 40_000), st.integers(0, 2**32 - 1))
def test_whole_arrays_of_any_length(count: int, seed: int) -> None:
    """Grid level: two kernels reduce and three scan, also where blocks are not full."""
    values = _integers(count, seed)
    assert units.reduce_grid(values, EXACT, block=1024) == values.sum()
    found = units.scan_grid(values, EXACT, block=1024)
    np.testing.assert_array_equal(found, values.cumsum())


@pytest.mark.parametrize(("of_type", "bits"), [("float16", 11), ("bfloat16", 8)])
def test_the_error_is_that_of_the_operands(of_type: str, bits: int) -> None:
    """Sums of n values in [0, 1) err by half a unit in the last place of each operand at most."""
    values = np.random.default_rng(3).random(256 * 64, dtype=np.float32)
    found = units.reduce_256n(values, 256 * 64, Operands(of_type))
    exact = values.astype(np.float64).sum()
    assert abs(found[0] - exact) <= len(values) * 2.0**-bits / 2
    assert found[0] != np.float32(exact)


def test_sums_beyond_float16_do_not_overflow() -> None:
    """Partial sums are kept in three bfloat16 parts: float16 ends at 65,504."""
    values = np.full(1 << 18, 1000.0, np.float32)
    assert units.reduce_grid(values, Operands("float16")) == 262_144_000.0
    assert units.scan_grid(values, Operands("float16"))[-1] == 262_144_000.0


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 3.4e38, -3.4e38])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_sums_with_an_extreme_value_are_those_of_numpy(name: str, value: float) -> None:
    """Infinities, NaN, and what a bfloat16 would round to an infinity: other segments are whole."""
    length, reduce = REDUCTIONS[name]
    values = np.ones(length * 48, np.float32)
    values[length + 3] = value
    found = reduce(values, length, EXACT)
    np.testing.assert_array_equal(found, values.reshape(-1, length).sum(axis=1))
    whole = np.zeros(3000, np.float32)
    whole[1500] = value
    np.testing.assert_array_equal(units.reduce_grid(whole, EXACT, block=1024), whole.sum())


def test_infinities_of_both_signs_have_no_sum() -> None:
    """It is NaN, as of an addition in order."""
    values = np.zeros(256, np.float32)
    values[[3, 200]] = np.inf, -np.inf
    assert np.isnan(units.reduce_256(values, EXACT)[0])


@pytest.mark.parametrize("length", [256, 768])
def test_a_scan_over_an_infinity_is_right_in_the_tiles_before_it(length: int) -> None:
    """In its own tile 0 x inf makes NaN of elements before it too."""
    values = np.ones(length, np.float32)
    values[-10] = np.inf
    found = units.scan_256n(values, length, EXACT)
    np.testing.assert_array_equal(found[: length - 256], np.arange(1, length - 255))
    assert not np.isfinite(found[-10:]).any()


@pytest.mark.parametrize("bits", [0x7FFFFFFF, 0xFFFFFFFF, 0x7F800001, 0xFFC00000])
def test_bfloat16_of_nan_is_nan(bits: int) -> None:
    """Whatever its payload is: rounding must not carry into its sign or leave an infinity."""
    value = np.array([bits], np.uint32).view(np.float32)
    assert np.isnan(Operands("bfloat16").rounded(value)[0])


def test_parts_of_a_sum_hold_all_its_bits() -> None:
    """Three bfloat16 are one float32, at the largest one too."""
    rng = np.random.default_rng(5)
    sums = (rng.standard_normal(256) * 10.0 ** rng.integers(-30, 38, 256)).astype(np.float32)
    sums[:2] = np.finfo(np.float32).max, np.finfo(np.float32).min
    tile = np.zeros((256, 256), np.float32)
    tile[:, 7] = sums
    np.testing.assert_array_equal(units.reduce_256(tile.reshape(-1), EXACT), sums)


def test_bfloat16_is_rounded_to_even() -> None:
    """A value in the middle of two goes to the one with an even last bit."""
    of = Operands("bfloat16")
    np.testing.assert_array_equal(
        of.rounded([1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-16, -3.0]),
        np.array([1, 1 + 2**-6, 1 + 2**-7, -3], np.float32),
    )


@pytest.mark.parametrize(
    "call",
    [
        lambda: units.reduce_16(np.ones(100), EXACT),
        lambda: units.reduce_16n(np.ones(100), 20, EXACT),
        lambda: units.scan_256n(np.ones(512), 0, EXACT),
        lambda: units.reduce_block(np.ones(512), 512, EXACT, warps=3),
        lambda: units.reduce_block(np.ones(512), 512, EXACT, warps=0),
        lambda: units.reduce_block(np.ones(512), 512, EXACT, warps=-1),
        lambda: units.scan_block(np.ones(512), 512, EXACT, warps=3),
        lambda: Operands("float8").rounded([1.0]),
    ],
)
def test_what_does_not_fit_is_refused(call: Callable[[], object]) -> None:
    """Segments that are not whole tiles, and unknown types, are errors."""
    with pytest.raises(ValueError, match=r"values|operands"):
        call()
