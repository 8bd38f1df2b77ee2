"""Load latency by working-set size: a chain of loads, each of which needs the one before.

An interpreted loop is slower than a cache. The loop is three instructions of machine code, which
the kernel must allow this process to write and execute.
"""

import ctypes
import os
import platform
from collections.abc import Callable, Iterator

import numpy as np

from inferometer_api.nodes.characteristics import NodeFigure
from inferometer_api.nodes.figures import figure
from inferometer_serving.node.machine import available_bytes, last_level_cache_bytes
from inferometer_serving.node.machine_code import executable
from inferometer_serving.node.samples import NodeProbe, NotMeasurableError, seconds_of

_CODE = {
    # mov rdi, [rdi]; dec rsi; jnz; mov rax, rdi; ret
    "x86_64": bytes.fromhex("488b3f 48ffce 75f8 4889f8 c3"),
}
"""void *chase(void **start, size_t count): follows `count` pointers."""
_LINE_BYTES = 64
_SMALLEST = 4 << 10
_REPEATS = 5
_LOADS = 1 << 17
_SEED = 42

Chase = Callable[[int, int], int]


def latency_probes() -> Iterator[NodeProbe]:
    """Yield the probe of the ladder: powers of two up to four times a CPU's last-level cache."""
    yield NodeProbe("latency/load", _ladder)


def working_sets() -> list[int]:
    """Return the sizes in bytes, ascending."""
    cache_bytes = last_level_cache_bytes([min(os.sched_getaffinity(0))])
    largest = min(4 * cache_bytes, available_bytes() // 8)
    return [
        1 << power
        for power in range(_SMALLEST.bit_length() - 1, largest.bit_length())
        if 1 << power <= largest
    ]


def _ladder() -> list[NodeFigure]:
    chase = compile_chase()
    return [_latency(chase, size) for size in working_sets()]


def _latency(chase: Chase, size_bytes: int) -> NodeFigure:
    """Measure one rung.

    Each sample goes on where the one before ended: the lines of one sample, 8 MiB, fit in many a
    last-level cache, and would be read from there a second time.
    """
    chain = pointer_chain(size_bytes)
    at = chase(chain.ctypes.data, len(chain) // (_LINE_BYTES // 8))

    def go_on() -> None:
        nonlocal at
        at = chase(at, _LOADS)

    samples = [seconds_of(go_on) * 1e9 / _LOADS for _ in range(_REPEATS)]
    return figure("latency/load", "ns", samples, {"bytes": size_bytes})


def pointer_chain(size_bytes: int) -> "np.ndarray[tuple[int], np.dtype[np.uint64]]":
    """Return memory whose cache lines each begin with the address of the next, in random order.

    The chain is one cycle through all lines.
    """
    stride = _LINE_BYTES // 8
    chain = np.zeros(size_bytes // 8, np.uint64)
    order = np.random.default_rng(_SEED).permutation(size_bytes // _LINE_BYTES)
    base = chain.ctypes.data
    chain[order * stride] = (base + np.roll(order, -1) * _LINE_BYTES).astype(np.uint64)
    return chain


def compile_chase() -> Chase:
    """Return the loop. Raises NotMeasurableError if this machine or its kernel has no place for it.

    It stays callable for the life of the process.
    """
    code = _CODE.get(platform.machine())
    if code is None:
        raise NotMeasurableError(f"there is no loop for processors of type {platform.machine()}")
    prototype = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
    return prototype(executable(code))
