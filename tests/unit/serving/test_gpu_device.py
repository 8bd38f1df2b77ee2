"""A machine without a GPU."""

import sys
from collections.abc import Callable
from enum import IntEnum
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from inferometer_serving.gpu.device import GpuUnavailableError, gpu_count, machine_code, open_gpu
from inferometer_serving.gpu.identity import gpu_machine_name


class _Result(IntEnum):
    CUDA_ERROR_NO_DEVICE = 100


def _without_library(*_: Any) -> NoReturn:
    """Raise as cuda-bindings do."""
    raise RuntimeError('Failure finding "libcuda.so":\nno driver is installed.')


def cuInit(_: int) -> tuple[_Result]:  # noqa: N802 - CUDA's name
    """Fail as the driver does on a machine without a GPU."""
    return (_Result.CUDA_ERROR_NO_DEVICE,)


def test_without_the_bindings_there_is_no_gpu_and_the_reason_names_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The extra `gpu` is optional."""
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    assert gpu_count() == 0
    with pytest.raises(GpuUnavailableError, match="cuda-bindings is not installed"), open_gpu():
        pass


@pytest.mark.parametrize(
    ("initialise", "reason"),
    [
        (_without_library, r"NVIDIA's driver \(libcuda\.so\.1\) is not installed"),
        (cuInit, "CUDA shows no GPU 0: cuInit failed with CUDA_ERROR_NO_DEVICE"),
    ],
)
def test_the_reason_is_a_clause_that_others_can_end(
    monkeypatch: pytest.MonkeyPatch, initialise: Callable[..., Any], reason: str
) -> None:
    """It says whether the driver is missing or the GPU, without the words of cuda-bindings."""
    bindings = SimpleNamespace(driver=SimpleNamespace(cuInit=initialise))
    monkeypatch.setitem(sys.modules, "cuda.bindings", bindings)
    assert gpu_count() == 0
    with pytest.raises(GpuUnavailableError, match=f"^{reason}$"), open_gpu():
        pass
    with pytest.raises(GpuUnavailableError, match=f"^{reason}$"):
        gpu_machine_name()


def test_the_reason_why_nothing_can_be_compiled_is_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The words of cuda-bindings have several."""
    compiler = SimpleNamespace(nvrtcCreateProgram=_without_library)
    monkeypatch.setitem(sys.modules, "cuda.bindings", SimpleNamespace(nvrtc=compiler))
    with pytest.raises(GpuUnavailableError, match=r'missing: .*so": no driver is installed$'):
        machine_code((9, 0), "")
