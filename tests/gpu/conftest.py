"""What the tests on a real GPU share."""

from collections.abc import Iterator

import pytest

from inferometer_serving.gpu.device import GpuDevice, GpuUnavailableError, open_gpu


@pytest.fixture
def gpu() -> Iterator[GpuDevice]:
    """Open the first GPU; skip with the reason if there is none."""
    try:
        with open_gpu() as opened:
            yield opened
    except GpuUnavailableError as error:
        pytest.skip(f"needs a GPU: {error}")
