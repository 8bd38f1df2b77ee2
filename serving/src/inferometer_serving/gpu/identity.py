"""The GPU and its engines by name and version, on which the duration of a kernel depends."""

import contextlib
import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from inferometer_serving.gpu.device import GpuUnavailableError, call, gpu_expected
from inferometer_serving.gpu.libraries import load_library
from inferometer_serving.machine_name import engine_versions

GPU_ENGINES = ("onnxruntime", "cudnn", "cublas", "matrix-units")
_MATRIX_UNITS_VERSION = "1"
"""Of the kernels in this package: timings of another version are not joined."""
_DRIVER = Path("/proc/driver/nvidia/version")


def gpu_machine_name(index: int = 0) -> str:
    """Return the GPU's model, its driver and the newest CUDA that this runs.

    Raises GpuUnavailableError.
    """
    with gpu_expected(index):
        from cuda.bindings import driver  # noqa: PLC0415 - optional

        call(driver.cuInit, 0)
        name: bytes = call(driver.cuDeviceGetName, 128, call(driver.cuDeviceGet, index))
        cuda = int(call(driver.cuDriverGetVersion))
    model = name.partition(b"\0")[0].decode()
    return f"{model}, driver {driver_version()}, CUDA {cuda // 1000}.{cuda % 1000 // 10}"


def driver_version(file: Path = _DRIVER) -> str:
    """Return the version of the driver that the kernel has loaded; `unknown` if it is not named."""
    try:
        text = file.read_text()
    except OSError:
        return "unknown"
    found = re.search(r"\s(\d+\.\d+(?:\.\d+)*)\s", text)
    return found.group(1) if found else "unknown"


def gpu_engine_versions() -> dict[str, str]:
    """Return the versions of the engines that are there, by name."""
    found = {name: each for name, each in engine_versions().items() if name in GPU_ENGINES}
    with contextlib.suppress(PackageNotFoundError):  # next to the build for CPUs, it is imported
        found["onnxruntime"] = version("onnxruntime-gpu")
    found["matrix-units"] = _MATRIX_UNITS_VERSION
    for name, library in (("cudnn", "cudnn"), ("cublas", "cublasLt")):
        try:
            found[name] = load_library(library).version
        except GpuUnavailableError:
            continue
    return found
