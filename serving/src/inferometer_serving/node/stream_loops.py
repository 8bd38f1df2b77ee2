"""The four loops of STREAM: in machine code for x86-64 with AVX2, elsewhere by NumPy.

Both use plain stores, which go through the caches, as those of a compiled STREAM do. A store reads
its cache line first; STREAM does not count that transfer. A C library's memcpy may use non-temporal
stores, which save it. ctypes releases Python's lock while a loop runs.
"""

import ctypes
import platform
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from inferometer_serving.node.machine_code import executable
from inferometer_serving.node.samples import NotMeasurableError

Doubles = npt.NDArray[np.float64]
Loop = Callable[[Doubles, Doubles, Doubles], None]
"""Computes its first argument, the target, from the other two, of the same length."""
Code = Literal["AVX2", "NumPy"]

SCALAR = 3.0
_BLOCK = 1 << 17
"""Elements of NumPy's triad at a time: its product stays in a cache, which costs a second pass; in
machine code it stays in a register. Smaller blocks spend more time between two calls."""
_VECTOR_BYTES, _UNROLLED = 32, 8
_ELEMENTS = _UNROLLED * _VECTOR_BYTES // 8
"""Elements of one turn of a loop in machine code."""
_RDX, _RSI, _RDI = 2, 6, 7
_TARGET, _FIRST, _SECOND = _RDI, _RSI, _RDX
"""The registers that hold the first three arguments of a C function; the fourth is in rcx."""
_LOAD, _STORE, _ADD, _MULTIPLY = 0x10, 0x11, 0x58, 0x59
"""vmovupd, vmovupd to memory, vaddpd, vmulpd."""
_SCALARS, _VALUE = 0, 1
"""ymm0 holds four times the scalar, ymm1 what is computed."""
_CPU_INFO = Path("/proc/cpuinfo")


def fastest_code(cpu_info: Path = _CPU_INFO) -> Code:
    """Return what computes the loops here: machine code if CPU and kernel allow it, else NumPy."""
    if platform.machine() != "x86_64" or "avx2" not in cpu_info.read_text().split():
        return "NumPy"
    try:
        loops("AVX2")
    except NotMeasurableError:
        return "NumPy"
    return "AVX2"


def loops(code: Code) -> Mapping[str, Loop]:
    """Return the loops by name. Raises NotMeasurableError if the kernel refuses machine code."""
    by_numpy = _numpy_loops()
    if code == "NumPy":
        return by_numpy
    return {name: _compiled(_CODE[name], rest) for name, rest in by_numpy.items()}


def _numpy_loops() -> dict[str, Loop]:
    product = np.empty(_BLOCK)

    def triad(target: Doubles, first: Doubles, second: Doubles) -> None:
        for start in range(0, len(target), _BLOCK):
            part = slice(start, start + _BLOCK)
            block = product[: len(target[part])]
            np.multiply(second[part], SCALAR, out=block)
            np.add(first[part], block, out=target[part])

    return {
        # A loop, as of the others; copyto leaves it to the C library.
        "copy": lambda target, first, _: _discard(np.positive(first, out=target)),
        "scale": lambda target, first, _: _discard(np.multiply(first, SCALAR, out=target)),
        "add": lambda target, first, second: _discard(np.add(first, second, out=target)),
        "triad": triad,
    }


def _discard(_: object) -> None:
    """Take a result that is in its place already."""


def _compiled(code: bytes, rest: Loop) -> Loop:
    prototype = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, ctypes.c_size_t, ctypes.c_double)
    call = prototype(executable(code))

    def run(target: Doubles, first: Doubles, second: Doubles) -> None:
        turns = len(target) // _ELEMENTS
        if turns:
            call(target.ctypes.data, first.ctypes.data, second.ctypes.data, turns, SCALAR)
        if left := len(target) % _ELEMENTS:
            rest(target[-left:], first[-left:], second[-left:])

    return run


def _assembled(*steps: tuple[int, int, int]) -> bytes:
    """Return a loop over vectors: each is computed by the steps, and stored in the target.

    It is `void loop(double *target, double *first, double *second, size_t turns, double scalar)`.
    A step is an operation, the register of its one operand, and the array that is the other.
    """
    body = b"".join(
        _instruction(operation, operand, array, offset)
        for offset in range(0, _UNROLLED * _VECTOR_BYTES, _VECTOR_BYTES)
        for operation, operand, array in (*steps, (_STORE, 0, _TARGET))
    )
    for array in (_TARGET, _FIRST, _SECOND):
        body += bytes((0x48, 0x81, 0xC0 | array)) + _little(_ELEMENTS * 8)  # add array, bytes
    body += bytes.fromhex("48ffc9 0f85")  # dec rcx; jnz
    body += _little(-len(body) - 4)
    # vbroadcastsd ymm0, xmm0; the loop; vzeroupper; ret
    return bytes.fromhex("c4e27d19c0") + body + bytes.fromhex("c5f877 c3")


def _instruction(operation: int, operand: int, array: int, offset: int) -> bytes:
    """Encode `operation ymm1, operand, [array + offset]`; a load or store has operand 0."""
    prefix = bytes((0xC5, 0x80 | (~operand & 0xF) << 3 | 0b101))
    return prefix + bytes((operation, 0x80 | _VALUE << 3 | array)) + _little(offset)


def _little(value: int) -> bytes:
    return value.to_bytes(4, "little", signed=True)


_CODE: Mapping[str, bytes] = {
    "copy": _assembled((_LOAD, 0, _FIRST)),
    "scale": _assembled((_MULTIPLY, _SCALARS, _FIRST)),
    "add": _assembled((_LOAD, 0, _FIRST), (_ADD, _VALUE, _SECOND)),
    "triad": _assembled((_MULTIPLY, _SCALARS, _SECOND), (_ADD, _VALUE, _FIRST)),
}
