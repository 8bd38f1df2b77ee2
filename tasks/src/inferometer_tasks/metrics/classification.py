"""Accuracy of classes: the share of samples whose label is among the best."""

import unicodedata
from typing import Any

from inferometer_tasks.errors import SampleError, TaskRefusedError
from inferometer_tasks.metrics.metric import MetricValue, share
from inferometer_tasks.sample import Classes, Prediction, class_number


class TopAccuracy:
    """The share of samples whose label is among the k best classes."""

    def __init__(self, k: int) -> None:
        self._k = k
        self._correct = self._samples = 0

    def add(self, prediction: Prediction, label: Any) -> bool:
        """Count a prediction; its label is the number or the name of a class.

        Raises SampleError if the label can be neither, or is a name that no class has.
        """
        if not isinstance(prediction, Classes):
            raise TaskRefusedError(
                f"Top{self._k} needs the best classes: end the output's steps with topK, or let "
                "postprocess return the number of a class."
            )
        best = prediction.best
        if prediction.count is None and self._k > 1:
            raise TaskRefusedError(
                f"Top{self._k} needs {self._k} classes, but postprocess returns one: measure Top1, "
                "or replace postprocess by the step topK."
            )
        if prediction.count is not None and len(best) < min(self._k, prediction.count):
            raise TaskRefusedError(
                f"Top{self._k} needs {self._k} classes, but topK keeps {len(best)}: raise k."
            )
        wanted = _class_of(label, prediction)
        correct = any(wanted in {each.index, each.label.strip()} for each in best[: self._k])
        self._samples += 1
        self._correct += correct
        return correct

    def result(self) -> MetricValue | None:
        """Return the share with its bounds."""
        return share(self._correct, self._samples) if self._samples else None


def _class_of(label: Any, prediction: Classes) -> int | str:
    """Return the number of a label's class, or its name; raises SampleError if it is neither."""
    if label is None:
        raise SampleError("It has no label.")
    number = class_number(label)
    if number is not None:
        if prediction.count is None:
            if number < 0:
                raise SampleError(f"Its label is {number}, but classes begin with 0.")
            return number
        if not 0 <= number < prediction.count:
            raise SampleError(
                f"Its label is {str(label).strip()}, but the model distinguishes "
                f"{prediction.count} classes."
            )
        return number
    if not isinstance(label, str) or not label.strip():
        raise SampleError(f"Its label {label!r} is neither the number nor the name of a class.")
    name = label.strip()
    names = prediction.names or {each.label.strip() for each in prediction.best} - {""}
    if not names and prediction.count is None:
        raise SampleError(
            f"Its label {label!r} is the name of a class, but postprocess returns numbers: label "
            "the samples by number."
        )
    if not names:
        raise SampleError(
            f"Its label {label!r} is the name of a class, but the manifest names no classes: set "
            "topK.labels, or label the samples by number."
        )
    if prediction.names and name not in names:
        alike = next((each for each in sorted(names) if _folded(each) == _folded(name)), None)
        advice = (
            "write it as there, or label the samples by number"
            if alike is None
            else f"{alike!r} there differs only in case or in how its accents are encoded"
        )
        raise SampleError(
            f"Its label {label!r} is none of the {len(names):,} names in the manifest's labels: "
            f"{advice}."
        )
    return name


def _folded(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold()
