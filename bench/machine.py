"""The machine of a measurement: hardware, versions, and other load."""

import os
import platform
import resource
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import onnxruntime  # type: ignore[import-untyped]  # ships no types
import psutil
from bench.wrk import wrk_version

from inferometer_serving.gpu.device import GpuUnavailableError, open_gpu

_PACKAGES = ("onnxruntime", "uvloop", "numpy", "grpcio", "orjson")


@dataclass(frozen=True, slots=True)
class Moment:
    """What the machine's clocks showed at one moment."""

    wall_seconds: float
    busy_seconds: float
    """Of all cores and all processes."""
    stolen_seconds: float
    own_seconds: float
    """Of this process and of its children that have ended."""

    @classmethod
    def now(cls) -> "Moment":
        """Read the clocks."""
        times = psutil.cpu_times()
        stolen = float(getattr(times, "steal", 0.0))
        idle = times.idle + float(getattr(times, "iowait", 0.0))
        guest = float(getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0))
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return cls(
            wall_seconds=time.monotonic(),
            busy_seconds=sum(times) - idle - stolen - guest,
            stolen_seconds=stolen,
            own_seconds=sum(each.ru_utime + each.ru_stime for each in used),
        )


def disturbance(before: Moment, after: Moment, cores: int) -> str:
    """Return a sentence on what else the machine did between two moments."""
    available = (after.wall_seconds - before.wall_seconds) * cores
    own = after.own_seconds - before.own_seconds
    others = max(0.0, after.busy_seconds - before.busy_seconds - own)
    stolen = after.stolen_seconds - before.stolen_seconds
    return (
        f"Meanwhile other processes took {100 * others / available:.1f} % of the machine's CPU "
        f"time, and the hypervisor {100 * stolen / available:.1f} %."
    )


def machine() -> str:
    """Return a sentence that names processor, cores, kernel and versions."""
    packages = ", ".join(f"{name} {_version(name)}" for name in _PACKAGES)
    return (
        f"{_cpu_model()}, {os.cpu_count()} CPUs{_gpu_name()}; {platform.system()} "
        f"{platform.release()}; Python "
        f"{platform.python_version()}, {packages}; wrk {wrk_version()}."
    )


def today() -> str:
    """Return the date and the minute, in UTC."""
    return f"{datetime.now(tz=UTC):%Y-%m-%d %H:%M} UTC"


def _gpu_name() -> str:
    try:
        with open_gpu() as gpu:
            return f", {gpu.name}"
    except GpuUnavailableError:
        return ""


def _version(package: str) -> str:
    if package == "onnxruntime":  # onnxruntime-gpu has the same module
        return str(onnxruntime.__version__)
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _cpu_model() -> str:
    """Return the processor's name with family, model and stepping."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    facts: dict[str, str] = {}
    for line in lines:
        key, _, value = line.partition(":")
        facts.setdefault(key.strip(), value.strip())
    name = facts.get("model name", platform.machine())
    numbers = [facts.get(key, "?") for key in ("cpu family", "model", "stepping")]
    return f"{name} (family {numbers[0]}, model {numbers[1]}, stepping {numbers[2]})"
