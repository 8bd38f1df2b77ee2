"""Manifests whose steps cannot be right are refused before any sample is read."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from inferometer_api.manifest.model_manifest import ModelManifest
from inferometer_api.results.result import Tensor
from inferometer_tasks.errors import TaskRefusedError
from inferometer_tasks.manifest_file import read_manifest
from inferometer_tasks.model_check import check_tensors

INFINITE = float("inf")
DECODE: dict[str, Any] = {"decode": {}}
GRAY: dict[str, Any] = {"decode": {"colorMode": "Gray"}}
CHW: dict[str, Any] = {"layout": {"order": "CHW"}}
HWC: dict[str, Any] = {"layout": {"order": "HWC"}}


def read(folder: Path, before: list[Any], *outputs: list[Any], **more: Any) -> ModelManifest:
    """Write a manifest with these steps, and read it."""
    modality = "Image" if "decode" in str(before) else "Values"
    path = folder / "model.yaml"
    document = {
        "apiVersion": "inferometer.dev/v1alpha1",
        "kind": "ModelManifest",
        "name": "m",
        "version": "1.0.0",
        "license": "MIT",
        "framework": {"name": "onnxruntime"},
        "inputs": [{"name": "in", "modality": modality, "steps": before}],
        "outputs": [
            {"name": f"out{number}", "steps": steps}
            for number, steps in enumerate(outputs or ([],))
        ],
        **more,
    }
    path.write_text(yaml.safe_dump(document))
    return read_manifest(path)


def normalize(**settings: Any) -> dict[str, Any]:
    """Return a step."""
    return {"normalize": settings}


def resize(height: int | None, width: int | None, fit: str = "Stretch") -> dict[str, Any]:
    """Return a step."""
    sides = {"height": height, "width": width}
    return {"resize": {"fit": fit} | {name: each for name, each in sides.items() if each}}


def crop(height: int, width: int) -> dict[str, Any]:
    """Return a step."""
    return {"crop": {"height": height, "width": width}}


@pytest.mark.parametrize(
    ("before", "words"),
    [
        (
            [normalize(divideBy=INFINITE)],
            "divideBy is inf: not finite and above 0 in 32-bit floats",
        ),
        ([normalize(divideBy=1e-60)], "divideBy is 1e-60: not finite and above 0"),
        ([normalize(mean=[float("nan")])], "mean is nan"),
        ([normalize(mean=[1e60])], r"mean is 1e\+60"),
        ([normalize(std=[1.0, INFINITE, 1.0])], r"std is \[1.0, inf, 1.0\]"),
        (
            [DECODE, resize(4, 4), {"reshape": {"shape": [40]}}],
            r"steps\[2\].reshape cannot give values of the shape \[4, 4, 3\] the shape \[40\]",
        ),
        ([DECODE, resize(4, 4), {"reshape": {"shape": [5, -1]}}], "their number differs"),
        ([DECODE, normalize(mean=[1.0, 2.0])], "2 values of mean or std, .* has 3 channels"),
        ([DECODE, crop(2, 2), normalize(std=[1.0, 2.0])], "2 values of mean or std"),
        ([GRAY, normalize(mean=[1.0, 2.0, 3.0])], "3 values of mean or std, .* has 1 channels"),
        ([normalize(mean=[1.0] * 2, std=[1.0] * 3)], "2 values of mean and 3 of std"),
        ([DECODE, CHW, normalize(mean=[1.0, 2.0, 3.0])], "put it before layout CHW"),
        ([DECODE, CHW, HWC], r"steps\[2\].layout is the second one"),
        ([DECODE, resize(8, 8), crop(9, 8)], "cuts out 9 x 8 pixels of 8 x 8"),
        ([DECODE, resize(8, 8, "Pad"), crop(8, 9)], "cuts out 8 x 9 pixels of 8 x 8"),
        ([DECODE, resize(8, 8, "Cover"), crop(9, 9)], "cuts out 9 x 9 pixels of 8 x 8"),
        ([DECODE, resize(8, None), crop(9, 1)], r"cuts out 9 x 1 pixels of 8 x [?]"),
        ([DECODE, crop(4, 4), crop(4, 5)], "cuts out 4 x 5 pixels of 4 x 4"),
    ],
)
def test_steps_before_the_model_that_cannot_be_right_are_refused(
    before: list[Any], words: str, tmp_path: Path
) -> None:
    """Every sample would fail or be something else, which no figure shows."""
    with pytest.raises(TaskRefusedError, match=words):
        read(tmp_path, before)


@pytest.mark.parametrize(
    "before",
    [
        [normalize(divideBy=255, mean=[1.0, 2.0], std=[0.5])],
        [DECODE, normalize(mean=[1.0, 2.0, 3.0], std=[1.0]), CHW],
        [DECODE, CHW, normalize(divideBy=255)],
        [DECODE, HWC, normalize(mean=[1.0, 2.0, 3.0])],
        [DECODE, CHW, {"reshape": {"shape": [2, 2, 2]}}, normalize(mean=[1.0, 2.0])],
        [GRAY, normalize(mean=[1.0])],
        [DECODE, {"reshape": {"shape": [40]}}],
        [DECODE, resize(4, 4), {"reshape": {"shape": [6, -1]}}],
        [DECODE, resize(4, 4), {"reshape": {"shape": [48]}}],
        [DECODE, resize(8, 8, "Cover"), crop(8, 9)],
        [DECODE, resize(8, None), crop(8, 900)],
        [DECODE, resize(8, 8), resize(16, 16), crop(9, 9)],
    ],
)
def test_steps_that_may_be_right_are_read(before: list[Any], tmp_path: Path) -> None:
    """Wide images give a crop its columns, and two channels are no mistake by themselves."""
    assert len(read(tmp_path, before).inputs[0].steps) == len(before)


@pytest.mark.parametrize(
    ("outputs", "more", "words"),
    [
        (
            [[{"softmax": {}}, {"softmax": {}}]],
            {},
            r"outputs\[0\].steps\[1\].softmax is the second",
        ),
        (
            [[], [{"softmax": {}}], [{"topK": {}}]],
            {},
            r"outputs\[2\] has steps, but outputs\[1\] makes the prediction",
        ),
        (
            [[]],
            {"expectedOutputs": [{"sample": "a", "prediction": each} for each in "12"]},
            r"expectedOutputs\[1\] is another one of sample 'a'",
        ),
    ],
)
def test_steps_and_entries_without_effect_are_refused(
    outputs: list[Any], more: dict[str, Any], words: str, tmp_path: Path
) -> None:
    """They were ignored."""
    with pytest.raises(TaskRefusedError, match=words):
        read(tmp_path, [], *outputs, **more)


def test_the_datatype_of_an_input_is_the_models(tmp_path: Path) -> None:
    """A manifest of the quantized model does not describe this one."""
    tensors = [Tensor(name="in", datatype="FP32", shape=[-1, 2])]
    for own in ({"name": "in", "datatype": "FP32"}, {"name": "in"}):
        check_tensors(read(tmp_path, [], inputs=[own]), tensors, [])
    manifest = read(tmp_path, [], inputs=[{"name": "in", "datatype": "INT8"}])
    with pytest.raises(TaskRefusedError, match="INT8 for the input 'in', but the model takes FP32"):
        check_tensors(manifest, tensors, [])


def test_a_manifest_names_every_input_of_the_model(tmp_path: Path) -> None:
    """OpenVINO computed with what was in the memory of an input that got no tensor."""
    tensors = [Tensor(name=name, datatype="FP32", shape=[-1, 2]) for name in ("in", "mask")]
    manifest = read(tmp_path, [], inputs=[{"name": "in"}])
    with pytest.raises(TaskRefusedError, match=r"also has the inputs \['mask'\], which the manif"):
        check_tensors(manifest, tensors, [])
    check_tensors(manifest, tensors[:1], [])


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (DECODE, "set modality: Image or File"),
        ({"fileBytes": {"begin": 4}}, "set modality: Image or File"),
        ({"tokenize": {"tokenizer": "t.json", "maxLength": 4}}, "set modality: Text"),
    ],
)
def test_a_missing_modality_is_named(step: dict[str, Any], words: str, tmp_path: Path) -> None:
    """Without one an input takes values, and the first step seemed to be in the wrong place."""
    with pytest.raises(TaskRefusedError, match=words):
        read(tmp_path, [], inputs=[{"name": "in", "steps": [step]}])
