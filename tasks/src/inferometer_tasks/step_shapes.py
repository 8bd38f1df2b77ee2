"""Shape of an input after its steps, as far as it is known before a sample is read."""

from collections.abc import Sequence

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
        shape = _next(step, shape)
    return shape


def _next(step: InputStep, shape: KnownShape | None) -> KnownShape | None:
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
            made = tuple(None if size < 0 else size for size in sizes)
        case Tokenize(max_length=length, padding=padding):
            made = (length if padding == "MaxLength" else None,)
        case FileBytes(begin=begin, end=end):
            made = (begin + end,)
        case _:
            pass
    return made


def fits(shape: KnownShape, wanted: Sequence[int]) -> bool:
    """Return whether a shape may be that of a model's tensor, which may have a batch axis before.

    Sizes of -1 in `wanted` are open.
    """
    added = len(wanted) - len(shape)
    return added in {0, 1} and all(
        own is None or size in {-1, own}
        for own, size in zip((1,) * added + shape, wanted, strict=True)
    )
