"""Records what a GPU did in the last runs of a profile, by CUPTI, and clocks read together."""

from collections import deque
from collections.abc import Callable, Mapping
from time import monotonic_ns, perf_counter_ns, time_ns

from inferometer_serving.gpu.activities import GpuActivity, Launch, start_recorder
from inferometer_serving.gpu.device import open_gpu
from inferometer_serving.profile.gpu_activities import GpuClockReading, GpuTrace
from inferometer_serving.profile.occupancy import GpuPeaks, Multiprocessor, peaks

_MOST_ACTIVITIES = 500_000
"""Older runs are forgotten beyond so many."""
_READINGS = 20


class RunRecorder:
    """CUPTI, switched on in this process until `stop`; it keeps the activities of the last runs.

    Raises GpuUnavailableError without cupti-python, and if CUPTI refuses.
    """

    def __init__(self) -> None:
        self._recorder = start_recorder(has_launches=True)
        self._runs: deque[tuple[list[Launch], list[GpuActivity]]] = deque()
        self._kept = 0

    def end_run(self) -> None:
        """Keep what the last run did on the GPU."""
        run = self._recorder.take_with_launches()
        self._runs.append(run)
        self._kept += len(run[1])
        while self._kept > _MOST_ACTIVITIES and len(self._runs) > 1:
            self._kept -= len(self._runs.popleft()[1])

    def read_clocks(self, engine_ns: Callable[[], int]) -> GpuClockReading:
        """Return the three clocks, from the shortest of several readings."""
        readings = []
        for _ in range(_READINGS):
            began = perf_counter_ns()
            engine, cupti = engine_ns(), self._recorder.now_ns()
            took = perf_counter_ns() - began
            readings.append(GpuClockReading(began + took // 2, engine, cupti, took // 2))
        return min(readings, key=lambda each: each.uncertainty_ns)

    def stop(self) -> None:
        """Switch CUPTI off."""
        self._recorder.stop()

    def trace(
        self, before: GpuClockReading, after: GpuClockReading, profile_start_ns: int
    ) -> GpuTrace:
        """Return what the runs that are kept did."""
        return GpuTrace(
            launches=[each for launches, _ in self._runs for each in launches],
            executions=[each for _, executions in self._runs for each in executions],
            before=before,
            after=after,
            profile_start_ns=profile_start_ns,
            multiprocessor=read_gpu()[0],
            dropped=self._recorder.take_dropped(),
        )

    @property
    def runs(self) -> int:
        """How many runs are kept."""
        return len(self._runs)


def read_candidates() -> dict[Callable[[], int], int]:
    """Return the clocks that an engine may use, each with what it shows now."""
    return {clock: clock() for clock in (time_ns, monotonic_ns)}


def engine_clock(
    shown_ns: int, before: Mapping[Callable[[], int], int], after: Mapping[Callable[[], int], int]
) -> Callable[[], int]:
    """Return the clock that showed a time between two readings. Raises ValueError if none did."""
    for clock, before_ns in before.items():
        if before_ns <= shown_ns <= after[clock]:
            return clock
    raise ValueError("the engine's profile has another clock than the system's and the monotonic")


def read_gpu(index: int = 0) -> tuple[Multiprocessor, GpuPeaks]:
    """Return the limits and the peak rates of a GPU. Raises GpuUnavailableError."""
    with open_gpu(index) as gpu:
        multiprocessor = Multiprocessor(
            threads=gpu.attribute("MAX_THREADS_PER_MULTIPROCESSOR"),
            registers=gpu.attribute("MAX_REGISTERS_PER_MULTIPROCESSOR"),
            blocks=gpu.attribute("MAX_BLOCKS_PER_MULTIPROCESSOR"),
            reserved_shared_bytes=gpu.attribute("RESERVED_SHARED_MEMORY_PER_BLOCK"),
        )
        found = peaks(
            gpu.name,
            capability=gpu.compute_capability,
            multiprocessors=gpu.multiprocessors,
            clock_khz=gpu.attribute("CLOCK_RATE"),
            memory_clock_khz=gpu.attribute("MEMORY_CLOCK_RATE"),
            bus_bits=gpu.attribute("GLOBAL_MEMORY_BUS_WIDTH"),
        )
    return multiprocessor, found
