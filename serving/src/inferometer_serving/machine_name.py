"""The name of the machine, as far as the duration of a computation depends on it."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version

from inferometer_serving.cpu import instruction_set, model_name

_ENGINES = {
    "onnxruntime": ("onnxruntime", "onnxruntime-gpu"),
    "openvino": ("openvino",),
}
"""The distributions that hold each engine."""


def machine_name() -> str:
    """Return processor, number of CPUs, instruction set and kernel."""
    kernel = ".".join(platform.release().split(".")[:2])
    count = len(os.sched_getaffinity(0))
    return (
        f"{model_name() or platform.machine()}, {count} CPUs, {instruction_set()}, Linux {kernel}"
    )


def engine_versions() -> dict[str, str]:
    """Return the versions of the engines that are installed."""
    found: dict[str, str] = {}
    for engine, names in _ENGINES.items():
        for name in names:
            try:
                found.setdefault(engine, version(name))
            except PackageNotFoundError:
                continue
    return found
