"""Images of extreme sizes do not fill the memory."""

from pathlib import Path

import numpy as np
import pytest

from inferometer_api.manifest.input_steps import Resize
from inferometer_tasks.errors import SampleError, TaskRefusedError
from inferometer_tasks.manifest_file import read_manifest
from inferometer_tasks.steps import image

_MANIFEST = """\
apiVersion: inferometer.dev/v1alpha1
kind: ModelManifest
name: m
version: 1.0.0
license: MIT
framework: {name: onnxruntime}
inputs: [{name: x, modality: Image, steps: [{decode: {}}, {STEP}]}]
outputs: [{name: p, steps: [{topK: {k: 1}}]}]
"""


@pytest.mark.parametrize(
    ("step", "size", "words"),
    [
        (Resize(height=256, width=256, fit="Cover"), (1, 60_000), "256 x 15360000"),
        (Resize(height=256, width=256, fit="Cover"), (60_000, 1), "15360000 x 256"),
        (Resize(height=16_384), (1, 20_000), "16384 x 327680000"),
        (Resize(width=16_384), (20_000, 1), "327680000 x 16384"),
    ],
)
def test_an_image_that_would_become_too_large_is_the_fault_of_its_sample(
    step: Resize, size: tuple[int, int], words: str
) -> None:
    """Nothing is scaled, and the sizes are named."""
    with pytest.raises(SampleError, match=f"resize would make {words}"):
        image.target_size(step, *size)
    with pytest.raises(SampleError, match=f"resize would make {words}"):
        image.resize(step, np.broadcast_to(np.uint8(0), (*size, 3)))


@pytest.mark.parametrize("step", ["resize", "crop"])
def test_a_size_that_no_sample_can_have_is_refused_with_the_manifest(
    step: str, tmp_path: Path
) -> None:
    """Else the manifest passes every check, and each of its samples fails."""
    fits, too_large = "{height: 10000, width: 10000}", "{height: 16384, width: 16384}"
    model = tmp_path / "model.yaml"
    model.write_text(_MANIFEST.replace("STEP", f"{step}: {fits}"))
    assert read_manifest(model).inputs[0].steps
    model.write_text(_MANIFEST.replace("STEP", f"{step}: {too_large}"))
    with pytest.raises(TaskRefusedError) as refused:
        read_manifest(model)
    assert f"inputs[0].steps[1].{step}.height" in str(refused.value)
    assert "must be at most 100,000,000 pixels; found 16384 x 16384" in str(refused.value)


def test_a_narrow_image_within_the_bound_is_resized() -> None:
    """Its shorter side covers, however long the other becomes."""
    narrow = np.zeros((1, 60), np.uint8)[:, :, None]
    step = Resize(height=256, width=256, fit="Cover")
    assert image.resize(step, narrow).shape == (256, 15_360, 1)
