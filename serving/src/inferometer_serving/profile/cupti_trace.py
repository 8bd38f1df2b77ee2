"""Records the activities of a GPU by CUPTI, through cupti-python, which may be missing."""

import threading
from collections import deque
from collections.abc import Callable, Mapping
from ctypes import addressof, c_size_t
from time import monotonic_ns, perf_counter_ns, time_ns
from typing import Any

from inferometer_serving.gpu.device import open_gpu
from inferometer_serving.profile.gpu_activities import (
    GpuActivity,
    GpuClockReading,
    GpuTrace,
    Launch,
)
from inferometer_serving.profile.occupancy import GpuPeaks, Multiprocessor, peaks

_BUFFER_BYTES = 8 << 20
_MOST_ACTIVITIES = 500_000
"""Older runs are forgotten beyond so many."""
_READINGS = 20
_MEMCPY, _MEMSET, _KERNEL, _DRIVER, _RUNTIME, _CONCURRENT_KERNEL = 1, 2, 3, 4, 5, 10
"""CUpti_ActivityKind."""
_FLUSH_FORCED = 1
"""Also buffers that have room left; an inference waits for the GPU, so no record is open."""
_DIRECTIONS = {1: "HtoD", 2: "DtoH", 3: "HtoA", 4: "AtoH", 5: "AtoA", 6: "AtoD", 7: "DtoA"}
_DIRECTIONS |= {8: "DtoD", 9: "HtoH", 10: "PtoP"}


def read_activity(activity: Any) -> Launch | GpuActivity | None:
    """Return what a record of CUPTI says; None if it is no call and no execution."""
    kind = int(activity.kind)
    if kind in (_DRIVER, _RUNTIME):
        return Launch(activity.correlation_id, activity.thread_id, activity.start, activity.end)
    if kind not in (_MEMCPY, _MEMSET, _KERNEL, _CONCURRENT_KERNEL):
        return None
    common = {
        "correlation": activity.correlation_id,
        "start_ns": activity.start,
        "end_ns": activity.end,
        "stream": activity.stream_id,
        "is_in_graph": bool(activity.graph_id),
    }
    if kind == _MEMCPY:
        direction = _DIRECTIONS.get(int(activity.copy_kind), "")
        name = f"Memcpy {direction}".rstrip()
        return GpuActivity(kind="Memcpy", name=name, moved_bytes=activity.bytes, **common)
    if kind == _MEMSET:
        return GpuActivity(kind="Memset", name="Memset", moved_bytes=activity.bytes, **common)
    return GpuActivity(
        kind="Kernel",
        name=activity.name,
        grid=(activity.grid_x, activity.grid_y, activity.grid_z),
        block=(activity.block_x, activity.block_y, activity.block_z),
        registers=activity.registers_per_thread,
        shared_bytes=activity.static_shared_memory + activity.dynamic_shared_memory,
        shared_capacity_bytes=activity.shared_memory_executed,
        **common,
    )


class CuptiRecorder:
    """CUPTI, switched on in this process until `stop`.

    Raises ImportError without cupti-python, and cupti's error if CUPTI refuses.
    """

    def __init__(self) -> None:
        from cupti import cupti  # noqa: PLC0415 - optional

        self._cupti = cupti
        self._lock = threading.Lock()
        self._launches: list[Launch] = []
        self._executions: list[GpuActivity] = []
        self._runs: deque[tuple[list[Launch], list[GpuActivity]]] = deque()
        self._kept = 0
        cupti.set_thread_id_type(cupti.ActivityThreadIdType.SYSTEM)
        cupti.activity_register_callbacks(lambda: (_BUFFER_BYTES, 0), self._add)
        for kind in (_MEMCPY, _MEMSET, _DRIVER, _RUNTIME, _CONCURRENT_KERNEL):
            cupti.activity_enable(kind)

    def _add(self, activities: list[Any]) -> None:
        """Take records, which last no longer than this call."""
        with self._lock:
            for activity in activities:
                found = read_activity(activity)
                if isinstance(found, Launch):
                    self._launches.append(found)
                elif found is not None:
                    self._executions.append(found)

    def end_run(self) -> None:
        """Keep what the last run did on the GPU; calls that launched nothing are forgotten."""
        self._cupti.activity_flush_all(_FLUSH_FORCED)
        with self._lock:
            launches, executions = self._launches, self._executions
            self._launches, self._executions = [], []
        correlations = {each.correlation for each in executions}
        kept = [each for each in launches if each.correlation in correlations]
        self._runs.append((kept, executions))
        self._kept += len(executions)
        while self._kept > _MOST_ACTIVITIES and len(self._runs) > 1:
            self._kept -= len(self._runs.popleft()[1])

    def read_clocks(self, engine_ns: Callable[[], int]) -> GpuClockReading:
        """Return the three clocks, from the shortest of several readings."""
        readings = []
        for _ in range(_READINGS):
            began = perf_counter_ns()
            engine, cupti = engine_ns(), int(self._cupti.get_timestamp())
            took = perf_counter_ns() - began
            readings.append(GpuClockReading(began + took // 2, engine, cupti, took // 2))
        return min(readings, key=lambda each: each.uncertainty_ns)

    def stop(self) -> None:
        """Switch CUPTI off."""
        for kind in (_MEMCPY, _MEMSET, _DRIVER, _RUNTIME, _CONCURRENT_KERNEL):
            self._cupti.activity_disable(kind)

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
            dropped=self._dropped(),
        )

    def _dropped(self) -> int:
        """Return how many records had no room since the last call, of all threads and streams."""
        found = c_size_t()
        self._cupti.activity_get_num_dropped_records(0, 0, addressof(found))
        return found.value

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
