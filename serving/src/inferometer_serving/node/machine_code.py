"""Machine code in this process, for loops that an interpreter is too slow for."""

import ctypes
import mmap
import platform
from collections.abc import Callable

from inferometer_serving.node.samples import NotMeasurableError

_LOOP = bytes.fromhex(
    "53 55 4154 4155 4156 4157"  # push rbx, rbp, r12 to r15
    "4883ec18"  # sub rsp, 24: the stack stays aligned
    "4889fb 4889f5 4989d4 4989cd 4d89c6 4d89cf"  # mov rbx, rbp, r12 to r15 from the arguments
    "c7042400000000"  # mov dword [rsp], 0
    "4889ef 4c89e6 4c89ea 4c89f1"  # mov rdi, rsi, rdx, rcx from rbp, r12, r13, r14
    "ffd3"  # call rbx
    "090424"  # or [rsp], eax
    "49ffcf 75ea"  # dec r15; jnz
    "8b0424"  # mov eax, [rsp]
    "4883c418 415f 415e 415d 415c 5d 5b c3"
)
"""int repeat(function, a, b, c, d, long times): calls function(a, b, c, d), ORs what it returns."""

Repeat = Callable[..., int]


def executable(code: bytes) -> int:
    """Return the address of a copy of the code that can be called for the life of the process.

    Raises NotMeasurableError if the kernel allows no memory that is written and then executed.
    """
    try:
        page = mmap.mmap(
            -1,
            max(len(code), mmap.PAGESIZE),
            prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC,
        )
    except OSError as error:
        raise NotMeasurableError(
            "the kernel's policy does not let this process write and execute code"
        ) from error
    page.write(code)
    _PAGES.append(page)
    return ctypes.addressof(ctypes.c_char.from_buffer(page))


def repeated_calls() -> Repeat | None:
    """Return the loop of calls in machine code; None if there is none for this machine."""
    if platform.machine() != "x86_64":
        return None
    word = ctypes.c_void_p
    prototype = ctypes.CFUNCTYPE(ctypes.c_int, word, word, word, word, word, ctypes.c_long)
    try:
        return prototype(executable(_LOOP))
    except NotMeasurableError:
        return None


_PAGES: list[mmap.mmap] = []
"""Keeps the code mapped."""
