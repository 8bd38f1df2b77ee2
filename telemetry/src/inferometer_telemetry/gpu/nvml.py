"""Calls to NVML, and the meaning of its errors."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pynvml  # type: ignore[import-untyped] # it ships no types

Call = Callable[..., Any]
"""Calls a function of NVML by pynvml's name for it; raises pynvml.NVMLError."""
Handle = Any
"""A GPU or an instance of one, as the library names it."""

_NO_SUCH_FUNCTION = pynvml.NVML_ERROR_FUNCTION_NOT_FOUND
UNSUPPORTED = frozenset({pynvml.NVML_ERROR_NOT_SUPPORTED, _NO_SUCH_FUNCTION})
"""Answers that will be the same tomorrow."""
NOTHING_NEW = frozenset({pynvml.NVML_ERROR_NOT_FOUND, pynvml.NVML_SUCCESS})
"""There is none now; pynvml raises the second one for an empty list."""
GPU_GONE = frozenset(
    {
        pynvml.NVML_ERROR_GPU_IS_LOST,
        pynvml.NVML_ERROR_RESET_REQUIRED,
        pynvml.NVML_ERROR_GPU_NOT_FOUND,
    }
)
DRIVER_GONE = frozenset({pynvml.NVML_ERROR_UNINITIALIZED, pynvml.NVML_ERROR_DRIVER_NOT_LOADED})

_CLOCK_SM, _SENSOR_GPU = 1, 0

_OPENING = {
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: (
        "no NVIDIA driver's library (libnvidia-ml.so.1) was found"
    ),
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: "NVIDIA's driver is not loaded",
    pynvml.NVML_ERROR_NO_PERMISSION: "the agent may not open NVIDIA's devices (/dev/nvidia*)",
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: (
        "the NVIDIA driver's library is of another version than its kernel module"
    ),
}


class NvmlError(Exception):
    """NVML has no answer; the text is NVML's, and `code` its number."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


@dataclass(frozen=True, slots=True)
class Question:
    """One fact that a GPU may report."""

    what: str
    """What it is, for a sentence: "its temperature"."""
    functions: tuple[str, ...]
    """Tried in turn: drivers of other years have it by another name."""
    arguments: tuple[int, ...] = ()


UUID = Question("its UUID", ("nvmlDeviceGetUUID",))
NAME = Question("its name", ("nvmlDeviceGetName",))
ENERGY = Question("its energy counter", ("nvmlDeviceGetTotalEnergyConsumption",))
POWER = Question("its power", ("nvmlDeviceGetPowerUsage",))
UTILIZATION = Question("its utilisation", ("nvmlDeviceGetUtilizationRates",))
BY_PROCESS = Question("its utilisation by process", ("nvmlDeviceGetProcessUtilization",))
COMPUTE = Question(
    "its processes",
    ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"),
)
GRAPHICS = Question(
    "its graphics processes",
    ("nvmlDeviceGetGraphicsRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v2"),
)
MEMORY = Question("its memory", ("nvmlDeviceGetMemoryInfo",))
CLOCK = Question("its clock", ("nvmlDeviceGetClockInfo",), (_CLOCK_SM,))
TEMPERATURE = Question(
    "its temperature",
    ("nvmlDeviceGetTemperature", "nvmlDeviceGetTemperatureV"),
    (_SENSOR_GPU,),
)
THROTTLING = Question(
    "why its clock is held down",
    ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"),
)
MIG_MODE = Question("whether it is cut into instances", ("nvmlDeviceGetMigMode",))
MIG_COUNT = Question("its instances", ("nvmlDeviceGetMaxMigDeviceCount",))
MIG_INSTANCE = Question("its instances", ("nvmlDeviceGetMigDeviceHandleByIndex",))


def library(function: str, *arguments: object) -> Any:
    """Call a function of the installed driver's library (found as libnvidia-ml.so.1)."""
    return getattr(pynvml, function)(*arguments)


def ask(call: Call, handle: Handle, question: Question, *more: int) -> Any:
    """Return what a GPU answers; raises NvmlError."""
    for function in question.functions:
        try:
            return call(function, handle, *question.arguments, *more)
        except pynvml.NVMLError as error:
            if error.value == _NO_SUCH_FUNCTION and function != question.functions[-1]:
                continue
            raise NvmlError(error.value, str(error)) from error
        except (OSError, ValueError) as error:  # an answer that is none
            raise NvmlError(pynvml.NVML_ERROR_UNKNOWN, str(error)) from error
    raise AssertionError(question)


def open_nvml(call: Call) -> int:
    """Start NVML and return how many GPUs there are, one at least.

    Raises NvmlError, whose text is the reason of a sentence.
    """
    try:
        call("nvmlInit")
        count = int(call("nvmlDeviceGetCount"))
    except pynvml.NVMLError as error:
        reason = _OPENING.get(error.value, f"NVML does not start: {error}")
        raise NvmlError(error.value, reason) from error
    except (OSError, ValueError) as error:  # a recorded tree that cannot be read
        raise NvmlError(pynvml.NVML_ERROR_UNKNOWN, f"NVML does not start: {error}") from error
    if not count:
        close_nvml(call)
        raise NvmlError(pynvml.NVML_ERROR_GPU_NOT_FOUND, "NVIDIA's driver knows no GPU")
    return count


def gpu_at(call: Call, index: int) -> Handle:
    """Return the GPU of this index; raises NvmlError if it is lost or access is denied."""
    try:
        return call("nvmlDeviceGetHandleByIndex", index)
    except pynvml.NVMLError as error:
        raise NvmlError(error.value, str(error)) from error


def close_nvml(call: Call) -> None:
    """End what `open_nvml` began, if it can still be ended."""
    try:
        call("nvmlShutdown")
    except pynvml.NVMLError:
        return
