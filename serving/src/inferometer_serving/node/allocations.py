"""Time of an allocation by the C library, alone and with the writes to its memory.

Each allocation is freed at once, so that the time is of both calls. They repeat in machine code: an
interpreter takes longer than either.
"""

import ctypes
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from inferometer_api.nodes.characteristics import NodeFigure
from inferometer_api.nodes.figures import figure
from inferometer_serving.node.machine import available_bytes, numa_cpus, running_on
from inferometer_serving.node.machine_code import executable, repeated_calls
from inferometer_serving.node.samples import NodeProbe, NotMeasurableError, seconds_per_repeat

ALLOCATION_FIGURES = ("libc_malloc", "libc_malloc_memset")
_LOG2_SIZES = (12, 16, 20, 24, 27)
_REPEATS = 5
_CODE = bytes.fromhex(
    "53 4154 4883ec08"  # push rbx, r12; sub rsp, 8: the stack is aligned
    "4889fb 4989d4 4889f7"  # mov rbx, r12, rdi from functions, written, size
    "ff13"  # call [rbx]: malloc
    "4885c0 741a"  # test rax, rax; jz to the failure
    "4d85e4 740b"  # test r12, r12; jz past the call of memset
    "4889c7 31f6 4c89e2 ff5308"  # mov rdi, rax; xor esi, esi; mov rdx, r12; call [rbx + 8]: memset
    "4889c7 ff5310"  # mov rdi, rax; call [rbx + 16]: free
    "31c0 eb05"  # xor eax, eax; jmp past the failure
    "b801000000"  # mov eax, 1
    "4883c408 415c 5b c3"
)
"""int allocate(void *functions[3], size_t size, size_t written): 0, or 1 without memory."""

Allocate = Callable[[int, int, int], None]


def allocation_probes() -> Iterator[NodeProbe]:
    """Yield a probe for each NUMA node."""
    for node, cpus in numa_cpus().items():
        yield NodeProbe(f"malloc (node {node})", partial(_costs, node, cpus), ALLOCATION_FIGURES)


def _costs(node: int, cpus: frozenset[int]) -> Sequence[NodeFigure]:
    allocate = compile_allocation(c_library_calls())
    found = []
    with running_on(frozenset({min(cpus)})):
        for log2_bytes in _LOG2_SIZES:
            size = 1 << log2_bytes
            if 2 * size > available_bytes():
                break
            for name, written in zip(ALLOCATION_FIGURES, (0, size), strict=True):
                pair = partial(allocate, size, written)
                samples = [seconds_per_repeat(pair) * 1e9 for _ in range(_REPEATS)]
                found.append(figure(name, "ns", samples, {"node": node, "bytes": size}))
    return found


def c_library_calls() -> tuple[int, int, int]:
    """Return the addresses of malloc, memset and free."""
    library = ctypes.CDLL(None)
    found = (library.malloc, library.memset, library.free)
    malloc, memset, free = (ctypes.cast(each, ctypes.c_void_p).value or 0 for each in found)
    return malloc, memset, free


def compile_allocation(calls: tuple[int, int, int]) -> Allocate:
    """Return what allocates a size, writes its first bytes, and frees it, so many times.

    `calls` are the addresses of malloc, memset and free. Raises NotMeasurableError if there is no
    machine code for this machine. What it returns raises MemoryError.
    """
    repeat = repeated_calls()
    if repeat is None:
        raise NotMeasurableError("there is no loop of allocations in machine code for this machine")
    allocation, functions = executable(_CODE), (ctypes.c_void_p * 3)(*calls)

    def allocate(size: int, written: int, times: int) -> None:
        if repeat(allocation, ctypes.addressof(functions), size, written, 0, times):
            raise MemoryError(f"the C library has no memory of {size} bytes")

    return allocate
