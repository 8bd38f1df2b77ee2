"""Description of the machine and of the installed packages."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil

from inferometer_api.results.result import Node

_PACKAGES = ("inferometer", "hdrhistogram", "numpy", "tritonclient", "uvloop")


def node() -> Node:
    """Describe this machine; what cannot be read is absent."""
    return Node(
        hostname=node_name() or platform.node(),
        operating_system=_operating_system(),
        kernel=platform.release(),
        architecture=platform.machine(),
        cpu_model=_cpu_model(),
        cpu_count=len(os.sched_getaffinity(0)),
        memory_bytes=psutil.virtual_memory().total,
        cpu_governor=_read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        gpus=_gpus(),
    )


def node_name() -> str | None:
    """Return the name of the Kubernetes node from NODE_NAME; None outside of a pod."""
    return os.environ.get("NODE_NAME") or None


def packages() -> dict[str, str]:
    """Return the versions of the packages that a measurement depends on, and of Python."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _operating_system() -> str:
    try:
        found = platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    except OSError:
        found = platform.system()
    # In a pod this is the image's system; the kernel is the node's.
    return f"{found} (container)" if node_name() else found


def _cpu_model() -> str:
    for line in (_read("/proc/cpuinfo") or "").splitlines():
        name, _, value = line.partition(":")
        if name.strip() in {"model name", "Model"}:
            return value.strip()
    return platform.processor() or platform.machine()


def _gpus() -> list[str]:
    found = []
    for path in sorted(Path("/proc/driver/nvidia/gpus").glob("*/information")):
        for line in (_read(str(path)) or "").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "Model":
                found.append(value.strip())
    return found


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text().strip()
    except (OSError, UnicodeDecodeError):
        return None
