"""Weights of the built-in models: random numbers from one seed, scaled tensor by tensor.

Only integers of a documented generator and single IEEE operations are used, so that every machine
makes the same bytes.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float32]

SEED = 42
"""Key of the Philox4x64-10 stream from which the weights of each model are drawn."""

ALIGNMENT_BYTES = 64
"""Every tensor starts at a multiple of this, as SIMD loads want it; zeros fill the gaps."""

_MIDDLE = np.float32(32767.5)
"""Mean of the integers from 0 to 65535."""
_DEVIATION = 18918.613618603206
"""Their standard deviation, the root of (65536^2 - 1) / 12."""
_PIECE = 1 << 18
"""So many numbers are made at once."""


@dataclass(frozen=True, slots=True)
class Draw:
    """The numbers of one tensor: uniform around `centre`, with the standard deviation `spread`."""

    count: int
    centre: float
    spread: float

    @property
    def padded_bytes(self) -> int:
        """Size of the tensor in the file, with the gap that follows it."""
        return -(-4 * self.count // ALIGNMENT_BYTES) * ALIGNMENT_BYTES


def write_draws(draws: Iterable[Draw]) -> str:
    """Return draws as the index has them: `COUNT:CENTRE:SPREAD`, separated by spaces."""
    return " ".join(f"{each.count}:{each.centre:g}:{each.spread:g}" for each in draws)


def read_draws(text: str) -> tuple[Draw, ...]:
    """Return the draws that `write_draws` wrote. Raises ValueError."""
    return tuple(
        Draw(int(count), float(centre), float(spread))
        for count, centre, spread in (each.split(":") for each in text.split())
    )


def size_bytes(draws: Iterable[Draw]) -> int:
    """Return the size of the file that `chunks` makes."""
    return sum(each.padded_bytes for each in draws)


def chunks(draws: Sequence[Draw]) -> Iterator[bytes]:
    """Yield the file of a model's weights piece by piece: FP32, little-endian."""
    stream = np.random.Philox(key=SEED)
    for draw in draws:
        for first in range(0, draw.count, _PIECE):
            yield numbers(draw, noise(stream, min(_PIECE, draw.count - first))).tobytes()
        yield bytes(draw.padded_bytes - 4 * draw.count)


def noise(stream: np.random.Philox, count: int) -> FloatArray:
    """Return the next `count` numbers from -32767.5 to 32767.5, four of each word of the stream.

    They are exact in FP32. Words that `count` does not use up are skipped.
    """
    words = stream.random_raw(-(-count // 4)).astype("<u8", copy=False)
    return words.view("<u2")[:count].astype("<f4") - _MIDDLE


def numbers(draw: Draw, drawn: FloatArray) -> FloatArray:
    """Scale the output of `noise`: one multiplication and one addition, each rounded to FP32."""
    return drawn * np.float32(draw.spread / _DEVIATION) + np.float32(draw.centre)
