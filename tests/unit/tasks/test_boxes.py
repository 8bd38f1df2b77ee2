"""Boxes of any number, and outputs whose numbers of boxes differ."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inferometer_api.manifest.output_steps import Boxes
from inferometer_tasks.assets import Assets
from inferometer_tasks.errors import SampleError, TaskRefusedError
from inferometer_tasks.manifest_file import read_manifest
from inferometer_tasks.metrics.table import METRICS
from inferometer_tasks.pipeline import TaskPipeline
from inferometer_tasks.sample import Detections, Sample
from inferometer_tasks.steps.boxes import Scale, detections

SCALE = Scale(image=(20, 20), scaled=(20, 20), shape=(20, 20))
ROWS = np.array([[0, 0, 4, 4], [5, 5, 9, 9]], float)


@pytest.mark.parametrize(
    ("found", "scores", "classes"),
    [
        (np.zeros((0, 4)), np.zeros(0), None),
        (np.zeros((0, 4)), np.zeros((0, 80)), np.zeros(0)),
        (np.zeros((1, 0, 4)), np.zeros((1, 0)), np.zeros((1, 0))),
        (np.zeros((0, 6)), None, None),
        (np.zeros(0), np.zeros(0), None),
    ],
)
def test_an_image_without_a_box_has_no_detections(found: Any, scores: Any, classes: Any) -> None:
    """Its objects count as missed."""
    none = detections(Boxes(scores="s"), found, scores, classes, SCALE)
    assert (none.boxes.shape, none.scores.shape, none.classes.shape) == ((0, 4), (0,), (0,))
    metric = METRICS["MAP"]()
    metric.add(none, [{"box": [0, 0, 4, 4], "class": 1}])
    value = metric.result()
    assert value is not None
    assert value.value == 0


@pytest.mark.parametrize(
    ("scores", "classes", "words"),
    [
        (np.ones((2, 0)), None, r"2 boxes and scores of the shape \[2, 0\]"),
        (np.ones(1), None, r"2 boxes and scores of the shape \[1\]"),
        (np.ones((3, 2)), None, r"2 boxes and scores of the shape \[3, 2\]"),
        (np.ones(2), np.ones(1), "2 boxes and 1 classes"),
        (np.ones(2), np.ones(3), "2 boxes and 3 classes"),
    ],
)
def test_outputs_of_other_numbers_of_boxes_are_refused(
    scores: Any, classes: Any, words: str
) -> None:
    """Scores as [classes, boxes] are not read as those of other boxes."""
    with pytest.raises(TaskRefusedError, match=words):
        detections(Boxes(scores="s"), ROWS, scores, classes, SCALE)


@pytest.mark.parametrize("axes", [(), (1,)])
def test_a_leading_axis_does_not_change_the_boxes(axes: tuple[int, ...]) -> None:
    """Models may keep an axis of one image."""
    scores = np.array([[0.9, 0.1, 0.2], [0.1, 0.3, 0.8]]).reshape(*axes, 2, 3)
    found = detections(Boxes(scores="s"), ROWS.reshape(*axes, 2, 4), scores, None, SCALE)
    assert found.boxes.tolist() == ROWS.tolist()
    assert (found.scores.tolist(), found.classes.tolist()) == ([0.9, 0.8], [0, 2])


def test_boxes_of_a_sample_without_an_image_stay_as_they_are(tmp_path: Path) -> None:
    """They have no size to be bounded by: a detector on values finds its boxes."""
    path = tmp_path / "model.yaml"
    path.write_text(
        "apiVersion: inferometer.dev/v1alpha1\nkind: ModelManifest\nname: m\nversion: 1.0.0\n"
        "license: MIT\nframework: {name: onnxruntime}\ninputs: [{name: x}]\n"
        "outputs: [{name: box, steps: [{boxes: {scores: s}}]}, {name: s}]\n"
    )
    pipeline = TaskPipeline(read_manifest(path), Assets(read_manifest(path), tmp_path))
    sample = Sample("1", np.zeros((2, 4)))
    found = pipeline.prediction({"box": ROWS, "s": np.array([0.9, 0.8])}, sample)
    assert isinstance(found, Detections)
    assert found.boxes.tolist() == ROWS.tolist()


@pytest.mark.parametrize(
    ("rows", "scores", "classes", "words"),
    [
        (ROWS, [0.9, np.nan], None, "1 NaN among 2 scores"),
        (ROWS, [[0.9, 0.1], [0.2, np.nan]], None, "1 NaN among 4 scores"),
        ([[0, 0, 4, np.nan], [5, 5, 9, 9]], [0.9, 0.8], None, "1 boxes that are not finite"),
        ([[0, 0, 4, 4], [5, 5, 9, np.inf]], [0.9, 0.8], None, "1 boxes that are not finite"),
        (ROWS, [0.9, 0.8], [1, np.nan], "a box of class nan"),
        (ROWS, [0.9, 0.8], [1, 2.5], "a box of class 2.5"),
        (ROWS, [0.9, 0.8], [1, 1e30], r"a box of class 1e\+30"),
    ],
)
@pytest.mark.parametrize("scale", [SCALE, None])
def test_boxes_that_are_no_numbers_make_their_sample_fail(
    rows: Any, scores: Any, classes: Any, words: str, scale: Scale | None
) -> None:
    """They are neither dropped nor counted as found."""
    given = None if classes is None else np.array(classes, np.float32)
    step = Boxes(scores="s", classes=None if classes is None else "c", format="CXCYWH")
    with pytest.raises(SampleError, match=words):
        detections(step, np.array(rows), np.array(scores), given, scale)


def test_a_box_that_does_not_count_may_be_infinite() -> None:
    """Models in 16 bits overflow on boxes that they do not believe in."""
    rows = np.array([[0, 0, 4, 4], [5, 5, np.inf, 9]])
    found = detections(
        Boxes(scores="s", classes="c"), rows, np.array([0.9, 0.01]), np.array([3.0, np.nan]), SCALE
    )
    assert (found.boxes.tolist(), found.classes.tolist()) == ([[0, 0, 4, 4]], [3])


@pytest.mark.parametrize(("boxes", "scores"), [([[0, 0, np.nan, 4]], [0.9]), (ROWS[:1], [np.nan])])
def test_map_counts_no_box_that_is_no_number(boxes: Any, scores: Any) -> None:
    """A NaN overlaps everything in COCO's library: the only detection would be right."""
    metric = METRICS["MAP"]()
    prediction = Detections(np.array(boxes, float), np.array(scores), np.array([1]))
    with pytest.raises(SampleError, match="not finite"):
        metric.add(prediction, [{"box": [0, 0, 4, 4], "class": 1}])
    assert metric.result() is None


def test_crowds_alone_have_no_mean_average_precision() -> None:
    """Nothing could be found or missed; COCO's library says -1."""
    metric = METRICS["MAP"]()
    found = Detections(np.array([[0.0, 0, 4, 4]]), np.array([0.9]), np.array([1]))
    metric.add(found, [{"box": [0, 0, 4, 4], "class": 1, "crowd": True}])
    assert metric.result() is None
    metric.add(found, [{"box": [0, 0, 4, 4], "class": "1", "crowd": False}])
    value = metric.result()
    assert value is not None
    assert value.value == pytest.approx(1)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"crowd": "false"}, "crowd 'false': write true or false"),
        ({"crowd": 2}, "crowd 2"),
        ({"class": 3.7}, r"class 3\.7, which is no whole number"),
        ({"class": "cat"}, "class 'cat', which is no whole number"),
        ({"class": True}, "class True, which is no whole number"),
        ({"box": [4, 4, -2, 2]}, "negative width or height"),
    ],
)
def test_a_label_of_boxes_says_what_it_means(change: dict[str, Any], words: str) -> None:
    """A text is not true because it is not empty, and a class is not cut to a whole number."""
    metric = METRICS["MAP"]()
    found = Detections(ROWS[:1], np.array([0.9]), np.array([1]))
    with pytest.raises(SampleError, match=words):
        metric.add(found, [{"box": [0, 0, 4, 4], "class": 1} | change])
    assert metric.result() is None
