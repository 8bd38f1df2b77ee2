"""Ways to compute one layer on a GPU, timed by the durations of what each runs there."""

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
"""After so many runs, ways that are far from the best are dropped."""
_FAR = 1.5
_MOST_NAMES = 8


@dataclass(slots=True)
class Way:
    """One algorithm for a layer."""

    algorithm: str
    launch: Callable[[], object]
    """Puts the work in its stream; it may return before the work has ended."""
    durations_ns: list[float] = field(default_factory=list)
    """What ran on the GPU in each run, added up."""
    names: tuple[str, ...] = ()
    """The kernels of the last run, in their order."""

    def add(self, activities: Sequence[GpuActivity]) -> None:
        """Add a run. Raises RuntimeError if nothing ran on the GPU."""
        if not activities:
            raise RuntimeError("Nothing of it ran on the GPU.")
        self.durations_ns.append(float(sum(each.end_ns - each.start_ns for each in activities)))
        self.names = tuple(readable(each.name) for each in activities)


class GpuKernels:
    """A layer by one engine, with all ways that the engine has for it."""

    inputs: tuple[Any, ...] = ()
    """Of its host memory, none: everything lies on the GPU."""

    def __init__(
        self,
        engine: str,
        precision: str,
        ways: Sequence[Way],
        recorder: ActivityRecorder,
        resources: ExitStack,
    ) -> None:
        if not ways:
            resources.close()
            raise RuntimeError(f"{engine} has no algorithm for it.")
        self.engine = engine
        self.precision = precision
        self._recorder = recorder
        self._ways = list(ways)
        weakref.finalize(self, resources.close)

    def run(self) -> None:
        """Compute the layer once in each way that is left."""
        for way in self._ways:
            self._recorder.taken()
            way.launch()
            synchronize()
            way.add(self._recorder.taken())
        if len(self._ways[0].durations_ns) == _TRIALS:
            self._ways = nearest(self._ways)

    def timing(self, key: str, runs: int) -> KernelTiming:
        """Return the timing of the fastest way over its last `runs` runs."""
        return fastest_timing(key, self.engine, self.precision, self._ways, runs)


def nearest(ways: Sequence[Way]) -> list[Way]:
    """Return the ways whose shortest run is not far from the shortest of all."""
    shortest = min(min(each.durations_ns) for each in ways)
    return [each for each in ways if min(each.durations_ns) <= _FAR * shortest]


def fastest_timing(
    key: str, engine: str, precision: str, ways: Sequence[Way], runs: int
) -> KernelTiming:
    """Return the timing of the way with the lowest median over the last `runs` runs."""
    best = min(ways, key=lambda each: median(each.durations_ns[-runs:]))
    durations = best.durations_ns[-runs:]
    lower, _, upper = quantiles(durations, n=4) if len(durations) > 1 else durations * 3
    return KernelTiming(
        key=key,
        engine=engine,
        precision=precision,
        nanoseconds=median(durations),
        runs=len(durations),
        algorithm=best.algorithm,
        gpu_kernels=list(best.names[:_MOST_NAMES]),
        uses_tensor_cores=any(map(uses_tensor_cores, best.names)),
        spread_nanoseconds=max(upper - lower, 0.0),
    )


def synchronize() -> None:
    """Wait for everything on the GPU."""
    from cuda.bindings import driver  # noqa: PLC0415 - optional

    call(driver.cuCtxSynchronize)
