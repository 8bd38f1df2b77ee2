"""What timings on this machine depend on: its CPU, its caches and how fast they are read."""

import time
from pathlib import Path

import numpy as np
import onnxruntime  # type: ignore[import-untyped]  # ships no types

from inferometer_api.layers.bricks import MachineState
from inferometer_serving.layers.reading import ENGINE

_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_USUAL_CACHE_BYTES = 32 << 20
"""Where the kernel does not say how large the caches are."""
_REPEATS = 7
_LEAST_BYTES = 64 << 20
"""As much is read in each repeat, so that a clock tick does not matter."""


def machine_state(cpu: str, threads: int) -> MachineState:
    """Return what is known about the machine, and how fast one thread reads, measured now."""
    cache_bytes = _last_cache_bytes()
    return MachineState(
        cpu=cpu,
        engine=ENGINE,
        engine_version=str(onnxruntime.__version__),
        threads=threads,
        cache_bytes=cache_bytes,
        cache_bytes_per_second=_bytes_per_second(cache_bytes // 4),
        memory_bytes_per_second=_bytes_per_second(4 * cache_bytes),
    )


def _last_cache_bytes() -> int:
    sizes = [_kibibytes(each) << 10 for each in _CACHES.glob("index*/size")]
    return max(sizes, default=_USUAL_CACHE_BYTES)


def _kibibytes(file: Path) -> int:
    text = file.read_text().strip().removesuffix("K")
    return int(text) if text.isdecimal() else 0


def _bytes_per_second(size: int) -> float:
    """Return how fast an array of `size` bytes is read, one time after the other."""
    array = np.ones(size // 4, np.float32)
    array.max()
    times = max(_LEAST_BYTES // size, 1)
    best_ns = min(_read_ns(array, times) for _ in range(_REPEATS))
    return array.nbytes * times * 1e9 / best_ns


def _read_ns(array: "np.ndarray[tuple[int], np.dtype[np.float32]]", times: int) -> int:
    began = time.perf_counter_ns()
    for _ in range(times):
        array.max()
    return time.perf_counter_ns() - began
