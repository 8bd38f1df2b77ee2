"""Measures what timings on this machine depend on: its caches, memory and arithmetic."""

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from inferometer_api.layers.timings import MachineState
from inferometer_serving.layers.brick_model import matrix_product, model_as_brick
from inferometer_serving.layers.kernels import KERNELS
from inferometer_serving.machine_name import engine_versions, machine_name
from inferometer_serving.model.session import EngineSettings

_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_USUAL_CACHE_BYTES = 32 << 20
"""Where the kernel does not say how large the caches are."""
_LEVEL_OF_CORE = 2
_REPEATS = 7
_LEAST_BYTES = 64 << 20
"""As much is read in each repeat, so that a clock tick does not matter."""
_PROBE_WIDTH = 512
_PRODUCTS = 20
_COPIED_BYTES = tuple(1 << power for power in range(16, 27, 2))
"""A bound must allow for tensors that stay in a cache."""


def machine_state(settings: EngineSettings, *, with_peaks: bool) -> MachineState:
    """Return what timings depend on; `with_peaks`, also the rates of a roofline."""
    sizes = _cache_sizes()
    cache_bytes = sizes.get(max(sizes, default=0), _USUAL_CACHE_BYTES)
    return MachineState(
        name=machine_name(),
        engines=engine_versions(),
        threads=settings.threads,
        cache_bytes=cache_bytes,
        core_cache_bytes=sizes.get(_LEVEL_OF_CORE, 0),
        cache_bytes_per_second=_read_rate(cache_bytes // 4),
        memory_bytes_per_second=_read_rate(4 * cache_bytes),
        copy_bytes_per_second=settings.threads * _copy_rate() if with_peaks else 0.0,
        flops_per_second=_product_rate(settings) if with_peaks else 0.0,
    )


def _cache_sizes() -> dict[int, int]:
    """Return the bytes of the data caches, by level."""
    found: dict[int, int] = {}
    for each in _CACHES.glob("index*/size"):
        level = _number(each.with_name("level"))
        found[level] = max(found.get(level, 0), _number(each) << 10)
    return {level: size for level, size in found.items() if size}


def _number(file: Path) -> int:
    text = file.read_text().strip().removesuffix("K")
    return int(text) if text.isdecimal() else 0


def _read_rate(size: int) -> float:
    """Return how fast an array of `size` bytes is read, one time after the other."""
    array = np.ones(size // 4, np.float32)
    array.max()
    times = max(_LEAST_BYTES // size, 1)

    def read() -> None:
        for _ in range(times):
            array.max()

    return array.nbytes * times * 1e9 / _shortest_ns(read, _REPEATS)


def _copy_rate() -> float:
    """Return the highest rate of bytes read and written by copies from 64 KiB to 64 MiB."""
    best = 0.0
    for size in _COPIED_BYTES:
        source, target = np.ones(size, np.uint8), np.empty(size, np.uint8)
        best = max(best, 2e9 * size / _shortest_ns(lambda: np.copyto(target, source), _PRODUCTS))  # noqa: B023 - called at once
    return best


def _product_rate(settings: EngineSettings) -> float:
    """Return the highest rate of a product of two matrices, over the engines."""
    rates = [0.0]
    for kind in KERNELS.values():
        try:
            kernels = kind(model_as_brick(matrix_product(_PROBE_WIDTH)), settings)
        except ImportError:
            continue
        rates.append(2e9 * _PROBE_WIDTH**3 / _shortest_ns(kernels.run, _PRODUCTS))
    return max(rates)


def _shortest_ns(action: Callable[[], object], repeats: int) -> int:
    times = []
    for _ in range(repeats):
        began = time.perf_counter_ns()
        action()
        times.append(time.perf_counter_ns() - began)
    return max(1, min(times))
