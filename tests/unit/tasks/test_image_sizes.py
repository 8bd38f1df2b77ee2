"""Images of extreme sizes do not fill the memory."""

import numpy as np
import pytest

from inferometer_api.manifest.input_steps import Resize
from inferometer_tasks.errors import SampleError
from inferometer_tasks.steps import image


@pytest.mark.parametrize(
    ("step", "size", "words"),
    [
        (Resize(height=256, width=256, fit="Cover"), (1, 60_000), "256 x 15360000"),
        (Resize(height=256, width=256, fit="Cover"), (60_000, 1), "15360000 x 256"),
        (Resize(height=16_384), (1, 20_000), "16384 x 327680000"),
        (Resize(width=16_384), (20_000, 1), "327680000 x 16384"),
        (Resize(height=16_384, width=16_384), (2, 2), "16384 x 16384"),
        (Resize(height=16_384, width=16_384, fit="Pad"), (1, 20_000), "16384 x 16384"),
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


def test_a_narrow_image_within_the_bound_is_resized() -> None:
    """Its shorter side covers, however long the other becomes."""
    narrow = np.zeros((1, 60), np.uint8)[:, :, None]
    step = Resize(height=256, width=256, fit="Cover")
    assert image.resize(step, narrow).shape == (256, 15_360, 1)
