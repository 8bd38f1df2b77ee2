"""Predictions as tensors: what a server replies that runs the steps itself."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from inferometer_api.manifest.model_manifest import ModelManifest
from inferometer_api.manifest.output_steps import ArgmaxMask, Boxes, ClassMask, Softmax, TopK
from inferometer_api.results.result import Tensor
from inferometer_tasks.errors import SampleError, TaskRefusedError
from inferometer_tasks.pipeline import Tensors, predicting_output
from inferometer_tasks.python_steps import prediction_of_python
from inferometer_tasks.sample import (
    Array,
    Classes,
    Detections,
    Mask,
    Prediction,
    ScoredClass,
)
from inferometer_tasks.steps.tensor import DTYPES


class PredictionForm(Protocol):
    """How predictions of one kind become tensors with a row per sample, and back."""

    @property
    def tensors(self) -> Sequence[Tensor]:
        """The tensors; each first axis counts samples."""

    def encode(self, predictions: Sequence[Any]) -> Tensors:
        """Return the tensors of some predictions of this kind."""

    def decode(self, tensors: Mapping[str, Array]) -> Prediction:
        """Return a prediction from its rows of the tensors."""


def prediction_form(manifest: ModelManifest, outputs: Sequence[Tensor]) -> PredictionForm:
    """Return the form of the predictions of a manifest; `outputs` are those of the model.

    Raises TaskRefusedError if the model lacks the output that makes the prediction.
    """
    if manifest.postprocess is not None:
        return _PythonForm()
    predicting = predicting_output(manifest)
    found = next((each for each in outputs if each.name == predicting.name), None)
    if found is None:
        raise TaskRefusedError(
            f"The manifest names the output {predicting.name!r}, but the model has "
            f"{[each.name for each in outputs]}."
        )
    last = predicting.steps[-1].setting if predicting.steps else None
    if last is None or isinstance(last, Softmax):
        datatype = found.datatype if last is None else "FP64"
        return _ValuesForm(found.model_copy(update={"datatype": datatype}))
    match last:
        case TopK(labels=labels):
            return _ClassesForm(has_labels=labels is not None)
        case Boxes():
            return _DetectionsForm()
        case ArgmaxMask() | ClassMask():
            return _MaskForm(len(found.shape) - isinstance(last, ArgmaxMask))
        case _:
            return _TextForm()


class _ClassesForm:
    """The best classes, with their scores and labels."""

    def __init__(self, *, has_labels: bool) -> None:
        self.tensors = [
            Tensor(name="classes", datatype="INT64", shape=[-1, -1]),
            Tensor(name="scores", datatype="FP64", shape=[-1, -1]),
            Tensor(name="class_count", datatype="INT64", shape=[-1]),
        ]
        if has_labels:
            self.tensors.append(Tensor(name="labels", datatype="BYTES", shape=[-1, -1]))

    def encode(self, predictions: Sequence[Classes]) -> Tensors:
        best = [each.best for each in predictions]
        return {
            "classes": np.array([[each.index for each in row] for row in best], np.int64),
            "scores": np.array([[each.score for each in row] for row in best], np.float64),
            "class_count": np.array([each.count for each in predictions], np.int64),
            "labels": np.array([[each.label for each in row] for row in best], np.object_),
        }

    def decode(self, tensors: Mapping[str, Array]) -> Classes:
        classes, scores = tensors["classes"].tolist(), tensors["scores"].tolist()
        labels = tensors["labels"].tolist() if "labels" in tensors else [""] * len(classes)
        best = (
            ScoredClass(index, score, _text(label))
            for index, score, label in zip(classes, scores, labels, strict=True)
        )
        return Classes(tuple(best), int(tensors["class_count"]))


class _DetectionsForm:
    """Boxes in pixels of the sample's image; rows beyond `box_count` are padding."""

    def __init__(self) -> None:
        self.tensors = [
            Tensor(name="boxes", datatype="FP64", shape=[-1, -1, 4]),
            Tensor(name="scores", datatype="FP64", shape=[-1, -1]),
            Tensor(name="classes", datatype="INT64", shape=[-1, -1]),
            Tensor(name="box_count", datatype="INT64", shape=[-1]),
        ]

    def encode(self, predictions: Sequence[Detections]) -> Tensors:
        counts = [len(each.scores) for each in predictions]
        # At least one: not every client reads a tensor without elements.
        most = max(1, *counts)
        found = {
            "boxes": np.zeros((len(counts), most, 4)),
            "scores": np.zeros((len(counts), most)),
            "classes": np.zeros((len(counts), most), np.int64),
            "box_count": np.array(counts, np.int64),
        }
        for row, (count, each) in enumerate(zip(counts, predictions, strict=True)):
            found["boxes"][row, :count] = each.boxes
            found["scores"][row, :count] = each.scores
            found["classes"][row, :count] = each.classes
        return found

    def decode(self, tensors: Mapping[str, Array]) -> Detections:
        count = int(tensors["box_count"])
        boxes, scores, classes = (tensors[name][:count] for name in ("boxes", "scores", "classes"))
        return Detections(boxes, scores, classes)


class _MaskForm:
    """The class of each pixel."""

    def __init__(self, axes: int) -> None:
        self.tensors = [Tensor(name="mask", datatype="INT64", shape=[-1] * max(1, axes))]

    def encode(self, predictions: Sequence[Mask]) -> Tensors:
        return {"mask": _stacked([each.classes for each in predictions])}

    def decode(self, tensors: Mapping[str, Array]) -> Mask:
        return Mask(tensors["mask"])


class _TextForm:
    """A text."""

    def __init__(self) -> None:
        self.tensors = [Tensor(name="text", datatype="BYTES", shape=[-1])]

    def encode(self, predictions: Sequence[str]) -> Tensors:
        return {"text": np.array(predictions, np.object_)}

    def decode(self, tensors: Mapping[str, Array]) -> str:
        return _text(tensors["text"])


class _ValuesForm:
    """An output of the model, under its own name."""

    def __init__(self, output: Tensor) -> None:
        first, *others = output.shape or [1]
        # A model without a batch axis makes one sample's values; a row more holds them.
        shape = [-1, *others] if first in {-1, 1} else [-1, *output.shape]
        self.tensors = [output.model_copy(update={"shape": shape})]
        self._name, self._axes = output.name, len(shape)
        self._dtype = DTYPES.get(output.datatype, np.dtype(np.object_))

    def encode(self, predictions: Sequence[Array]) -> Tensors:
        if len(predictions) == 1 and predictions[0].ndim == self._axes:
            return {self._name: predictions[0].astype(self._dtype, copy=False)}
        return {self._name: _stacked(predictions).astype(self._dtype, copy=False)}

    def decode(self, tensors: Mapping[str, Array]) -> Array:
        return tensors[self._name]


class _PythonForm:
    """What a manifest's own Python returned, as JSON: a class's number, a text or numbers."""

    def __init__(self) -> None:
        self.tensors = [Tensor(name="prediction", datatype="BYTES", shape=[-1])]

    def encode(self, predictions: Sequence[Prediction]) -> Tensors:
        return {"prediction": np.array([_json(each) for each in predictions], np.object_)}

    def decode(self, tensors: Mapping[str, Array]) -> Prediction:
        return prediction_of_python(json.loads(_text(tensors["prediction"])))


def _json(prediction: Prediction) -> str:
    match prediction:
        case str():
            return json.dumps(prediction)
        case Classes(best=best):
            return json.dumps(best[0].index)
        case np.ndarray():
            return json.dumps(prediction.tolist())
        case _:
            raise SampleError("postprocess must return a class's number, a text or an array.")


def _stacked(rows: Sequence[Array]) -> Array:
    if len({each.shape for each in rows}) > 1:
        raise SampleError("The samples of one request have results of different shapes.")
    return np.stack(rows)


def _text(element: Array | bytes | str) -> str:
    """Return one element of BYTES, of which a row of an array is either the element or an array."""
    found = element.item() if isinstance(element, np.ndarray) else element
    return found.decode() if isinstance(found, bytes) else str(found)
