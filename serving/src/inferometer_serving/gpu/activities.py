"""Activities of a GPU as CUPTI records them: kernels, copies and fills with their durations.

It calls CUPTI by cupti-python, which is installed with the extra `gpu`. CUPTI slows the launches of
kernels down, not the kernels: measure latencies of whole models without it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from inferometer_serving.gpu.device import GpuUnavailableError

_BUFFER_BYTES = 1 << 20
_FORCED = 1
_KINDS = ("CONCURRENT_KERNEL", "MEMCPY", "MEMSET")


@dataclass(frozen=True, slots=True)
class GpuExecution:
    """One kernel, copy or fill."""

    name: str
    """The mangled name of a kernel; `memcpy` or `memset` for the others."""
    start_ns: int
    end_ns: int


class ActivityRecorder:
    """Collects the activities of this process."""

    def __init__(self, cupti: Any) -> None:
        self._cupti = cupti
        self._found: list[GpuExecution] = []
        self._kinds = {getattr(cupti.ActivityKind, name): name for name in _KINDS}

    def start(self) -> None:
        """Record from now on. Raises GpuUnavailableError if CUPTI refuses."""
        try:
            self._cupti.activity_register_callbacks(_new_buffer, self._take)
            for kind in self._kinds:
                self._cupti.activity_enable(kind)
        except Exception as error:
            raise GpuUnavailableError(f"CUPTI cannot record this process: {error}") from error

    def stop(self) -> None:
        """Record no longer."""
        for kind in self._kinds:
            self._cupti.activity_disable(kind)
        self.taken()

    def taken(self) -> list[GpuExecution]:
        """Return the activities that have ended since the last call, by their start."""
        self._cupti.activity_flush_all(_FORCED)
        found, self._found = self._found, []
        return sorted(found, key=lambda each: each.start_ns)

    def _take(self, activities: Any) -> None:
        for each in activities:
            name = self._kinds.get(each.kind)
            if name is not None:
                is_kernel = name == _KINDS[0]
                words = str(each.name) if is_kernel else name.lower()
                self._found.append(GpuExecution(words, int(each.start), int(each.end)))


def _new_buffer() -> tuple[int, int]:
    """Return the bytes of a buffer, and how many records it may hold: as many as fit."""
    return _BUFFER_BYTES, 0


@contextmanager
def record_activities() -> Iterator[ActivityRecorder]:
    """Record what runs on the GPU. Raises GpuUnavailableError with the reason."""
    try:
        from cupti import cupti  # noqa: PLC0415 - optional
    except ImportError as error:
        raise GpuUnavailableError("cupti-python is not installed") from error
    recorder = ActivityRecorder(cupti)
    recorder.start()
    try:
        yield recorder
    finally:
        recorder.stop()
