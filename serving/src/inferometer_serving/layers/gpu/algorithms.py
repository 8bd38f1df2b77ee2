"""Algorithms of an engine for one layer on a GPU, timed by the kernels that each runs there."""

import weakref
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from statistics import median, quantiles
from typing import Any

from inferometer_api.layers.timings import KernelTiming
from inferometer_serving.gpu.activities import ActivityRecorder, GpuActivity
from inferometer_serving.gpu.device import call
from inferometer_serving.gpu.kernel_names import readable, uses_tensor_cores

_TRIALS = 2
"""After so many runs, algorithms that are far from the best are dropped."""
_FAR = 1.5
_MOST_NAMES = 8


@dataclass(slots=True)
class Algorithm:
    """An algorithm of an engine for one layer, with the durations of its runs."""

    name: str
    launch: Callable[[], object]
    """Puts the work in its stream; it may return before the work has ended."""
    durations_ns: list[float] = field(default_factory=list)
    """What ran on the GPU in each run, added up."""
    kernel_names: tuple[str, ...] = ()
    """The kernels of the last run, in their order."""

    def add(self, activities: Sequence[GpuActivity]) -> None:
        """Add a run. Raises RuntimeError if nothing ran on the GPU."""
        if not activities:
            raise RuntimeError("Nothing of it ran on the GPU.")
        self.durations_ns.append(float(sum(each.end_ns - each.start_ns for each in activities)))
        self.kernel_names = tuple(readable(each.name) for each in activities)


class GpuKernels:
    """A layer by one engine, with all algorithms that the engine has for it."""

    inputs: tuple[Any, ...] = ()
    """Of its host memory, none: everything lies on the GPU."""

    def __init__(
        self,
        engine: str,
        precision: str,
        algorithms: Sequence[Algorithm],
        recorder: ActivityRecorder,
        resources: ExitStack,
    ) -> None:
        if not algorithms:
            resources.close()
            raise RuntimeError(f"{engine} has no algorithm for it.")
        self.engine = engine
        self.precision = precision
        self._recorder = recorder
        self._algorithms = list(algorithms)
        weakref.finalize(self, resources.close)

    def run(self) -> None:
        """Compute the layer once by each algorithm that is left."""
        for algorithm in self._algorithms:
            self._recorder.take()
            algorithm.launch()
            synchronize()
            algorithm.add(self._recorder.take())
        if len(self._algorithms[0].durations_ns) == _TRIALS:
            self._algorithms = nearest(self._algorithms)

    def timing(self, key: str, runs: int) -> KernelTiming:
        """Return the timing of the fastest algorithm over its last `runs` runs."""
        return fastest_timing(key, self.engine, self.precision, self._algorithms, runs)


def nearest(algorithms: Sequence[Algorithm]) -> list[Algorithm]:
    """Return the algorithms whose shortest run is not far from the shortest of all."""
    shortest = min(min(each.durations_ns) for each in algorithms)
    return [each for each in algorithms if min(each.durations_ns) <= _FAR * shortest]


def fastest_timing(
    key: str, engine: str, precision: str, algorithms: Sequence[Algorithm], runs: int
) -> KernelTiming:
    """Return the timing of the algorithm with the lowest median over the last `runs` runs."""
    best = min(algorithms, key=lambda each: median(each.durations_ns[-runs:]))
    durations = best.durations_ns[-runs:]
    lower, _, upper = quantiles(durations, n=4) if len(durations) > 1 else durations * 3
    return KernelTiming(
        key=key,
        engine=engine,
        precision=precision,
        nanoseconds=median(durations),
        runs=len(durations),
        algorithm=best.name,
        gpu_kernels=list(best.kernel_names[:_MOST_NAMES]),
        uses_tensor_cores=any(map(uses_tensor_cores, best.kernel_names)),
        spread_nanoseconds=max(upper - lower, 0.0),
    )


def synchronize() -> None:
    """Wait for everything on the GPU."""
    from cuda.bindings import driver  # noqa: PLC0415 - optional

    call(driver.cuCtxSynchronize)
