"""Machine code in this process, for loops that an interpreter is too slow for."""

import ctypes
import mmap

from inferometer_serving.node.samples import NotMeasurableError


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


_PAGES: list[mmap.mmap] = []
"""Keeps the code mapped."""
