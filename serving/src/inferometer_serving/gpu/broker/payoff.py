"""The seconds that sharing a model saves by TrIMS's rule, with constants of this machine."""

import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

from inferometer_serving.gpu.broker.layout import Extent, lay_out
from inferometer_serving.gpu.broker.memory import WeightMemory

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")
_SAMPLE_BYTES = 64 << 20
_REPEATS = 5


@dataclass(frozen=True, slots=True)
class SharingConstants:
    """What loads, exports and opens cost on one GPU."""

    load_bytes_per_second: float
    """Rate of a load from the page cache to the GPU."""
    export_seconds: float
    """Duration of one export of loaded weights to another process."""
    open_seconds: float
    """Duration of one open of exported weights."""

    def seconds_saved(self, size_bytes: int, objects: int = 1) -> float:
        """Return how many seconds sharing saves over another load; negative if it costs more.

        This is rho = b / q - n (o + s) of TrIMS (Dakkak, Li and others, 2019): `b` is the size in
        bytes, `q` the rate of a load, `n` the number of shared objects, `o` the duration of an
        export and `s` that of an open. A model is one object, because all its tensors lie in one
        allocation.
        """
        cost = objects * (self.export_seconds + self.open_seconds)
        return size_bytes / self.load_bytes_per_second - cost


def measure_constants(memory: WeightMemory) -> SharingConstants:
    """Return the medians of five loads, exports and opens of a 64 MiB sample.

    Raises what the memory raises.
    """
    layout = lay_out([Extent(0, _SAMPLE_BYTES)])
    sample = os.memfd_create("sample")
    loads, exports, opens = [], [], []
    try:
        os.write(sample, bytes(_SAMPLE_BYTES))  # a hole would be one page, which stays cached
        for _ in range(_REPEATS + 1):
            block, seconds = _time(memory.load, sample, layout)
            loads.append(seconds)
            descriptor, seconds = _time(block.export)
            exports.append(seconds)
            opened, seconds = _time(memory.open, descriptor, layout.size_bytes)
            opens.append(seconds)
            opened.close()
            os.close(descriptor)
            block.free()
    finally:
        os.close(sample)
    # The first of each is slower, because CUDA sets up state that all later calls use.
    load, export, open_ = (statistics.median(each[1:]) for each in (loads, exports, opens))
    return SharingConstants(_SAMPLE_BYTES / load, export, open_)


def _time(
    work: Callable[_Arguments, _Result], *given: _Arguments.args, **named: _Arguments.kwargs
) -> tuple[_Result, float]:
    began = time.perf_counter()
    result = work(*given, **named)
    return result, time.perf_counter() - began
