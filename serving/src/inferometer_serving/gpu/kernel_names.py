"""Names of GPU kernels: readable, and what they say of tensor cores."""

import ctypes
import re
from functools import cache
from typing import Any

_MOST_CHARACTERS = 300
_ON_TENSOR_CORES = re.compile(
    r"tensorop|nvjet_|(?<![a-z])[a-z]?wgmma|hmma|imma|"
    r"(?<![a-z0-9])[his]\d*(?:884|1688|16816|16832|64x\d+x\d+)|"
    r"(?:tf32|bf16|f16|fp16|e4m3|e5m2|i8|s8)[a-z0-9]*_(?:tf32|bf16|f16|fp16|e4m3|e5m2|i8|s8)|"
    r"_[a-z0-9]+_tf32f32_",
)
"""What the libraries of NVIDIA write into the names of kernels that use tensor cores: the shape of
the matrix instruction (s1688, h884), CUTLASS's operator class, or reduced inputs (tf32f32). nvjet
are cuBLAS's products for 9.0 and later, all of them on tensor cores."""


@cache
def readable(mangled: str) -> str:
    """Return a kernel's name in C++, without its return type and parameters, cut if it is long."""
    name = _without_parameters(_demangled(mangled)).removeprefix("void ")
    return name if len(name) <= _MOST_CHARACTERS else f"{name[: _MOST_CHARACTERS - 3]}..."


def uses_tensor_cores(name: str) -> bool:
    """Return whether the name says that a kernel multiplies matrices on tensor cores.

    A kernel that keeps this out of its name counts as one that does not.
    """
    return _ON_TENSOR_CORES.search(name) is not None


def _demangled(mangled: str) -> str:
    if not mangled.startswith("_Z"):
        return mangled
    library = _cpp_library()
    if library is None:
        return mangled
    status = ctypes.c_int()
    demangle = library["__cxa_demangle"]
    demangle.restype = ctypes.c_void_p
    found = demangle(mangled.encode(), None, None, ctypes.byref(status))
    if status.value or not found:
        return mangled
    name = ctypes.string_at(found).decode(errors="replace")
    library.free(ctypes.c_void_p(found))
    return name


@cache
def _cpp_library() -> Any:
    """Return the C++ library that the engines bring along; None if it is not there."""
    try:
        library = ctypes.CDLL("libstdc++.so.6")
    except OSError:
        return None
    library.free.restype = None
    return library


def _without_parameters(name: str) -> str:
    """Cut the parameter list, which is the last pair of parentheses outside of templates."""
    if not name.endswith(")"):
        return name
    depth = 0
    for at in range(len(name) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(name[at], 0)
        if depth == 0:
            return name[:at]
    return name
