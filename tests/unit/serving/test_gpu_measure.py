"""What of a GPU's timings remains if a part of them fails, without a GPU."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest

from inferometer_api.layers.bricks import BrickSuite
from inferometer_api.layers.timings import MachineState
from inferometer_models.errors import ModelRefusedError
from inferometer_serving.gpu.device import CudaError, GpuDevice
from inferometer_serving.gpu.libraries import LibraryError
from inferometer_serving.layers.gpu import measure
from inferometer_serving.layers.gpu.onnx_cuda import CudaChoices
from inferometer_serving.layers.optimised_graph import GraphSettings

_NOTHING = BrickSuite(engine="", engine_version="", granularity=1, layers={}, bricks={})
_OPTIONS = measure.GpuMeasureOptions(GraphSettings(), rounds=3)


@pytest.fixture(autouse=True)
def _gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def opened() -> Iterator[GpuDevice]:
        yield GpuDevice(0, "a GPU", (9, 0), 1, 1, 1, None)

    @contextmanager
    def recorded() -> Iterator[MagicMock]:
        yield MagicMock()

    state = MachineState(
        name="a GPU",
        engines={},
        threads=1,
        device="GPU",
        cache_bytes=1,
        cache_bytes_per_second=1.0,
        memory_bytes_per_second=1.0,
    )
    monkeypatch.setattr(measure, "open_gpu", opened)
    monkeypatch.setattr(measure, "record_activities", recorded)
    monkeypatch.setattr(measure, "load_cuda_libraries", lambda: None)
    monkeypatch.setattr(measure, "read_graph", lambda *_, **__: None)
    monkeypatch.setattr(measure, "open_empty_kernel", lambda *_: lambda: None)
    monkeypatch.setattr(measure, "gpu_state", lambda *_: state)


@pytest.mark.parametrize(
    "error", [CudaError("cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY"), LibraryError("status 3.")]
)
def test_a_gpu_that_fails_is_a_refusal_with_the_reason(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its memory may be full of another process."""

    def failing(*_: object) -> MachineState:
        raise error

    monkeypatch.setattr(measure, "gpu_state", failing)
    reason = str(error).rstrip(".")
    with pytest.raises(ModelRefusedError, match=rf"cannot be timed on a GPU: {reason}\.$"):
        measure.measure_on_gpu(_NOTHING, [], _OPTIONS, lambda *_: None)


def test_a_variant_that_cannot_be_recorded_keeps_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only how long the GPU works for it is not known."""

    class Session:
        """Runs once."""

        inputs = ()
        version = "1"

        def run(self) -> None:
            """Compute nothing."""

        def results(self) -> list[Any]:
            """Return the output."""
            return [np.ones(1)]

    sessions = [Session()]
    monkeypatch.setattr(measure, "open_whole", lambda *_: sessions.pop())
    variant = measure.GpuVariant("onnxruntime:TF32:1", Path("m.onnx"), CudaChoices(), "TF32")
    found = measure.measure_on_gpu(_NOTHING, [variant], _OPTIONS, lambda *_: None)
    assert len(found.variants[variant.name].nanoseconds) == 3
    assert found.variants[variant.name].busy_nanoseconds is None
