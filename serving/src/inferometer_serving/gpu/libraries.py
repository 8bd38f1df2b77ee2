"""NVIDIA's libraries of kernels, called by their C interface: cuDNN and cuBLASLt."""

import contextlib
import ctypes
from functools import cache
from typing import Any

from inferometer_serving.gpu.device import CudaError, GpuUnavailableError

_FILES = {"cudnn": "libcudnn.so.9", "cublasLt": "libcublasLt.so.13"}


class LibraryError(CudaError):
    """A call of a library failed; the message names the call and its status."""


class Library:
    """A shared library whose functions return a status, which is 0 on success."""

    def __init__(self, name: str, loaded: Any) -> None:
        self.name = name
        self._loaded = loaded

    def call(self, function: str, *arguments: Any) -> None:
        """Call a function. Raises LibraryError."""
        found = self.function(function)
        found.restype = ctypes.c_int
        status = found(*arguments)
        if status:
            raise LibraryError(f"{function} failed with status {status}")

    def function(self, name: str) -> Any:
        """Return a function of the library. Raises LibraryError if it has none of this name."""
        try:
            return getattr(self._loaded, name)
        except AttributeError as error:
            raise LibraryError(f"{self.name} has no function {name}") from error

    def create(self, function: str, *arguments: Any) -> ctypes.c_void_p:
        """Return what a function creates, whose address it writes to its first argument."""
        handle = ctypes.c_void_p()
        self.call(function, ctypes.byref(handle), *arguments)
        return handle

    @property
    def version(self) -> str:
        """The version that the library reports."""
        function = self.function(f"{self.name}GetVersion")
        function.restype = ctypes.c_size_t
        return readable_version(int(function()))


def readable_version(number: int) -> str:
    """Return 9.19.0 for 91900."""
    major, rest = divmod(number, 10000)
    minor, patch = divmod(rest, 100)
    return f"{major}.{minor}.{patch}"


@cache
def load_library(name: str) -> Library:
    """Load a library, from its Python package or the system. Raises GpuUnavailableError."""
    try:
        from cuda import pathfinder  # noqa: PLC0415 - optional
    except ImportError as error:
        raise GpuUnavailableError("cuda-bindings is not installed") from error
    with contextlib.suppress(Exception):  # each kind of failure leaves the system's own to try
        pathfinder.load_nvidia_dynamic_lib(name)
    try:
        return Library(name, ctypes.CDLL(_FILES[name]))
    except OSError as error:
        raise GpuUnavailableError(f"{_FILES[name]} cannot be loaded: {error}") from error
