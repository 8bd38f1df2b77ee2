"""The state of one GPU at one moment."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import pynvml  # type: ignore[import-untyped] # it ships no types

from inferometer_telemetry.gpu import nvml
from inferometer_telemetry.gpu.nvml import Call, Handle, NvmlError, Question

_T = TypeVar("_T")
_PREFIX = "nvmlClocksThrottleReason"
_NO_REASON = {"GpuIdle", "None", "All", "UserDefinedClocks"}
"""Idle holds nothing back; the last is an old name of ApplicationsClocksSetting."""
REASONS: dict[int, str] = {
    getattr(pynvml, name): name.removeprefix(_PREFIX)
    for name in dir(pynvml)
    if re.fullmatch(rf"{_PREFIX}[A-Za-z]+", name) and name.removeprefix(_PREFIX) not in _NO_REASON
}
"""Bits of NVML's mask, and their names."""
_IDLE = pynvml.nvmlClocksThrottleReasonGpuIdle


@dataclass(frozen=True, slots=True)
class ProcessSample:
    """How busy a process kept a GPU up to a moment."""

    process_id: int
    until_microseconds: int
    """By a clock of the driver's."""
    percent: int


_NO_SAMPLES: tuple[ProcessSample, ...] = ()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One GPU's answers; None is a missing answer, whose reason is in `unanswered`."""

    energy_millijoules: int | None
    power_milliwatts: int | None
    utilization_percent: int | None
    process_samples: tuple[ProcessSample, ...] | None
    process_ids: frozenset[int] | None
    memory_used_bytes: int | None
    memory_total_bytes: int | None
    clock_hertz: int | None
    temperature_millidegrees_celsius: int | None
    throttle_reasons: list[str]
    mig: bool
    unanswered: dict[Question, str]
    """NVML's words."""
    unsupported: frozenset[Question]
    """Of these, what this GPU will never report."""


class _Asking:
    """Queries one GPU, and keeps the errors."""

    def __init__(self, call: Call, handle: Handle) -> None:
        self._call = call
        self._handle = handle
        self.unanswered: dict[Question, str] = {}
        self.unsupported: set[Question] = set()

    def about(
        self, question: Question, read: Callable[[Any], _T], *more: int, nothing: _T | None = None
    ) -> _T | None:
        """Return what is read of an answer, `nothing` of "not found"; None if there is none.

        Raises NvmlError if the GPU or the whole driver is gone.
        """
        try:
            return read(nvml.ask(self._call, self._handle, question, *more))
        except NvmlError as error:
            if error.code in nvml.GPU_GONE | nvml.DRIVER_GONE:
                raise
            if error.code in nvml.NOTHING_NEW and nothing is not None:
                return nothing
            self.unanswered[question] = str(error)
            if error.code in nvml.UNSUPPORTED:
                self.unsupported.add(question)
            return None

    def process_ids(self, *, mig: bool) -> frozenset[int] | None:
        """Return the processes that use the GPU or, if reported, its instances."""
        compute = self.about(nvml.COMPUTE, _ids)
        graphics = self.about(nvml.GRAPHICS, _ids) or frozenset()
        # an admin decides who may query the whole of a GPU that is cut into instances
        parts = _in_instances(self._call, self._handle) if mig else None
        if compute is None and parts is None:
            return None
        self.unanswered.pop(nvml.COMPUTE, None)
        return graphics | (compute or frozenset()) | (parts or frozenset())


def snapshot(call: Call, handle: Handle, since_microseconds: int) -> Snapshot:
    """Ask a GPU for everything; of its processes' samples for those after a time stamp.

    Raises NvmlError if the GPU or the whole driver is gone.
    """
    gpu = _Asking(call, handle)
    mode = gpu.about(nvml.MIG_MODE, lambda answer: bool(answer[0]))
    memory = gpu.about(nvml.MEMORY, lambda answer: (int(answer.used), int(answer.total)))
    reasons = gpu.about(nvml.THROTTLING, throttle_reasons)
    return Snapshot(
        energy_millijoules=gpu.about(nvml.ENERGY, int),
        power_milliwatts=gpu.about(nvml.POWER, int),
        utilization_percent=gpu.about(nvml.UTILIZATION, lambda answer: int(answer.gpu)),
        process_samples=gpu.about(
            nvml.BY_PROCESS, _samples, since_microseconds, nothing=_NO_SAMPLES
        ),
        process_ids=gpu.process_ids(mig=bool(mode)),
        memory_used_bytes=memory[0] if memory else None,
        memory_total_bytes=memory[1] if memory else None,
        clock_hertz=gpu.about(nvml.CLOCK, lambda megahertz: int(megahertz) * 1_000_000),
        temperature_millidegrees_celsius=gpu.about(
            nvml.TEMPERATURE, lambda degrees: int(degrees) * 1000
        ),
        throttle_reasons=reasons or [],
        mig=bool(mode),
        unanswered=gpu.unanswered,
        unsupported=frozenset(gpu.unsupported),
    )


def throttle_reasons(mask: int) -> list[str]:
    """Return the names of what holds a clock down, by NVML's mask; one without a name is Bit12."""
    bits = [1 << at for at in range(int(mask).bit_length()) if mask >> at & 1]
    return [REASONS.get(bit, f"Bit{bit.bit_length() - 1}") for bit in bits if bit != _IDLE]


def _samples(answer: Any) -> tuple[ProcessSample, ...]:
    return tuple(ProcessSample(each.pid, each.timeStamp, each.smUtil) for each in answer)


def _ids(answer: Any) -> frozenset[int]:
    return frozenset(each.pid for each in answer)


def _in_instances(call: Call, handle: Handle) -> frozenset[int] | None:
    """Return the processes in a GPU's instances; None if those of one are not known."""
    found: frozenset[int] = frozenset()
    try:
        count = nvml.ask(call, handle, nvml.MIG_COUNT)
        for at in range(count):
            try:
                instance = nvml.ask(call, handle, nvml.MIG_INSTANCE, at)
            except NvmlError as error:
                if error.code in nvml.NOTHING_NEW:  # fewer instances than there could be
                    continue
                raise
            found |= _ids(nvml.ask(call, instance, nvml.COMPUTE))
    except NvmlError:
        return None
    return found
