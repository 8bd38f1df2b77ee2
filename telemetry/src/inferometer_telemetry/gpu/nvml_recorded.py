"""A recorded NVML: answers from a tree of files.

DIR/gpu-INDEX/FUNCTION holds what that C function of NVML (without _v2) reports of that GPU, and
DIR/gpu-INDEX/mig-INDEX/FUNCTION what it reports of an instance. A function without a file is not
supported. A file that says "error 4" is NVML's error of that number. Each file is read anew at each
question: replace whole files by renaming, and the GPUs change.
"""

import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pynvml  # type: ignore[import-untyped] # it ships no types

_PROCESS = ("pid", "usedGpuMemory")
_PROCESS_SAMPLE = ("pid", "timeStamp", "smUtil", "memUtil", "encUtil", "decUtil")


def _rows(names: tuple[str, ...]) -> Callable[[str], list[SimpleNamespace]]:
    """Return a reader of one row per line, with a whole number for each name."""

    def read(text: str) -> list[SimpleNamespace]:
        return [
            SimpleNamespace(**dict(zip(names, map(int, line.split()), strict=True)))
            for line in text.splitlines()
        ]

    return read


def _named(text: str) -> SimpleNamespace:
    """Read "used 12" lines as what pynvml makes of a structure."""
    words = (line.split() for line in text.splitlines())
    return SimpleNamespace(**{name: int(value) for name, value in words})


def _number(text: str) -> int:
    return int(text, 0)


_READERS: dict[str, Callable[[str], Any]] = {
    "nvmlInit": str,
    "nvmlDeviceGetUUID": str,
    "nvmlDeviceGetName": str,
    "nvmlDeviceGetTotalEnergyConsumption": _number,
    "nvmlDeviceGetPowerUsage": _number,
    "nvmlDeviceGetUtilizationRates": _named,
    "nvmlDeviceGetProcessUtilization": _rows(_PROCESS_SAMPLE),
    "nvmlDeviceGetComputeRunningProcesses": _rows(_PROCESS),
    "nvmlDeviceGetGraphicsRunningProcesses": _rows(_PROCESS),
    "nvmlDeviceGetMemoryInfo": _named,
    "nvmlDeviceGetClockInfo": _number,
    "nvmlDeviceGetTemperature": _number,
    "nvmlDeviceGetCurrentClocksEventReasons": _number,
    "nvmlDeviceGetMigMode": lambda text: [int(word) for word in text.split()],
}
FUNCTIONS = tuple(_READERS)
"""The files that a recorded tree may have."""


class RecordedNvml:
    """A recorded tree that is called as pynvml is."""

    def __init__(self, root: Path) -> None:
        """Take a folder, which may still be empty, or be filled and emptied later."""
        self._root = root

    def __call__(self, function: str, *arguments: Any) -> Any:
        """Answer as pynvml does; raises pynvml.NVMLError, or ValueError for a file that is none."""
        name = re.sub(r"_v\d$", "", function)
        match name, arguments:
            case "nvmlInit", ():
                return self._open()
            case "nvmlDeviceGetCount", ():
                return len(_folders(self._root, "gpu"))
            case "nvmlDeviceGetHandleByIndex", (int(index),):
                return _folder(self._root / f"gpu-{index}", pynvml.NVML_ERROR_INVALID_ARGUMENT)
            case _, (Path() as gpu, *more):
                return _about(gpu, name, *more)
            case _:
                return None  # nvmlShutdown

    def _open(self) -> None:
        _folder(self._root, pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)
        if (self._root / "nvmlInit").exists():
            _answer(self._root, "nvmlInit")


def _about(gpu: Path, function: str, *arguments: int) -> Any:
    """Return what the recording holds for a GPU, or for an instance."""
    match function, arguments:
        case "nvmlDeviceGetMaxMigDeviceCount", ():
            return max(_folders(gpu, "mig"), default=-1) + 1
        case "nvmlDeviceGetMigDeviceHandleByIndex", (index,):
            return _folder(gpu / f"mig-{index}", pynvml.NVML_ERROR_NOT_FOUND)
        case "nvmlDeviceGetProcessUtilization", (since_microseconds,):
            return _newer(_answer(gpu, function), since_microseconds)
        case _:
            return _answer(gpu, function)


def _answer(folder: Path, function: str) -> Any:
    try:
        text = (folder / function).read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        _folder(folder, pynvml.NVML_ERROR_GPU_IS_LOST)
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED) from None
    error = re.fullmatch(r"error (\d+)", text)
    if error:
        raise pynvml.NVMLError(int(error[1]))
    try:
        return _READERS[function](text)
    except (KeyError, TypeError, ValueError) as wrong:
        raise ValueError(f"{folder / function} is no answer of {function}: {text!r}") from wrong


def _newer(samples: list[SimpleNamespace], since_microseconds: int) -> list[SimpleNamespace]:
    """Return the samples after this time stamp; NVML calls their absence an error."""
    found = [each for each in samples if each.timeStamp > since_microseconds]
    if not found:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
    return found


def _folder(path: Path, absent: int) -> Path:
    if not path.is_dir():
        raise pynvml.NVMLError(absent)
    return path


def _folders(folder: Path, kind: str) -> list[int]:
    names = (re.fullmatch(rf"{kind}-(\d+)", each.name) for each in folder.iterdir())
    return sorted(int(name[1]) for name in names if name)
