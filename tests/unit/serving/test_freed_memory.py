"""The memory of one request is kept for the next."""

import subprocess
import sys

from support.requirements import cannot_run

_FAULTS = """
import ctypes, resource
from inferometer_serving.freed_memory import keep_freed_memory

if not keep_freed_memory():
    print("no glibc")
    raise SystemExit
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p

def use():
    block = libc.malloc(ctypes.c_size_t(8 << 20))
    ctypes.memset(block, 1, 8 << 20)
    libc.free(ctypes.c_void_p(block))

use()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
use()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def test_memory_that_was_freed_is_not_faulted_in_again() -> None:
    """A block of 8 MiB that follows one of the same size costs no page faults of its 2048 pages."""
    stdout = subprocess.run(
        [sys.executable, "-c", _FAULTS], capture_output=True, text=True, check=True
    ).stdout.strip()
    if stdout == "no glibc":
        cannot_run("only glibc's allocator has a setting for memory that is freed")
    assert int(stdout) < 100
