"""Accuracy of classes: the share of samples whose label is among the best."""

from typing import Any

from inferometer_tasks.errors import SampleError, TaskRefusedError
from inferometer_tasks.metrics.metric import MetricValue, share
from inferometer_tasks.sample import Classes, Prediction


class TopAccuracy:
    """The share of samples whose label is among the k best classes."""

    def __init__(self, k: int) -> None:
        self._k = k
        self._correct = self._samples = 0

    def add(self, prediction: Prediction, label: Any) -> bool:
        """Count a prediction; its label is the number or the name of a class."""
        if not isinstance(prediction, Classes):
            raise TaskRefusedError(
                f"Top{self._k} needs the best classes: end the output's steps with topK."
            )
        best = prediction.best
        if len(best) < min(self._k, prediction.count):
            raise TaskRefusedError(
                f"Top{self._k} needs {self._k} classes, but topK keeps {len(best)}: raise k."
            )
        correct = any(_is(each.index, each.label, label) for each in best[: self._k])
        self._check(prediction, label)
        self._samples += 1
        self._correct += correct
        return correct

    def result(self) -> MetricValue | None:
        """Return the share with its bounds."""
        return share(self._correct, self._samples) if self._samples else None

    @staticmethod
    def _check(prediction: Classes, label: Any) -> None:
        if label is None:
            raise SampleError("It has no label.")
        number = _number(label)
        if number is not None and not 0 <= number < prediction.count:
            raise SampleError(
                f"Its label is {number}, but the model distinguishes {prediction.count} classes."
            )


def _is(index: int, name: str, label: Any) -> bool:
    number = _number(label)
    return index == number if number is not None else bool(name) and name == str(label)


def _number(label: Any) -> int | None:
    if isinstance(label, bool):
        return None
    if isinstance(label, int):
        return label
    text = str(label)
    return int(text) if text.isascii() and text.isdecimal() else None
