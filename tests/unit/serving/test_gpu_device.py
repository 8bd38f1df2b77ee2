"""A machine without a GPU."""

import sys

import pytest

from inferometer_serving.gpu.device import GpuUnavailableError, gpu_count, open_gpu


def test_without_the_bindings_there_is_no_gpu_and_the_reason_names_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The extra `gpu` is optional."""
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    assert gpu_count() == 0
    with pytest.raises(GpuUnavailableError, match="cuda-bindings is not installed"), open_gpu():
        pass
