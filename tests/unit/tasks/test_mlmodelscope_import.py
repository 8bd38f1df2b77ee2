"""Manifests of MLModelScope convert, and nothing in them is lost in silence."""

from typing import Any

import pytest
import yaml

from inferometer_api.manifest.model_manifest import ModelManifest
from inferometer_api.spec.reading import parse_document
from inferometer_tasks.errors import TaskRefusedError
from inferometer_tasks.mlmodelscope import convert

EVERY_FIELD = """\
name: Some_Net
version: 1.0
framework: {name: TensorFlow, version: 1.12, container: x}
container:
  amd64: {cpu: an/image, gpu: an/image}
  ppc64le: {cpu: an/image, gpu: an/image}
description: A net.
references: [https://example.org/net]
license: Apache License, Version 2.0
hidden: true
before_preprocess: pass
after_preprocess: pass
before_postprocess: pass
after_postprocess: pass
inputs:
  - type: image
    description: the image
    parameters:
      element_type: float32
      input_layer: data
      layer_name: data
      layout: CHW
      color_mode: BGR
      dimensions: [3, 224, 200]
      mean: [123.68, 116.78, 103.94]
      scale: 58.8
      keep_aspect_ratio: true
      max_dimension: 513
      input_type: slice
      url: https://example.org/data
output:
  type: classification
  description: the label
  parameters:
    element_type: float32
    probabilities_layer: softmax
    boxes_layer: boxes
    classes_layer: classes
    masks_layer: masks
    dimensions: [1, 1000]
    features_url: https://example.org/synset.txt
    features_checksum: 4d234b5833aca44928065a180db3016a
model:
  base_url: https://example.org/
  graph_path: net.pb
  weights_path: net.weights
  graph_checksum: 4d234b5833aca44928065a180db3016a
  weights_checksum: 4d234b5833aca44928065a180db3016a
  is_archive: true
attributes:
  {kind: CNN, training_dataset: X, manifest_author: A, top1: 75.9, top5: 93, mAP: 0.2}
"""
"""Every field that occurs in the 88 manifests of MLModelScope's TensorFlow agent, and those of its
protobuf definition."""


def leaves(value: Any, path: str = "") -> list[str]:
    """Return the path of each field that is no mapping or list of mappings."""
    if isinstance(value, dict):
        return [
            leaf for key, each in value.items() for leaf in leaves(each, f"{path}.{key}".strip("."))
        ]
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return [leaf for i, each in enumerate(value) for leaf in leaves(each, f"{path}[{i}]")]
    return [path]


def converted(text: str) -> ModelManifest:
    """Return our manifest for one of MLModelScope, as a file of it is read."""
    made = convert(yaml.safe_load(text)).manifest
    return parse_document(yaml.safe_dump(made), ModelManifest, source="converted")


def test_every_field_maps_or_is_named() -> None:
    """No field is lost in silence, and none is both."""
    source = yaml.safe_load(EVERY_FIELD)
    found = convert(source)
    assert set(found.mapped) | set(found.not_mapped) == set(leaves(source))
    assert not set(found.mapped) & set(found.not_mapped)
    assert all(why for why in found.not_mapped.values())


def test_the_parameters_of_an_image_become_steps_in_order() -> None:
    """Decode, resize, subtract and divide, move the channels, cast."""
    manifest = converted(EVERY_FIELD)
    (image,) = manifest.inputs
    assert image.name == "data"
    assert [each.model_dump(by_alias=True, exclude_none=True) for each in image.steps] == [
        {"decode": {"library": "Pillow", "colorMode": "BGR"}},
        {
            "resize": {
                "height": 224,
                "width": 200,
                "method": "Bilinear",
                "fit": "Pad",
                "padValue": 0,
            }
        },
        {"normalize": {"divideBy": 1.0, "mean": [123.68, 116.78, 103.94], "std": [58.8]}},
        {"layout": {"order": "CHW"}},
        {"cast": {"datatype": "FP32"}},
    ]
    assert manifest.outputs[0].name == "softmax"
    assert (manifest.version, manifest.license) == ("1.0.0", "Apache-2.0")
    assert manifest.attributes["top1"] == "75.9"


def test_a_detector_reads_boxes_scores_and_classes() -> None:
    """TensorFlow's detectors have normalized corners, top first."""
    text = EVERY_FIELD.replace("type: classification", "type: boundingbox")
    boxes = converted(text).outputs[0].steps[0].boxes
    assert boxes is not None
    assert (boxes.format, boxes.normalized) == ("YXYX", True)
    assert (boxes.scores, boxes.classes) == ("softmax", "classes")


def test_python_is_kept_and_steps_are_not_invented() -> None:
    """A manifest of MLHarness has functions instead of parameters."""
    text = (
        "name: net\nversion: 1.0.0\nframework: {name: ONNXRuntime, version: '>=1.8'}\n"
        "inputs: [{type: raw, parameters: {layer_name: x}}]\n"
        "outputs: [{type: raw, parameters: {layer_name: y}}]\n"
        "preprocess: |\n  def preprocess(ctx, data):\n    return (data,)\n"
    )
    manifest = converted(text)
    assert manifest.preprocess is not None
    assert "def preprocess" in manifest.preprocess
    assert [each.name for each in manifest.inputs] == ["x"]


def test_an_unknown_field_is_named() -> None:
    """What a later version adds is not lost in silence."""
    found = convert(yaml.safe_load(EVERY_FIELD + "color: green\n"))
    assert found.not_mapped["color"] == "this version does not know the field"


@pytest.mark.parametrize("text", ["[1]", "a: b", "just text"])
def test_what_is_no_manifest_is_refused(text: str) -> None:
    """With what it must have."""
    with pytest.raises(TaskRefusedError, match="name and framework"):
        convert(yaml.safe_load(text))
