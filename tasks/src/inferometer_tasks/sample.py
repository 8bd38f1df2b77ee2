"""Samples and predictions."""

import re
import sys
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Content = bytes | str | Array
_CLASS_NUMBER = re.compile(r"(-?)0*([0-9]+)(?:\.0*)?")
_MOST_DIGITS = 18
"""Of a number of a class: no model distinguishes more, and Python converts no long texts."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample of a data set."""

    id: str
    content: Content
    label: Any = None
    """As its row states it; its metric reads it."""
    context: str | None = None
    """The text in which the answer of a question stands."""


@dataclass(frozen=True, slots=True)
class ScoredClass:
    """A class with its score."""

    index: int
    score: float
    label: str = ""

    @property
    def name(self) -> str:
        """The label; the number if there is none."""
        return self.label or str(self.index)


@dataclass(frozen=True, slots=True)
class Classes:
    """The best classes, the best first."""

    best: tuple[ScoredClass, ...]
    count: int | None
    """Number of classes that the model distinguishes; None if a manifest's own Python chose."""
    names: frozenset[str] = field(default=frozenset(), compare=False, repr=False)
    """Labels of all its classes, without blanks around them; empty if there are none."""


@dataclass(frozen=True, slots=True)
class Detections:
    """Boxes in pixels of the sample's image, the best first."""

    boxes: npt.NDArray[np.float64]
    """Rows of left, top, right, bottom."""
    scores: npt.NDArray[np.float64]
    classes: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Mask:
    """The class of each pixel."""

    classes: npt.NDArray[np.int64]


Prediction = Classes | Detections | Mask | str | Array


def best_answer(prediction: Prediction) -> str:
    """Return the best class or the text of a prediction; empty if it is neither."""
    match prediction:
        case str():
            return prediction
        case Classes(best=best) if best:
            return best[0].name
        case _:
            return ""


def class_number(label: Any) -> int | None:
    """Return the number of a class that a label states, as 3, 3.0, "3" or " 3.0"; else None."""
    if isinstance(label, float) and label.is_integer():
        return int(label)
    if isinstance(label, int) and not isinstance(label, bool):
        return label
    found = _CLASS_NUMBER.fullmatch(label.strip()) if isinstance(label, str) else None
    if found is None:
        return None
    number = int(found[2]) if len(found[2]) <= _MOST_DIGITS else sys.maxsize
    return -number if found[1] else number
