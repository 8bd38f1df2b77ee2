"""Accuracy of boxes: mean average precision as COCO defines it, by its own library."""

import contextlib
import io
import json
import math
from typing import Any

import numpy as np

from inferometer_tasks.errors import SampleError, TaskRefusedError
from inferometer_tasks.metrics.metric import MetricValue
from inferometer_tasks.sample import Detections, Prediction, class_number

MOST_SAMPLES = 100_000
"""COCO's evaluation keeps all boxes in memory."""


class MeanAveragePrecision:
    """COCO's AP over IoU 0.50 to 0.95.

    A label is a list of objects with `box` (left, top, width, height in pixels), `class`, and
    `crowd` (true or false) if it stands for several. Crowds are neither found nor missed.
    """

    def __init__(self) -> None:
        self._images: list[dict[str, Any]] = []
        self._wanted: list[dict[str, Any]] = []
        self._found: list[dict[str, Any]] = []

    def add(self, prediction: Prediction, label: Any) -> None:
        """Count the boxes of a sample."""
        if not isinstance(prediction, Detections):
            raise TaskRefusedError(
                "MAP needs boxes: replace postprocess by steps that end with boxes."
            )
        if len(self._images) >= MOST_SAMPLES:
            raise TaskRefusedError(
                f"MAP takes at most {MOST_SAMPLES:,} samples, because COCO's evaluation keeps all "
                "boxes in memory: set samples."
            )
        if not (np.isfinite(prediction.boxes).all() and np.isfinite(prediction.scores).all()):
            raise SampleError("The model has boxes or scores that are not finite.")
        image = len(self._images) + 1
        self._wanted += [self._annotation(image, each) for each in _objects(label)]
        self._images.append({"id": image})
        for corners, score, kind in zip(
            prediction.boxes, prediction.scores, prediction.classes, strict=True
        ):
            left, top, right, bottom = map(float, corners)
            box = [left, top, right - left, bottom - top]
            self._found.append(
                {"image_id": image, "category_id": int(kind), "bbox": box, "score": float(score)}
            )

    def _annotation(self, image: int, given: Any) -> dict[str, Any]:
        try:
            left, top, width, height = map(float, given["box"])
            kind, crowd = class_number(given["class"]), given.get("crowd", False)
        except (TypeError, KeyError, ValueError, AttributeError, OverflowError) as error:
            raise SampleError(
                "Its label is not a list of objects with box (left, top, width, height) and class."
            ) from error
        if not all(map(math.isfinite, (left, top, width, height))):
            raise SampleError(f"A box of its label is not finite: {given['box']}.")
        if width < 0 or height < 0:
            raise SampleError(
                f"A box of its label has a negative width or height: {given['box']}. A box is "
                "left, top, width and height."
            )
        if kind is None:
            raise SampleError(
                f"An object of its label has the class {given['class']!r}, which is no whole "
                "number: classes of boxes have numbers only."
            )
        if crowd not in (0, 1):
            raise SampleError(
                f"An object of its label has crowd {crowd!r}: write true or false, without quotes."
            )
        return {
            "id": len(self._wanted) + 1,
            "image_id": image,
            "category_id": kind,
            "bbox": [left, top, width, height],
            "area": width * height,
            "iscrowd": int(crowd),
        }

    def result(self) -> MetricValue | None:
        """Return the mean average precision; None if no object could be found.

        It has no bounds.
        """
        if all(each["iscrowd"] for each in self._wanted):
            return None
        if not self._found:
            return MetricValue(0.0, len(self._images))
        from pycocotools.coco import COCO  # noqa: PLC0415 - few data sets have boxes
        from pycocotools.cocoeval import COCOeval  # noqa: PLC0415 - as above

        kinds = {each["category_id"] for each in self._wanted}
        for number, each in enumerate(self._wanted, 1):
            each["id"] = number
        with contextlib.redirect_stdout(io.StringIO()):
            truth = COCO()
            truth.dataset = {
                "info": {},
                "images": self._images,
                "annotations": self._wanted,
                "categories": [{"id": each} for each in sorted(kinds)],
            }
            truth.createIndex()
            evaluation = COCOeval(truth, truth.loadRes(self._found), "bbox")
            evaluation.evaluate()
            evaluation.accumulate()
            evaluation.summarize()
        return MetricValue(float(evaluation.stats[0]), len(self._images))


def _objects(label: Any) -> list[Any]:
    try:
        found = json.loads(label) if isinstance(label, str) else label
    except (ValueError, RecursionError) as error:
        raise SampleError(f"Its label is not JSON: {error}.") from error
    if not isinstance(found, list):
        raise SampleError("Its label is not a list of objects with box and class.")
    return found
