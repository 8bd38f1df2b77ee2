"""Manifests of MLModelScope convert, and nothing in them is lost in silence."""

from typing import Any

import numpy as np
import pytest

from inferometer_api.manifest.model_manifest import ModelManifest
from inferometer_api.spec.reading import parse_document
from inferometer_api.spec.yaml_text import write_yaml
from inferometer_tasks.errors import TaskRefusedError
from inferometer_tasks.mlmodelscope.conversion import Converted, convert, read_source
from inferometer_tasks.steps.image import resize
from inferometer_tasks.steps.tensor import normalize

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
    return parsed(convert(read_source(text)))


def parsed(found: Converted) -> ModelManifest:
    """Return a converted manifest, as a file of it is read."""
    return parse_document(write_yaml(found.manifest), ModelManifest, source="converted")


def steps(manifest: ModelManifest) -> list[dict[str, Any]]:
    """Return the steps of the first input, without their defaults."""
    return [each.model_dump(by_alias=True, exclude_unset=True) for each in manifest.inputs[0].steps]


def test_every_field_maps_or_is_named() -> None:
    """No field is lost in silence, and none is both."""
    source = read_source(EVERY_FIELD)
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
                "height": 513,
                "width": 513,
                "method": "Bilinear",
                "fit": "Inside",
                "padValue": 0,
            }
        },
        {"normalize": {"divideBy": 1.0, "mean": [103.94, 116.78, 123.68], "std": [58.8]}},
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


@pytest.mark.parametrize("kind", ["feature", "classification"])
def test_features_with_labels_are_a_classification(kind: str) -> None:
    """An older name, in 41 manifests that were made of Caffe's."""
    text = EVERY_FIELD.replace("type: classification", f"type: {kind}")
    text = text.replace("probabilities_layer: softmax", "layer_name: prob")
    text = text.replace("    boxes_layer: boxes\n    classes_layer: classes\n", "")
    text = text.replace("    masks_layer: masks\n", "")
    manifest = converted(text)
    top_k = manifest.outputs[0].steps[0].top_k
    assert (manifest.task, manifest.outputs[0].name) == ("ImageClassification", "prob")
    assert top_k is not None
    assert top_k.labels == "labels.txt"


def test_features_without_labels_are_numbers() -> None:
    """There is nothing to classify."""
    source = read_source(LISTED)
    source["outputs"] = [{"type": "feature", "layer_name": "pool"}]
    manifest = converted(write_yaml(source))
    assert (manifest.task, manifest.outputs[0].steps) == ("Other", [])


def test_a_mask_that_a_model_makes_is_one() -> None:
    """TensorFlow's DeepLab ends with the argmax."""
    source = read_source(LISTED)
    source["outputs"] = [{"type": "semanticsegment", "parameters": {"masks_layer": "m"}}]
    manifest = converted(write_yaml(source))
    assert manifest.task == "SemanticSegmentation"
    assert [each.mask is not None for each in manifest.outputs[0].steps] == [True]


WITH_PYTHON = """\
name: TorchVision_Net
version: 1.0
framework: {name: Onnxruntime, version: 1.10}
modality: image_classification
inputs:
  - type: image
    parameters:
      {element_type: float32, input_layer: 0, layout: CHW, color_mode: RGB,
       dimensions: [3, 224, 224], mean: [123.675, 116.28, 103.53], scale: 58.395}
outputs:
  - type: classification
    parameters: {element_type: float32}
model:
  is_archive: false
  graph_path: https://example.org/net.onnx
  features_path: https://example.org/synset.txt
preprocess: |
  def preprocess(ctx, data):
    return (data,)
postprocess: |
  def postprocess(ctx, data):
    return data[0].tolist()
"""
"""As most manifests for ONNX Runtime are: parameters of an image, and Python."""


def test_python_is_kept_and_steps_are_not_invented() -> None:
    """The parameters of the image, which the Python stands for, are named as not mapped."""
    found = convert(read_source(WITH_PYTHON))
    manifest = parsed(found)
    assert manifest.preprocess == "def preprocess(ctx, data):\n  return (data,)\n"
    assert manifest.postprocess is not None
    assert not any(each.steps for each in manifest.inputs)
    assert not any(each.steps for each in manifest.outputs)
    assert manifest.inputs[0].datatype == "FP32"
    assert manifest.task == "ImageClassification"
    replaced = {"layout", "color_mode", "dimensions", "mean", "scale"}
    assert {
        path.rpartition(".")[2]
        for path, why in found.not_mapped.items()
        if "preprocess takes the place" in why
    } == replaced
    assert [each.partition(" ")[0] for each in found.checks] == [
        "preprocess",
        "postprocess",
        "outputs[0]",
        "inputs[0]",
    ]


def test_a_version_keeps_its_zeros() -> None:
    """1.10 is no 1.1, and the labels of the model are an asset."""
    manifest = converted(WITH_PYTHON)
    assert manifest.frameworks[0].version == "1.10"
    assert [each.path for each in manifest.assets] == ["net.onnx", "labels.txt"]


def test_the_position_of_a_tensor_is_not_its_name() -> None:
    """It is named, and the input has a name to be replaced."""
    found = convert(read_source(WITH_PYTHON))
    assert "position" in found.not_mapped["inputs[0].parameters.input_layer"]
    assert parsed(found).inputs[0].name == "input0"


LISTED = """\
name: Inception
version: 1.0.0
framework: {name: TensorFlow, version: ">=1.12.0 <2.0"}
inputs:
  - type: image
    layer_name: data
    element_type: float32
    steps:
      - decode: {data_layout: NCHW, color_mode: bgr}
      - resize: {dimensions: [3, 299, 300], method: bicubic, keep_aspect_ratio: true}
      - normalize: {mean: [1, 2, 3], rescale: 127.5}
outputs:
  - type: probability
    layer_name: prob
    element_type: float32
    steps: [{argsort: {labels_url: https://example.org/synset.txt}}]
  - {type: raw, layer_name: features}
model: {graph_path: net.pb, checksum: XXXX}
attributes: {training_dataset: {name: ImageNet, version: 1.0.0}}
"""
"""The form of the paper: layers and steps are fields of an input."""


def test_listed_steps_keep_their_order_and_settings() -> None:
    """The steps of the paper's form become ours, with the names of all tensors."""
    found = convert(read_source(LISTED))
    manifest = parsed(found)
    assert [each.name for each in manifest.inputs] == ["data"]
    assert [each.name for each in manifest.outputs] == ["prob", "features"]
    assert steps(manifest) == [
        {"decode": {"colorMode": "BGR"}},
        {"resize": {"height": 299, "width": 300, "method": "Bicubic", "fit": "Pad"}},
        {"normalize": {"mean": [1.0, 2.0, 3.0], "std": [127.5]}},
        {"layout": {"order": "CHW"}},
        {"cast": {"datatype": "FP32"}},
    ]
    top_k = manifest.outputs[0].steps[0].top_k
    assert top_k is not None
    assert top_k.labels == "labels.txt"
    assert manifest.attributes == {
        "training_dataset.name": "ImageNet",
        "training_dataset.version": "1.0.0",
    }
    assert set(found.not_mapped) == {"model.checksum", "outputs[0].element_type"}


def prepared(parameters: str, pixels: Any) -> Any:
    """Return what the steps of an image's parameters make of an image."""
    source = read_source(EVERY_FIELD)
    source["inputs"][0]["parameters"] = read_source(f"{{{parameters}}}")
    found = parsed(convert(source)).inputs[0].steps
    image = np.asarray(pixels, np.uint8)
    image = image[:, :, ::-1] if found[0].decode and found[0].decode.color_mode == "BGR" else image
    for step in found[1:]:
        if step.resize:
            image = resize(step.resize, image)
        elif step.normalize:
            image = normalize(step.normalize, image)
    return image


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ("color_mode: RGB, mean: [123, 117, 104]", [77, -17, -54]),
        ("color_mode: BGR, mean: [123, 117, 104]", [-54, -17, 77]),
        ("color_mode: BGR, mean: 100", [-50, 0, 100]),
        ("color_mode: BGR, mean: [0, 0, 0], scale: [1, 2, 5]", [10, 50, 200]),
    ],
)
def test_mean_and_scale_are_for_red_green_and_blue(parameters: str, expected: list[float]) -> None:
    """MLModelScope subtracts the first value from red in any order of the channels."""
    assert prepared(parameters, [[[200, 100, 50]]]).tolist() == [[expected]]


@pytest.mark.parametrize(
    ("parameters", "shape"),
    [
        ("max_dimension: 513, keep_aspect_ratio: true", (384, 513)),
        ("max_dimension: 513, keep_aspect_ratio: true, dimensions: [3, 9, 9]", (384, 513)),
        ("dimensions: [3, 64, 65], keep_aspect_ratio: true", (64, 65)),
    ],
)
def test_images_have_the_size_that_mlmodelscope_gives_them(
    parameters: str, shape: tuple[int, int]
) -> None:
    """The longer side is max_dimension, the other rounded down; dimensions are stretched to."""
    assert prepared(parameters, np.zeros((375, 500, 3)))[:, :, 0].shape == shape


@pytest.mark.parametrize(
    ("place", "part", "names"),
    [
        ("parameters", "max_dimension: 5, keep_aspect_ratio: true, dimensions: [9]", "dimensions"),
        ("parameters", "dimensions: [9], keep_aspect_ratio: true", "keep_aspect_ratio"),
        (
            "parameters",
            "max_dimension: 5, keep_aspect_ratio: false, method: box",
            "max_dimension keep_aspect_ratio method",
        ),
        ("parameters", "method: box, keep_aspect_ratio: true", "method keep_aspect_ratio"),
        ("model", f"base_url: x, weights_checksum: {'ab' * 32}", "base_url weights_checksum"),
    ],
)
def test_a_field_without_effect_is_named(place: str, part: str, names: str) -> None:
    """It is not counted as mapped."""
    source = read_source(EVERY_FIELD)
    parent = source if place == "model" else source["inputs"][0]
    parent[place] = read_source(f"{{{part}}}")
    path = "model." if place == "model" else "inputs[0].parameters."
    found = convert(source)
    not_mapped = {each for each in found.not_mapped if each.startswith(path)}
    assert not_mapped == {path + name for name in names.split()}
    assert not not_mapped & set(found.mapped)


def test_the_order_of_the_channels_in_a_list_is_to_be_checked() -> None:
    """A step applies to what the step before it makes."""
    checks = convert(read_source(LISTED)).checks
    assert checks == ("inputs[0].steps[2].normalize applies to channels in the order BGR",)


def test_a_step_without_what_it_needs_is_named() -> None:
    """So are steps that do not exist here, and what is no step."""
    text = "steps: [decode, resize, normalize, sharpen, {crop: 5}, 7]"
    source = read_source(LISTED)
    source["inputs"][0] = {"type": "image", "layer_name": "x", **read_source(text)}
    found = convert(source)
    assert steps(parsed(found)) == [{"decode": {"colorMode": "RGB"}}]
    assert {
        path.removeprefix("inputs[0].")
        for path in found.not_mapped
        if path.startswith("inputs[0].")
    } == {"steps[1].resize", "steps[2].normalize", "steps[3].sharpen", "steps[4].crop", "steps[5]"}


def test_every_output_is_read() -> None:
    """A detector may have one entry for each tensor, whatever their order."""
    source = read_source(LISTED)
    source["outputs"] = [
        {"type": kind, "parameters": {"output_layer": name}}
        for kind, name in (("classes", "c"), ("scores", "s"), ("boundingboxes", "b"))
    ]
    manifest = parsed(convert(source))
    assert [each.name for each in manifest.outputs] == ["c", "s", "b"]
    boxes = manifest.outputs[2].steps[0].boxes
    assert boxes is not None
    assert (boxes.scores, boxes.classes) == ("s", "c")
    assert manifest.task == "ObjectDetection"


@pytest.mark.parametrize(
    ("parameters", "size", "order"),
    [
        ("{layout: HWC, dimensions: [224, 200, 3]}", (224, 200), None),
        ("{layout: HWC, dimensions: [3, 224, 200]}", (224, 200), None),
        ("{layout: NCHW, dimensions: [1, 3, 224, 200]}", (224, 200), "CHW"),
        ("{layout: nhwc, dimensions: [224, 200]}", (224, 200), None),
        ("{layout: HWC, dimensions: [3, 224, 4]}", (3, 224), None),
        ("{dimensions: [224]}", (224, 224), None),
    ],
)
def test_the_channels_of_dimensions_are_found(
    parameters: str, size: tuple[int, int], order: str | None
) -> None:
    """By their number, and by the layout if that is not clear."""
    source = read_source(LISTED)
    source["inputs"][0] = {"type": "image", "parameters": read_source(parameters)}
    found = steps(parsed(convert(source)))
    resize = next(each["resize"] for each in found if "resize" in each)
    assert (resize["height"], resize["width"]) == size
    layout = next((each["layout"]["order"] for each in found if "layout" in each), None)
    assert layout == order


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("container", "img:tag"),
        ("container.amd64", "img:tag"),
        ("references", {"url": 5}),
        ("description", ["a", {}]),
        ("version", "newest"),
        ("framework.version", "newest"),
        ("attributes", "none"),
        ("attributes.top1", [{}]),
        ("inputs[0].parameters.dimensions", [3, None, None]),
        ("inputs[0].parameters.dimensions", [3, 0, 224]),
        ("inputs[0].parameters.dimensions", 224),
        ("inputs[0].parameters.mean", {"r": 1}),
        ("inputs[0].parameters.mean", "mean.binaryproto"),
        ("inputs[0].parameters.mean", [1, 2, 3, 4, 5]),
        ("inputs[0].parameters.mean", [float("inf")]),
        ("inputs[0].parameters.scale", 0),
        ("inputs[0].parameters.layout", "CHWN"),
        ("inputs[0].parameters.color_mode", "YUV"),
        ("inputs[0].parameters.keep_aspect_ratio", "perhaps"),
        ("inputs[0].parameters.element_type", "complex64"),
        ("inputs[0].parameters", 5),
        ("inputs[0].type", "audio"),
        ("output.type", "smell"),
        ("model.graph_path", {}),
        ("model", "net.pb"),
        ("outputs", 5),
        ("preprocess", ["pass"]),
    ],
)
def test_a_value_without_a_place_is_named(place: str, value: Any) -> None:
    """The rest of the manifest is converted."""
    source = read_source(EVERY_FIELD)
    *path, last = place.replace("[0]", ".0").split(".")
    part = source
    for each in path:
        part = part[int(each) if each.isdigit() else each]
    part[last] = value
    found = convert(source)
    assert found.not_mapped[place]
    assert place not in found.mapped
    assert parsed(found).name == "Some_Net"


def test_one_reference_is_a_list_of_one() -> None:
    """It is not a list of characters."""
    source = read_source(EVERY_FIELD)
    source["references"] = "https://example.org/net"
    assert parsed(convert(source)).references == ["https://example.org/net"]


def test_files_of_one_name_have_paths_of_their_own() -> None:
    """The weights lie in a folder if the graph has their name; addresses are joined with one /."""
    source = read_source(EVERY_FIELD)
    source["model"] = {
        "base_url": "https://example.org",
        "graph_path": "graph/net.bin?download=1",
        "graph_checksum": "ab" * 32,
        "weights_path": "https://example.com/net.bin",
    }
    assets = parsed(convert(source)).assets[:2]
    assert [(each.path, each.source, each.sha256) for each in assets] == [
        ("net.bin", "https://example.org/graph/net.bin?download=1", "ab" * 32),
        ("weights/net.bin", "https://example.com/net.bin", None),
    ]


@pytest.mark.parametrize("text", ["a: [", "[" * 5000, "a: 2\nb: !!int x"])
def test_what_is_no_yaml_is_refused(text: str) -> None:
    """It is no internal error."""
    with pytest.raises(TaskRefusedError, match=r"not YAML|nested too deeply"):
        read_source(text)


@pytest.mark.parametrize("values", [("1", "2"), ("[1]", "[1]"), ("{a: 1}", "1")])
def test_a_key_with_two_values_is_refused(values: tuple[str, str]) -> None:
    """The second would win without a word."""
    with pytest.raises(TaskRefusedError, match=r"(?s)the key 'scale' has two values.*line 2"):
        read_source(f"a: {{scale: {values[0]},\n  scale: {values[1]}}}")


def test_a_key_may_appear_again_with_its_value() -> None:
    """As is_archive does in ResNet_v1_101; a key that is merged and replaced may differ."""
    assert read_source("{is_archive: false, is_archive: false}") == {"is_archive": False}
    merged = read_source("a: &a {x: 1, y: 2}\nb: &b {<<: *a, x: 3}\nc: {<<: *b, y: 4}")
    assert merged["c"] == {"x": 3, "y": 4}


@pytest.mark.parametrize("part", ["name: {}", "name: ''", "framework: {}", "framework: 5"])
def test_a_manifest_needs_a_name_and_an_engine(part: str) -> None:
    """As texts."""
    with pytest.raises(TaskRefusedError, match="must be a text"):
        convert({**read_source(EVERY_FIELD), **read_source(part)})


def test_an_unknown_field_is_named() -> None:
    """What a later version adds is not lost in silence."""
    found = convert(read_source(EVERY_FIELD + "color: green\n"))
    assert found.not_mapped["color"] == "this version does not know the field"


@pytest.mark.parametrize("text", ["[1]", "a: b", "just text"])
def test_what_is_no_manifest_is_refused(text: str) -> None:
    """With what it must have."""
    with pytest.raises(TaskRefusedError, match="name and framework"):
        convert(read_source(text))
