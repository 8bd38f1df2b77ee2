"""Frequency, temperature and governor of the node's CPUs.

Older kernels wait 10 ms for each CPU's frequency: these files are read between the samples, never
within one.
"""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import TypeVar

from inferometer_api.results.agent_sample import MissingSource
from inferometer_telemetry.kernel_files import (
    AbsentError,
    UnreadableError,
    number,
    signed_number,
    text,
)

_CPU = re.compile(r"cpu\d+")
_INPUT = re.compile(r"temp\d+_input")
_CHIPS = {"coretemp", "k10temp", "zenpower"}
_THERMAL_ZONES = {"x86_pkg_temp", "cpu-thermal", "cpu_thermal"}
_HERTZ_LIMIT = 10**12
_COLDEST, _HOTTEST = -100_000, 250_000
"""Values outside are no temperatures: some sensors report them if they have none."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Gauges:
    """What is so now; None is not known, and `missing` says why."""

    frequency_hertz: int | None = None
    governor: str | None = None
    temperature_millidegrees_celsius: int | None = None
    missing: list[MissingSource] = field(default_factory=list)


def read_gauges(sys_root: Path) -> Gauges:
    """Read the CPUs' files; this may take a second on a machine with many CPUs."""
    missing: list[MissingSource] = []

    def try_read(subject: str, read: Callable[[Path], T]) -> T | None:
        try:
            return read(sys_root)
        except UnreadableError as error:
            missing.append(MissingSource(source="node", subject=subject, reason=str(error)))
            return None

    return Gauges(
        try_read("frequency", frequency_hertz),
        try_read("governor", governor),
        try_read("temperature", temperature_millidegrees_celsius),
        missing,
    )


def frequency_hertz(sys_root: Path) -> int:
    """Return the mean frequency of the CPUs that report one. Raises UnreadableError."""
    folder = f"{sys_root}/devices/system/cpu"
    known = [
        kilohertz * 1000
        for cpu in _names(folder)
        if _CPU.fullmatch(cpu)
        and (kilohertz := _or_none(number, f"{folder}/{cpu}/cpufreq/scaling_cur_freq"))
        and kilohertz * 1000 < _HERTZ_LIMIT
    ]
    if not known:
        raise UnreadableError(
            f"no CPU below {folder} reports its frequency: a virtual machine's host keeps it"
        )
    return round(fmean(known))


def governor(sys_root: Path) -> str:
    """Return the governor of CPU 0's frequency. Raises UnreadableError."""
    path = sys_root / "devices/system/cpu/cpu0/cpufreq/scaling_governor"
    try:
        name = text(path).strip()
    except AbsentError:
        raise UnreadableError(
            f"there is no {path}: a virtual machine's host governs, or the kernel has no cpufreq"
        ) from None
    if not name.isidentifier() and not name.replace("-", "_").isidentifier():
        raise UnreadableError(f"{path} says {name[:40]!r} instead of a governor")
    return name


def temperature_millidegrees_celsius(sys_root: Path) -> int:
    """Return the temperature of the hottest CPU sensor. Raises UnreadableError."""
    millidegrees = [
        degrees
        for path in _sensors(sys_root)
        if (degrees := _or_none(signed_number, path)) is not None and _COLDEST < degrees < _HOTTEST
    ]
    if not millidegrees:
        raise UnreadableError(
            f"no sensor of a CPU reports its temperature below {sys_root}/class/hwmon or "
            f"{sys_root}/class/thermal: virtual machines have none; on hardware load the module "
            "coretemp or k10temp"
        )
    return max(millidegrees)


def _sensors(sys_root: Path) -> list[str]:
    folder = f"{sys_root}/class/hwmon"
    chips = [f"{folder}/{name}" for name in _names(folder)]
    chips = [chip for chip in chips if _is_one_of(f"{chip}/name", _CHIPS)]
    if chips:
        return [sensor for chip in chips for sensor in _sensors_of(chip)]
    folder = f"{sys_root}/class/thermal"
    zones = [f"{folder}/{name}" for name in _names(folder) if name.startswith("thermal_zone")]
    return [f"{zone}/temp" for zone in zones if _is_one_of(f"{zone}/type", _THERMAL_ZONES)]


def _sensors_of(chip: str) -> list[str]:
    """Return the sensors of the whole die, or all if there is none.

    A core's is never hotter than its package's, and Tctl, by which AMD's fans are controlled, may
    be shifted against the true Tdie.
    """
    sensors = [f"{chip}/{name}" for name in _names(chip) if _INPUT.fullmatch(name)]
    whole = [each for each in sensors if _is_of_the_whole(f"{each.removesuffix('input')}label")]
    return whole or sensors


def _is_of_the_whole(path: str) -> bool:
    label = (_or_none(text, path) or "").strip()
    return label.startswith("Package id") or label == "Tdie"


def _is_one_of(path: str, names: set[str]) -> bool:
    return (_or_none(text, path) or "").strip() in names


def _or_none(read: Callable[[str], T], path: str) -> T | None:
    try:
        return read(path)
    except UnreadableError:
        return None


def _names(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries)
    except OSError:
        return []
