"""Steps on scores of classes: probabilities, the best classes, masks, and texts by CTC."""

from collections.abc import Sequence

import numpy as np

from inferometer_api.manifest.output_steps import ArgmaxMask, Ctc, TopK
from inferometer_tasks.errors import SampleError, TaskRefusedError
from inferometer_tasks.sample import Array, Classes, Mask, ScoredClass

_MOST_CLASSES = 2**31
"""Below which a whole number can be a class."""


def softmax(scores: Array) -> Array:
    """Return probabilities along the last axis with more than one score."""
    values = scores.astype(np.float64)
    axis = max((place for place, size in enumerate(values.shape) if size > 1), default=-1)
    powers = np.exp(values - values.max(axis=axis, keepdims=True))
    probabilities: Array = powers / powers.sum(axis=axis, keepdims=True)
    return probabilities


def top_k(step: TopK, scores: Array, labels: Sequence[str] | None) -> Classes:
    """Return the classes with the highest scores; raises TaskRefusedError if labels do not fit."""
    flat = scores.ravel().astype(np.float64)
    if labels is not None and len(labels) != len(flat):
        raise TaskRefusedError(
            f"The label file {step.labels!r} has {len(labels)} labels, but the model distinguishes "
            f"{len(flat)} classes: use the labels that it was trained with."
        )
    # Stable: of equal scores the first class comes first.
    order = np.argsort(-flat, kind="stable")[: step.k]
    best = (
        ScoredClass(int(each), float(flat[each]), "" if labels is None else labels[each])
        for each in order
    )
    return Classes(tuple(best), len(flat))


def argmax_mask(step: ArgmaxMask, scores: Array) -> Mask:
    """Return the class with the highest score at each pixel."""
    return Mask(scores.argmax(axis=step.axis).astype(np.int64))


def mask(values: Array) -> Mask:
    """Return the class of each pixel that a model replies; raises SampleError if it is none."""
    if values.dtype.kind not in "bui":
        numbers = values.astype(np.float64)
        if not ((numbers == np.rint(numbers)) & (np.abs(numbers) < _MOST_CLASSES)).all():
            raise SampleError(
                "The model's mask has numbers that are no classes: whole ones are needed. If they "
                "are scores, use argmaxMask."
            )
    return Mask(values.astype(np.int64))


def ctc(step: Ctc, scores: Array, characters: Sequence[str]) -> str:
    """Return the text of the best path through scores [positions, classes]."""
    alphabet = [*characters, *([" "] if step.space else [])]
    classes = scores.shape[-1]
    if len(alphabet) + 1 != classes:
        raise TaskRefusedError(
            f"The vocabulary {step.vocabulary!r} has {len(alphabet)} characters"
            f"{' with the blank' if step.space else ''}, but the model distinguishes {classes - 1} "
            "and the CTC blank: use the vocabulary that it was trained with, and set space."
        )
    alphabet = ["", *alphabet] if step.blank == "First" else [*alphabet, ""]
    path = scores.reshape(-1, classes).argmax(axis=-1)
    kept = path[np.insert(path[1:] != path[:-1], 0, values=True)] if len(path) else path
    return "".join(alphabet[each] for each in kept)
