"""Where the tensors of a file lie in GPU memory."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

ALIGNMENT_BYTES = 256
"""CUDA's own allocations have this alignment, which its libraries' fastest kernels need."""


@dataclass(frozen=True, slots=True)
class Extent:
    """The bytes of one tensor in a file."""

    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes to read from a file to a place in a buffer."""

    file_offset: int
    length: int
    place: int


@dataclass(frozen=True, slots=True)
class CopyWindow:
    """A part of the memory that is copied at once."""

    place: int
    length: int
    pieces: tuple[Piece, ...]
    """Places are relative to the window."""


@dataclass(frozen=True, slots=True)
class WeightLayout:
    """The place of each extent in memory."""

    extents: tuple[Extent, ...]
    places: tuple[int, ...]
    size_bytes: int


def lay_out(extents: Sequence[Extent]) -> WeightLayout:
    """Return aligned places, one after another in the order of the extents."""
    places, end = [], 0
    for extent in extents:
        places.append(end)
        end += -(-extent.length // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
    return WeightLayout(tuple(extents), tuple(places), end)


def windows(layout: WeightLayout, window_bytes: int) -> Iterator[CopyWindow]:
    """Yield what to copy, in windows of at most `window_bytes`, a multiple of the alignment.

    Every byte of the layout is in a window. Those in no piece lie between tensors.
    """
    pieces: list[Piece] = []
    first = 0
    for extent, place in zip(layout.extents, layout.places, strict=True):
        done = 0
        while done < extent.length:
            if place + done == first + window_bytes:
                yield CopyWindow(first, window_bytes, tuple(pieces))
                first, pieces = first + window_bytes, []
            length = min(extent.length - done, first + window_bytes - place - done)
            pieces.append(Piece(extent.offset + done, length, place + done - first))
            done += length
    if pieces:
        yield CopyWindow(first, layout.size_bytes - first, tuple(pieces))
