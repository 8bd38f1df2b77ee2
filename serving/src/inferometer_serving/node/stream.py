"""STREAM (McCalpin): sustained memory bandwidth of four loops over arrays of 8-byte floats.

Each thread is a process of its own, pinned to a CPU, with its own part of the arrays: Python's
threads share one lock. The processes begin each loop at an agreed time. As in STREAM, every array
is at least four times the last-level caches of the CPUs in use, taken together, and bytes are those
that the loop names. The setting `loops` of each figure names what computed it: AVX2 is machine
code, NumPy takes two passes for the triad.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

import numpy as np

from inferometer_api.nodes.characteristics import NodeFigure
from inferometer_api.nodes.figures import figure
from inferometer_serving.node.machine import available_bytes, last_level_cache_bytes, numa_cpus
from inferometer_serving.node.samples import NodeProbe, NotMeasurableError
from inferometer_serving.node.stream_loops import Code, Doubles, fastest_code, loops

LOOPS: Mapping[str, int] = {"copy": 16, "scale": 16, "add": 24, "triad": 24}
"""Bytes that a loop moves for each element."""
_FIGURES = tuple(f"stream/{name}" for name in LOOPS)
_REPEATS = 10
_LEAD_NS = 2_000_000
"""How long before its begin a loop is ordered."""
_CACHES = 4
_APART = 1_000_064
"""Elements between two arrays: those that are a power of two apart compete for the same lines of
the caches and the same banks of the memory."""
_MEMORY_SHARE = 4


def stream_probes() -> Iterator[NodeProbe]:
    """Yield a probe for each number of threads, and for each of several NUMA nodes.

    Numbers are the powers of two, and that of all CPUs. On a NUMA node all its CPUs run, and have
    their arrays there, because each touches its own part first.
    """
    cpus = sorted(os.sched_getaffinity(0))
    numbers = {1 << power for power in range(len(cpus).bit_length()) if 1 << power <= len(cpus)}
    for number in sorted(numbers | {len(cpus)}):
        yield NodeProbe(f"stream ({number} threads)", _measuring(cpus[:number]), _FIGURES)
    nodes = numa_cpus()
    for node, own in nodes.items() if len(nodes) > 1 else ():
        yield NodeProbe(f"stream (node {node})", _measuring(sorted(own), node), _FIGURES)


def _measuring(cpus: Sequence[int], node: int | None = None) -> Callable[[], Sequence[NodeFigure]]:
    return lambda: measure_stream(cpus, array_bytes(cpus), node=node)


def array_bytes(cpus: Sequence[int] = ()) -> int:
    """Return the size of each of the three arrays, by default for all CPUs.

    Raises NotMeasurableError if they do not fit in the free memory.
    """
    wanted = _CACHES * last_level_cache_bytes(cpus or os.sched_getaffinity(0))
    if 3 * wanted > available_bytes() // _MEMORY_SHARE * 3:
        raise NotMeasurableError(
            f"three arrays of {wanted >> 20} MiB, {_CACHES} times the last-level caches in use, do "
            "not fit in the free memory"
        )
    return wanted


def measure_stream(
    cpus: Sequence[int], size_bytes: int, repeats: int = _REPEATS, node: int | None = None
) -> list[NodeFigure]:
    """Return the bandwidth of each loop, with a process on each of `cpus`.

    The first repeat is left out, as in STREAM. `node` is the NUMA node whose CPUs these are, if
    they are all of one.
    """
    elements, code = size_bytes // 8 // len(cpus), fastest_code()
    with _workers(cpus, elements, code) as workers:
        seconds: dict[str, list[float]] = {name: [] for name in LOOPS}
        for _ in range(repeats + 1):
            for name in LOOPS:
                seconds[name].append(_run(workers, name))
    moved = elements * len(cpus)
    setting = {"threads": len(cpus), "arrayBytes": elements * 8 * len(cpus), "loops": code}
    if node is not None:
        setting["node"] = node
    return [
        figure(
            f"stream/{name}",
            "bytes/s",
            [LOOPS[name] * moved / each for each in taken[1:]],
            setting,
        )
        for name, taken in seconds.items()
    ]


@contextmanager
def _workers(
    cpus: Sequence[int], elements: int, code: Code
) -> Iterator[list["subprocess.Popen[str]"]]:
    with ExitStack() as stack:
        found = []
        for cpu in cpus:
            command = [sys.executable, "-m", "inferometer_serving.node.stream", str(cpu)]
            worker = subprocess.Popen(  # noqa: S603 - our own program
                [*command, str(elements), code],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            stack.callback(_end, worker)
            found.append(worker)
        for worker in found:
            _read(worker)  # its arrays are there
        yield found


def _end(worker: "subprocess.Popen[str]") -> None:
    worker.kill()
    worker.communicate()


def _run(workers: Sequence["subprocess.Popen[str]"], name: str) -> float:
    """Return how long a loop takes in all processes, from the first begin to the last end."""
    begin = time.monotonic_ns() + _LEAD_NS
    for worker in workers:
        if worker.stdin is not None:
            worker.stdin.write(f"{name} {begin}\n")
            worker.stdin.flush()
    spans = [_read(worker) for worker in workers]
    return (max(end for _, end in spans) - min(start for start, _ in spans)) / 1e9


def _read(worker: "subprocess.Popen[str]") -> tuple[int, int]:
    line = "" if worker.stdout is None else worker.stdout.readline()
    if not line:
        raise NotMeasurableError("a process of the benchmark ended early, as without memory")
    start, end = json.loads(line)
    return start, end


def arrays(elements: int) -> tuple[Doubles, Doubles, Doubles]:
    """Return the three arrays, in one block."""
    distance = elements + _APART
    block = np.empty(2 * distance + elements)
    a, b, c = (block[start : start + elements] for start in (0, distance, 2 * distance))
    a[:], b[:], c[:] = 1.0, 2.0, 0.0
    return a, b, c


def _work(cpu: int, elements: int, code: Code) -> None:
    """Run the loops that standard input orders, each at its time."""
    os.sched_setaffinity(0, {cpu})
    a, b, c = arrays(elements)
    operands = {"copy": (c, a, a), "scale": (b, c, c), "add": (c, a, b), "triad": (a, b, c)}
    run = loops(code)
    sys.stdout.write("[0, 0]\n")
    sys.stdout.flush()
    for order in sys.stdin:
        name, begin = order.split()
        while time.monotonic_ns() < int(begin):
            pass
        start = time.monotonic_ns()
        run[name](*operands[name])
        sys.stdout.write(f"[{start}, {time.monotonic_ns()}]\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _work(int(sys.argv[1]), int(sys.argv[2]), "AVX2" if sys.argv[3] == "AVX2" else "NumPy")
