"""What the tests on a real GPU share."""

from collections.abc import Iterator

import onnxruntime  # type: ignore[import-untyped]  # ships no types
import pytest

from inferometer_serving.gpu.device import GpuDevice, GpuUnavailableError, open_gpu
from support.requirements import cannot_run


@pytest.fixture
def gpu() -> Iterator[GpuDevice]:
    """Open the first GPU; skip with the reason if there is none."""
    try:
        with open_gpu() as opened:
            yield opened
    except GpuUnavailableError as error:
        cannot_run(f"needs a GPU: {error}")


@pytest.fixture
def cuda_provider(gpu: GpuDevice) -> str:
    """Return the name of ONNX Runtime's provider for the GPU; skip if there is none."""
    name = "CUDAExecutionProvider"
    if name not in onnxruntime.get_available_providers():
        cannot_run(f"needs onnxruntime-gpu, to use {gpu.name}")
    return name
