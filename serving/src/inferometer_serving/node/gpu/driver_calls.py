"""Calls of CUDA's driver from machine code, and what they cost.

The calls repeat in machine code: an interpreter takes longer than the driver. Where the kernel of
the operating system allows none, or the CPU is not x86-64, ctypes calls, and the setting says so.
"""

import ctypes
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from inferometer_api.nodes.characteristics import NodeFigure
from inferometer_api.nodes.figures import figure
from inferometer_serving.gpu.device import CudaError, GpuFunction
from inferometer_serving.node.machine_code import repeated_calls
from inferometer_serving.node.samples import seconds_of

CALLS, CALL_REPEATS = 200, 7


class _LaunchConfig(ctypes.Structure):
    _fields_ = (
        *((f"{what}{axis}", ctypes.c_uint) for what in ("grid", "block") for axis in "xyz"),
        ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("attribute_count", ctypes.c_uint),
    )


class DriverCaller:
    """Calls functions of the driver, many times in a row."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libcuda.so.1")
        self._repeat = repeated_calls()
        self.how = "ctypes" if self._repeat is None else "machine code"

    def run(self, name: str, *words: int, times: int = 1) -> None:
        """Call a function whose arguments are at most four addresses. Raises CudaError."""
        self.prepared(name, *words)(times)

    def prepared(self, name: str, *words: int) -> Callable[[int], None]:
        """Return what makes a call so many times, which raises CudaError."""
        function, repeat = getattr(self._library, name), self._repeat
        address = ctypes.cast(function, ctypes.c_void_p).value
        filled = [*words, *[0] * (4 - len(words))]
        given = [ctypes.c_void_p(each) for each in words]

        def calls(times: int) -> None:
            errors = 0
            if repeat is not None:
                errors = repeat(address, *filled, times)
            else:
                for _ in range(times):
                    errors |= function(*given)
            if errors:
                raise CudaError(f"{name} failed with {errors}")

        return calls

    def instantiation_ns(self, graph: Any) -> float:
        """Return how long it takes to make a graph ready to launch. Raises CudaError."""
        instance = ctypes.c_void_p()
        words = (ctypes.addressof(instance), int(graph), 0)
        seconds = seconds_of(partial(self.prepared("cuGraphInstantiateWithFlags", *words), 1))
        self.run("cuGraphExecDestroy", instance.value or 0)
        return seconds * 1e9

    def launch(self, kernel: GpuFunction, on: Any) -> Callable[[int], None]:
        """Return what launches a kernel of one thread so many times."""
        config = _LaunchConfig(1, 1, 1, 1, 1, 1, 0, int(on), None, 0)
        self._kept = config
        return self.prepared(
            "cuLaunchKernelEx", ctypes.addressof(config), int(kernel.function), 0, 0
        )


def call_cost(
    name: str,
    calls: Callable[[], object],
    synchronize: Callable[[], object],
    count: int,
    setting: Mapping[str, object],
) -> NodeFigure:
    """Return the time of one of `count` calls, in nanoseconds."""
    samples = []
    for _ in range(CALL_REPEATS + 1):
        synchronize()
        samples.append(seconds_of(calls) * 1e9 / count)
    synchronize()
    return figure(name, "ns", samples[1:], setting)
