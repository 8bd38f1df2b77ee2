"""The weights of the zoo are the same numbers on every machine."""

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer_models import weights
from inferometer_models.weights import Draw, chunks, read_draws, size_bytes, write_draws

draws = st.builds(
    Draw,
    count=st.integers(1, 3000),
    centre=st.sampled_from([0.0, 1.0, -0.318]),
    spread=st.sampled_from([0.0, 0.1, 0.0472, 12.3]),
)


def test_the_bytes_are_those_of_the_documented_generator() -> None:
    """Words of Philox4x64-10, four numbers each, make the same file wherever it is made."""
    content = b"".join(chunks([Draw(1000, 0, 0.05), Draw(7, 1, 0.1), Draw(40, 0, 1)]))
    assert hashlib.sha256(content).hexdigest() == (
        "72d5c2d31819f0b613f2db830a9c8e6519c6936c68f8d5928eb0e06ff9baf79b"
    )
    first = np.random.Philox(key=42).random_raw()
    step = np.float32(0.05 / 18918.613618603206)
    expected = [np.float32((first >> 16 * at & 0xFFFF) - 32767.5) * step for at in range(4)]
    assert np.frombuffer(content[:16], "<f4").tolist() == expected


@given(st.lists(draws, max_size=5))
def test_the_file_has_every_tensor_at_a_multiple_of_64(several: list[Draw]) -> None:
    """Tensors follow each other in order, and zeros fill the gaps."""
    content = b"".join(chunks(several))
    assert len(content) == size_bytes(several)
    offset = 0
    for draw in several:
        end = offset + 4 * draw.count
        numbers = np.frombuffer(content[offset:end], "<f4")
        assert np.isfinite(numbers).all()
        assert (np.abs(numbers - draw.centre) <= draw.spread * 1.7321).all()
        offset += -(-4 * draw.count // 64) * 64
        assert not any(content[end:offset])


def test_numbers_are_spread_around_their_centre() -> None:
    """Mean and standard deviation of a large tensor are those of its draw, and none is zero."""
    numbers = np.frombuffer(b"".join(chunks([Draw(1 << 20, 0.5, 0.02)])), "<f4")
    assert numbers.mean(dtype=np.float64) == pytest.approx(0.5, abs=1e-4)
    assert numbers.std(dtype=np.float64) == pytest.approx(0.02, rel=1e-2)
    around_zero = np.frombuffer(b"".join(chunks([Draw(1 << 20, 0, 1e-3)])), "<f4")
    assert np.abs(around_zero).min() > np.finfo(np.float32).tiny


def test_the_pieces_do_not_show_in_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tensor that is made in several pieces has the numbers of one made at once."""
    several = [Draw(1001, 0, 1), Draw(70, 0, 1)]
    whole = b"".join(chunks(several))
    monkeypatch.setattr(weights, "_PIECE", 16)
    assert b"".join(chunks(several)) == whole


@given(st.lists(draws))
def test_the_index_keeps_draws_exactly(several: list[Draw]) -> None:
    """What is written into the index is read as it was."""
    assert read_draws(write_draws(several)) == tuple(several)
