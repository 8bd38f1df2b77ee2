"""Shared memory of a GPU whose driver is played."""

import sys
from collections.abc import Callable
from enum import IntEnum
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from inferometer_serving.gpu.device import CudaError, GpuDevice
from inferometer_serving.gpu.shared_memory import GpuMemory


class _Result(IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_UNKNOWN = 999


class _Driver:
    """Notes the calls of memory; one of them fails."""

    def __init__(self, failing: str) -> None:
        self._failing = failing
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return self._function(name) if name.startswith("cu") else MagicMock()

    def _function(self, name: str) -> Callable[..., tuple[_Result, int]]:
        def function(*_: Any) -> tuple[_Result, int]:
            self.calls.append(name)
            failed = name == self._failing
            return _Result.CUDA_ERROR_UNKNOWN if failed else _Result.CUDA_SUCCESS, 4096

        function.__name__ = name
        return function


@pytest.mark.parametrize(
    ("failing", "undone"),
    [
        ("cuMemAddressReserve", ["cuMemRelease"]),
        ("cuMemMap", ["cuMemAddressFree", "cuMemRelease"]),
        ("cuMemSetAccess", ["cuMemUnmap", "cuMemAddressFree", "cuMemRelease"]),
    ],
)
def test_memory_that_cannot_be_mapped_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch, failing: str, undone: list[str]
) -> None:
    """Each step that was done is undone, the last one first."""
    driver = _Driver(failing)
    monkeypatch.setitem(sys.modules, "cuda.bindings", SimpleNamespace(driver=driver))
    memory = GpuMemory(GpuDevice(0, "a GPU", (9, 0), 1, 1, 1, None))
    with pytest.raises(CudaError, match=f"{failing} failed"):
        memory.open(3, 100)
    assert driver.calls[driver.calls.index(failing) + 1 :] == undone
