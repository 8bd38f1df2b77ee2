"""Accuracy of arrays: mean intersection over union of masks, mean squared error of numbers."""

import json
import math
from typing import Any

import numpy as np
import numpy.typing as npt

from inferometer_tasks.errors import SampleError, TaskRefusedError
from inferometer_tasks.metrics.metric import MetricValue, RunningMean
from inferometer_tasks.sample import Mask, Prediction

_MOST_CLASSES = 4096
IGNORED = 255
"""The class of pixels that do not count, as in PASCAL VOC and Cityscapes."""


class MeanIou:
    """Mean over the classes of their pixels' intersection over union, over all samples."""

    def __init__(self) -> None:
        self._common: npt.NDArray[np.int64] = np.zeros(0, np.int64)
        self._found = self._wanted = self._common
        self._samples = 0

    def add(self, prediction: Prediction, label: Any) -> None:
        """Count a mask; the label has the class of each pixel."""
        if not isinstance(prediction, Mask):
            raise TaskRefusedError(
                "MeanIoU needs a mask: replace postprocess by steps that end with argmaxMask."
            )
        wanted = _numbers(label)
        if wanted.shape != prediction.classes.shape:
            raise SampleError(
                f"Its mask has the shape {list(wanted.shape)}, but the model's has "
                f"{list(prediction.classes.shape)}: resize the labels."
            )
        is_whole = np.isfinite(wanted) & (np.floor(wanted) == wanted)
        if not is_whole.all():
            raise SampleError("Its mask has numbers that are no classes: they must be whole.")
        counted = wanted != IGNORED
        found, wanted = prediction.classes[counted], wanted[counted].astype(np.int64)
        highest = int(max(found.max(initial=0), wanted.max(initial=0)))
        if highest >= _MOST_CLASSES or wanted.min(initial=0) < 0:
            raise SampleError(f"Its mask has classes outside 0 to {_MOST_CLASSES - 1}.")
        self._grow(highest + 1)
        size = len(self._common)
        self._common += np.bincount(found[found == wanted], minlength=size)
        self._found += np.bincount(found, minlength=size)
        self._wanted += np.bincount(wanted, minlength=size)
        self._samples += 1

    def _grow(self, size: int) -> None:
        more = size - len(self._common)
        if more > 0:
            self._common, self._found, self._wanted = (
                np.pad(each, (0, more)) for each in (self._common, self._found, self._wanted)
            )

    def result(self) -> MetricValue | None:
        """Return the mean over the classes that occur; it has no bounds."""
        union = self._found + self._wanted - self._common
        occurs = union > 0
        if not occurs.any():
            return None
        value = float(np.mean(self._common[occurs] / union[occurs]))
        return MetricValue(value, self._samples)


class MeanSquaredError:
    """The mean over the samples of the mean squared difference of their numbers."""

    def __init__(self) -> None:
        self._mean = RunningMean()

    def add(self, prediction: Prediction, label: Any) -> None:
        """Count an array of numbers."""
        if not isinstance(prediction, np.ndarray):
            raise TaskRefusedError(
                "MSE needs numbers: leave out topK, boxes, ctc and span, or let postprocess return "
                "an array."
            )
        if prediction.dtype.kind in "OSU":
            raise TaskRefusedError("MSE needs numbers, but the model's output has texts.")
        wanted = _numbers(label).astype(np.float64)
        if wanted.size != prediction.size:
            raise SampleError(
                f"Its label has {wanted.size} numbers, but the model has {prediction.size}."
            )
        if not wanted.size:
            raise SampleError("Its label and the model's output have no numbers.")
        with np.errstate(over="ignore", invalid="ignore"):
            difference = prediction.astype(np.float64).ravel() - wanted.ravel()
            value = float(np.mean(difference**2))
        if not math.isfinite(value):
            raise SampleError(
                f"Its mean squared error is {value}: its label or the model's output has NaN, "
                "infinite or very large numbers."
            )
        self._mean.add(value)

    def result(self) -> MetricValue | None:
        """Return the mean with its bounds."""
        return self._mean.result()


def _numbers(label: Any) -> npt.NDArray[Any]:
    if label is None:
        raise SampleError("It has no label.")
    try:
        found = np.asarray(json.loads(label) if isinstance(label, str) else label)
    except (ValueError, RecursionError) as error:
        raise SampleError(f"Its label is not a list of numbers: {error}.") from error
    if found.dtype.kind not in "biuf":
        raise SampleError("Its label is not a list of numbers.")
    return found
