"""Activities of a GPU as CUPTI records them: kernels, copies and fills, and what launched them.

An activity is two spans with one correlation ID: the launch, a call of CUDA on a thread, and the
execution on the GPU. Times are in ns, on CUPTI's clock.

CUPTI is called by cupti-python, which is installed with the extra `gpu`. It slows the launches of
kernels down, not the kernels: measure latencies of whole models without it.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import addressof, c_size_t
from dataclasses import dataclass
from typing import Any

from inferometer_serving.gpu.device import GpuUnavailableError

Dimensions = tuple[int, int, int]

_BUFFER_BYTES = 8 << 20
_FLUSH_FORCED = 1
"""Also buffers that have room left: flush when no work is under way."""
_MEMCPY, _MEMSET, _KERNEL, _DRIVER, _RUNTIME, _CONCURRENT_KERNEL = 1, 2, 3, 4, 5, 10
"""CUpti_ActivityKind."""
_LAUNCHES = (_DRIVER, _RUNTIME)
_EXECUTIONS = (_MEMCPY, _MEMSET, _CONCURRENT_KERNEL)
_DIRECTIONS = {1: "HtoD", 2: "DtoH", 3: "HtoA", 4: "AtoH", 5: "AtoA", 6: "AtoD", 7: "DtoA"}
_DIRECTIONS |= {8: "DtoD", 9: "HtoH", 10: "PtoP"}


@dataclass(frozen=True, slots=True)
class Launch:
    """A call of CUDA."""

    correlation: int
    thread: int
    """The thread's ID in the system."""
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class GpuActivity:
    """What a GPU did for a call."""

    kind: str
    """Kernel, Memcpy or Memset."""
    correlation: int
    name: str
    """A kernel's name as the linker knows it; of a copy its direction."""
    start_ns: int
    end_ns: int
    stream: int
    is_in_graph: bool = False
    """Whether a CUDA graph launched it: its launch is that of the whole graph."""
    grid: Dimensions | None = None
    block: Dimensions | None = None
    registers: int = 0
    """Of each thread."""
    shared_bytes: int = 0
    """Static and dynamic shared memory of each block."""
    shared_capacity_bytes: int = 0
    """The shared memory of a multiprocessor while it ran."""
    moved_bytes: int = 0
    """Of a copy or fill."""


def read_activity(activity: Any) -> Launch | GpuActivity | None:
    """Return what a record of CUPTI says; None if it is no call and no execution."""
    kind = int(activity.kind)
    if kind in _LAUNCHES:
        return Launch(activity.correlation_id, activity.thread_id, activity.start, activity.end)
    if kind not in (*_EXECUTIONS, _KERNEL):
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


class ActivityRecorder:
    """Collects the activities of this process from `start` to `stop`."""

    def __init__(self, cupti: Any, *, has_launches: bool = False) -> None:
        self._cupti = cupti
        self._kinds = (*_EXECUTIONS, *_LAUNCHES) if has_launches else _EXECUTIONS
        self._lock = threading.Lock()
        self._launches: list[Launch] = []
        self._executions: list[GpuActivity] = []

    def start(self) -> None:
        """Record from now on. Raises GpuUnavailableError if CUPTI refuses."""
        cupti = self._cupti
        try:
            cupti.set_thread_id_type(cupti.ActivityThreadIdType.SYSTEM)
            cupti.activity_register_callbacks(lambda: (_BUFFER_BYTES, 0), self._add)
            for kind in self._kinds:
                cupti.activity_enable(kind)
        except Exception as error:
            raise GpuUnavailableError(f"CUPTI cannot record this process: {error}") from error

    def stop(self) -> None:
        """Record no longer."""
        for kind in self._kinds:
            self._cupti.activity_disable(kind)

    def take(self) -> list[GpuActivity]:
        """Return what ended on the GPU since the last call, by its start."""
        return self.take_with_launches()[1]

    def take_with_launches(self) -> tuple[list[Launch], list[GpuActivity]]:
        """Return also the calls that launched it, in no order; other calls are left out."""
        self._cupti.activity_flush_all(_FLUSH_FORCED)
        with self._lock:
            launches, executions = self._launches, self._executions
            self._launches, self._executions = [], []
        correlations = {each.correlation for each in executions}
        kept = [each for each in launches if each.correlation in correlations]
        return kept, sorted(executions, key=lambda each: each.start_ns)

    def now_ns(self) -> int:
        """Return the time on CUPTI's clock."""
        return int(self._cupti.get_timestamp())

    def take_dropped(self) -> int:
        """Return how many records had no room since the last call, of all threads and streams."""
        found = c_size_t()
        self._cupti.activity_get_num_dropped_records(0, 0, addressof(found))
        return found.value

    def _add(self, activities: list[Any]) -> None:
        """Take records, which last no longer than this call."""
        with self._lock:
            for activity in activities:
                found = read_activity(activity)
                if isinstance(found, Launch):
                    self._launches.append(found)
                elif found is not None:
                    self._executions.append(found)


def start_recorder(*, has_launches: bool = False) -> ActivityRecorder:
    """Return a recorder that has started. Raises GpuUnavailableError with the reason."""
    try:
        from cupti import cupti  # noqa: PLC0415 - optional
    except ImportError as error:
        raise GpuUnavailableError("cupti-python is not installed") from error
    recorder = ActivityRecorder(cupti, has_launches=has_launches)
    recorder.start()
    return recorder


@contextmanager
def record_activities() -> Iterator[ActivityRecorder]:
    """Record what runs on the GPU. Raises GpuUnavailableError with the reason."""
    recorder = start_recorder()
    try:
        yield recorder
    finally:
        recorder.stop()
