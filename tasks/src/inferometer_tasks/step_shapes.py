"""Shape of an input after its steps, as far as it is known before a sample is read."""

from collections.abc import Sequence
from math import prod

from inferometer_api.manifest.input_steps import (
    Crop,
    Decode,
    FileBytes,
    InputStep,
    Layout,
    Reshape,
    Resize,
    Tokenize,
)

KnownShape = tuple[int | None, ...]
"""Sizes without a batch axis; None: it depends on the sample."""


def shape_after(steps: Sequence[InputStep]) -> KnownShape | None:
    """Return the shape that steps make; None if even its number of axes depends on the sample."""
    shape: KnownShape | None = None
    for step in steps:
        shape = next_shape(step, shape)
    return shape


def next_shape(step: InputStep, shape: KnownShape | None) -> KnownShape | None:
    """Return the shape that a step makes of one; None if nothing of it is known."""
    made = shape
    match step.setting:
        case Decode(color_mode=color_mode):
            made = (None, None, 1 if color_mode == "Gray" else 3)
        case Resize(height=rows, width=columns, fit=fit) if shape is not None:
            is_exact = fit in {"Stretch", "Pad"} or rows is None or columns is None
            made = (rows, columns, shape[2]) if is_exact else (None, None, shape[2])
        case Crop(height=rows, width=columns) if shape is not None:
            made = (rows, columns, shape[2])
        case Layout(order="CHW") if shape is not None and len(shape) == 3:
            made = (shape[2], *shape[:2])
        case Reshape(shape=sizes):
            made = _reshaped(sizes, shape)
        case Tokenize(max_length=length, padding=padding):
            made = (length if padding == "MaxLength" else None,)
        case FileBytes(begin=begin, end=end):
            made = (begin + end,)
        case _:
            pass
    return made


def _reshaped(sizes: Sequence[int], shape: KnownShape | None) -> KnownShape:
    rest = prod(size for size in sizes if size >= 0)
    values = _values(shape)
    inferred = None if values is None or not rest else values // rest
    return tuple(inferred if size < 0 else size for size in sizes)


def can_reshape(shape: KnownShape | None, sizes: Sequence[int]) -> bool:
    """Return whether the values of a shape may have these sizes, of which one may be -1."""
    values, rest = _values(shape), prod(size for size in sizes if size >= 0)
    if values is None:
        return True
    return rest > 0 and values % rest == 0 if -1 in sizes else values == rest


def _values(shape: KnownShape | None) -> int | None:
    """Return how many values a shape has; None if it depends on the sample."""
    known = [size for size in shape or () if size is not None]
    return None if shape is None or len(known) < len(shape) else prod(known)


def sizes_text(shape: KnownShape) -> str:
    """Return a shape as messages have it: [?, 28, 3]."""
    return f"[{', '.join('?' if size is None else str(size) for size in shape)}]"


def fits(shape: KnownShape, wanted: Sequence[int]) -> bool:
    """Return whether a shape may be that of a model's tensor, which may have a batch axis before.

    Sizes of -1 in `wanted` are open.
    """
    added = len(wanted) - len(shape)
    return added in {0, 1} and all(
        own is None or size in {-1, own}
        for own, size in zip((1,) * added + shape, wanted, strict=True)
    )
