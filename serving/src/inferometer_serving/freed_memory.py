"""Keeps the memory of answered requests for the next ones.

glibc hands large blocks back to the system as they are freed, depending on where in the heap they
happen to lie, and the next request then faults every page of its buffers in again: for an image
over gRPC as much as a percent of what the inference itself takes, in one process and not in
another.
"""

import ctypes

_TRIM_THRESHOLD = -1  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of malloc.h
_MMAP_THRESHOLD = -3
_RETAINED_BYTES = 64 << 20
_LARGEST_RETAINED_BYTES = 32 << 20
"""The largest that glibc takes."""


def keep_freed_memory() -> bool:
    """Keep freed memory for the next request, within bounds.

    False where the C library is not glibc, and does as it likes.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    trims_late: int = mallopt(_TRIM_THRESHOLD, _RETAINED_BYTES)
    maps_late: int = mallopt(_MMAP_THRESHOLD, _LARGEST_RETAINED_BYTES)
    return bool(trims_late and maps_late)
