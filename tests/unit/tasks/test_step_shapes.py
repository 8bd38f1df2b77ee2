"""The shape that steps make is known before a sample is read, and compared with the model's."""

from io import BytesIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from inferometer_api.manifest.input_steps import InputStep
from inferometer_api.manifest.model_manifest import ModelManifest
from inferometer_api.results.result import Tensor
from inferometer_tasks.assets import Assets
from inferometer_tasks.errors import SampleError, TaskRefusedError
from inferometer_tasks.model_check import check_tensors
from inferometer_tasks.pipeline import TaskPipeline
from inferometer_tasks.sample import Sample
from inferometer_tasks.step_shapes import fits, shape_after

_SIDES = st.one_of(st.none(), st.integers(1, 40))
_FITS = st.sampled_from(["Stretch", "Cover", "Inside", "Pad"])
_RESIZE = st.tuples(_SIDES, _SIDES, _FITS).filter(
    lambda each: any(each[:2]) and (each[2] != "Pad" or all(each[:2]))
)


def _resized(height: int | None, width: int | None, fit: str) -> dict[str, Any]:
    sides = {"height": height, "width": width}
    return {"resize": {"fit": fit} | {name: size for name, size in sides.items() if size}}


_IMAGE_STEPS = st.one_of(
    _RESIZE.map(lambda each: _resized(*each)),
    st.tuples(st.integers(1, 20), st.integers(1, 20)).map(
        lambda each: {"crop": {"height": each[0], "width": each[1]}}
    ),
)
_LAST_STEPS = st.sampled_from(
    [
        [],
        [{"layout": {"order": "CHW"}}],
        [{"layout": {"order": "HWC"}}],
        [{"normalize": {"divideBy": 255}}, {"layout": {"order": "CHW"}}],
        [{"reshape": {"shape": [-1]}}],
        [{"reshape": {"shape": [1, -1, 1]}}, {"cast": {"datatype": "FP32"}}],
    ]
)


def _manifest(modality: str, steps: list[dict[str, Any]]) -> ModelManifest:
    return ModelManifest.model_validate(
        {
            "apiVersion": "inferometer.dev/v1alpha1",
            "kind": "ModelManifest",
            "name": "m",
            "version": "1.0.0",
            "license": "MIT",
            "framework": [{"name": "any"}],
            "inputs": [{"name": "in", "modality": modality, "steps": steps}],
            "outputs": [{"name": "out"}],
        },
        by_alias=True,
        by_name=False,
    )


@given(
    size=st.tuples(st.integers(1, 60), st.integers(1, 60)),
    mode=st.sampled_from(["RGB", "Gray"]),
    steps=st.lists(_IMAGE_STEPS, max_size=3),
    last=_LAST_STEPS,
)
def test_what_is_known_of_a_shape_is_what_the_steps_make_of_any_image(
    size: tuple[int, int],
    mode: str,
    steps: list[dict[str, Any]],
    last: list[dict[str, Any]],
) -> None:
    """The steps themselves are the oracle."""
    manifest = _manifest("Image", [{"decode": {"colorMode": mode}}, *steps, *last])
    content = BytesIO()
    Image.new("RGB", size).save(content, "PNG")
    try:
        pipeline = TaskPipeline(manifest, Assets(manifest, None))  # type: ignore[arg-type]
        array = pipeline.inputs(Sample("a", content.getvalue(), None))["in"]
    except (SampleError, TaskRefusedError):
        return
    known = shape_after(manifest.inputs[0].steps)
    assert known is not None
    assert fits(known, array.shape)
    assert fits(known, (-1, *array.shape))
    for axis, each in enumerate(known):
        assert each in {None, array.shape[axis]}


@pytest.mark.parametrize(
    ("modality", "steps", "shape", "is_taken"),
    [
        ("Values", [{"reshape": {"shape": [2, 3]}}], [-1, 2, 3], True),
        ("Values", [{"reshape": {"shape": [2, 3]}}], [1, 2, 3], True),
        ("Values", [{"reshape": {"shape": [2, 3]}}], [2, 3], True),
        ("Values", [{"reshape": {"shape": [2, 3]}}], [-1, 3, 2], False),
        ("Values", [{"reshape": {"shape": [2, 3]}}], [4, 2, 3], False),
        ("Values", [{"reshape": {"shape": [2, 3]}}], [-1], False),
        ("Values", [{"reshape": {"shape": [2, -1]}}], [-1, 2, 9], True),
        ("Values", [{"reshape": {"shape": [2, -1]}}], [-1, 3, 9], False),
        (
            "File",
            [{"fileBytes": {"begin": 6}}, {"reshape": {"shape": [2, -1]}}],
            [-1, 2, 3],
            True,
        ),
        (
            "File",
            [{"fileBytes": {"begin": 6}}, {"reshape": {"shape": [2, -1]}}],
            [-1, 2, 4],
            False,
        ),
        ("Values", [{"cast": {"datatype": "FP32"}}], [-1, 3, 9], True),
        ("Text", [{"tokenize": {"tokenizer": "t", "maxLength": 8}}], [-1, 8], True),
        ("Text", [{"tokenize": {"tokenizer": "t", "maxLength": 8}}], [-1, 9], False),
        (
            "Text",
            [{"tokenize": {"tokenizer": "t", "maxLength": 8, "padding": "Absent"}}],
            [-1, 9],
            True,
        ),
        ("File", [{"fileBytes": {"begin": 4, "end": 4}}], [-1, 8], True),
        ("File", [{"fileBytes": {"begin": 4, "end": 4}}], [-1, 4], False),
        ("Image", [{"decode": {}}, _resized(4, 4, "Stretch")], [-1, 4, 4, 3], True),
        ("Image", [{"decode": {}}, _resized(4, 4, "Stretch")], [-1, 3, 4, 4], False),
        ("Image", [{"decode": {}}, _resized(4, 4, "Cover")], [-1, 5, 4, 3], True),
    ],
)
def test_a_shape_that_the_model_does_not_take_is_refused_before_any_sample(
    modality: str,
    steps: list[dict[str, Any]],
    shape: list[int],
    is_taken: bool,  # noqa: FBT001 - one of the cases
) -> None:
    """Every sample would fail."""
    manifest = _manifest(modality, steps)
    tensors = [Tensor(name="in", datatype="FP32", shape=shape)]
    if is_taken:
        check_tensors(manifest, tensors, [])
        return
    with pytest.raises(TaskRefusedError, match=r"The input 'in' has the shape \["):
        check_tensors(manifest, tensors, [])


def test_what_python_makes_of_a_sample_is_not_compared() -> None:
    """The steps are not run then."""
    manifest = _manifest("Values", [{"reshape": {"shape": [2]}}])
    own = manifest.model_copy(update={"preprocess": "def preprocess(context, data): ..."})
    tensors = [Tensor(name="in", datatype="FP32", shape=[-1, 3])]
    check_tensors(own, tensors, [])
    with pytest.raises(TaskRefusedError):
        check_tensors(manifest, tensors, [])


def test_steps_with_an_unknown_begin_have_no_shape() -> None:
    """Values of a data set have whatever shape they have."""
    assert shape_after([]) is None
    assert shape_after([InputStep.model_validate({"normalize": {}})]) is None
