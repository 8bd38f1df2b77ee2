"""Flush of the CPU's caches: memory that the GPU then reads comes from the host's memory.

Its loop is machine code: an interpreter would leave lines of its own in the caches.
"""

import ctypes
import platform
from collections.abc import Callable

from inferometer_serving.node.machine_code import executable
from inferometer_serving.node.samples import NotMeasurableError

_CODE = {
    # clflush [rdi]; add rdi, 64; cmp rdi, rsi; jb; mfence; ret
    "x86_64": bytes.fromhex("0fae3f 4883c740 4839f7 72f4 0faef0 c3"),
}
"""void flush(char *start, char *end), of which `start` is at the start of a line."""

Flush = Callable[[int, int], None]


def compile_flush() -> Flush:
    """Return the loop, which takes the first address and the one after the last.

    Raises NotMeasurableError if this machine or its kernel has no place for it.
    """
    code = _CODE.get(platform.machine())
    if code is None:
        raise NotMeasurableError(f"there is no flush for processors of type {platform.machine()}")
    prototype = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
    return prototype(executable(code))
