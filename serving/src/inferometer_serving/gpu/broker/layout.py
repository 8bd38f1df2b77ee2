"""Layout of a file's tensors in GPU memory, and the copies that fill it. All sizes are in bytes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

ALIGNMENT_BYTES = 256
"""The alignment of CUDA's own allocations. The fastest kernels of its libraries require it."""


@dataclass(frozen=True, slots=True)
class Extent:
    """Offset and length of one tensor in a file."""

    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a file, and its place in the buffer that it is read into."""

    file_offset: int
    length: int
    place: int


@dataclass(frozen=True, slots=True)
class CopyWindow:
    """A part of the GPU memory that one copy fills."""

    place: int
    length: int
    pieces: tuple[Piece, ...]
    """Their places are relative to the start of the window."""


@dataclass(frozen=True, slots=True)
class WeightLayout:
    """The place of each extent in one allocation."""

    extents: tuple[Extent, ...]
    places: tuple[int, ...]
    """One for each extent, relative to the start of the allocation."""
    size_bytes: int
    """The end of the last extent, rounded up to the alignment."""


def lay_out(extents: Sequence[Extent]) -> WeightLayout:
    """Return a layout of the extents in their order, each at the next aligned place."""
    places, end = [], 0
    for extent in extents:
        places.append(end)
        end += -(-extent.length // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
    return WeightLayout(tuple(extents), tuple(places), end)


def windows(layout: WeightLayout, window_bytes: int) -> Iterator[CopyWindow]:
    """Yield the copies that fill a layout, each of at most `window_bytes`.

    `window_bytes` must be a multiple of the alignment. The windows cover the layout without gaps
    or overlaps. Bytes of a window that no piece fills are padding between tensors.
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
