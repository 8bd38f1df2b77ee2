"""The case matrix-units: sums and prefix sums of segments on a GPU, next to CUB and CuPy."""

import ctypes
import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

from bench.case import Case, Figures, PeerMissingError, Place, Row, Side, Source, Turn, Unit
from bench.figures import Bound
from bench.processes import ROOT, BenchError

from inferometer_serving.gpu.device import (
    GpuDevice,
    call,
    device_memory,
    gpu_count,
    open_gpu,
    stream,
)
from inferometer_serving.gpu.segmented import Operation, Segments, segmented_kernel
from inferometer_serving.gpu.segmented_tuning import plan_for, random_values, seconds_per_launch

_OURS, _CUB, _CUPY, _COPY = "Inferometer", "CUB", "CuPy", "copy"
_LENGTHS = (16, 32, 64, 128, 256, 512, 1024, 1 << 14, 1 << 18, 1 << 22)
_LONGEST_AGAINST_CUB = 1024
_LENGTHS_OF_CUPY = (16, 1024, 1 << 18)
_ELEMENTS: Mapping[Operation, int] = {"Sum": 1 << 30, "Scan": 1 << 29}
_WORDS: Mapping[Operation, str] = {"Sum": "Sums", "Scan": "Prefix sums"}
_SOURCE = ROOT / "bench" / "cub_segmented.cu"
_HEADERS = "CUB_HEADERS"
"""Variable of the environment: a folder with CUB, instead of CUDA's own."""
_RATE = Unit(" GB/s", 0, 1e-9)
_WORK = tuple(
    Segments(operation, "float16", length, elements // length)
    for operation, elements in _ELEMENTS.items()
    for length in _LENGTHS
)


@dataclass(frozen=True, slots=True)
class _Memory:
    """What all sides read and write."""

    gpu: GpuDevice
    source: int
    target: int
    stream: Any


def _figure(segments: Segments) -> str:
    return f"{segments.operation} {segments.length}"


def _rates(measure: Callable[[Segments], float], work: tuple[Segments, ...] = _WORK) -> Figures:
    """Return the bytes that must be moved by the second."""
    return {_figure(each): each.moved_bytes / measure(each) for each in work}


def _ours(memory: _Memory) -> Figures:
    def seconds(segments: Segments) -> float:
        plan = plan_for(segments, memory.gpu.compute_capability)
        with segmented_kernel(memory.gpu, segments, plan) as kernel:
            launch = partial(kernel.launch, memory.source, memory.target, memory.stream)
            return seconds_per_launch(launch, memory.stream)

    return _rates(seconds)


def _copy(memory: _Memory) -> Figures:
    """Copy half the bytes, each of which is read and written."""
    from cuda.bindings import driver  # noqa: PLC0415 - optional

    def seconds(segments: Segments) -> float:
        copied = [memory.target, memory.source, segments.moved_bytes // 2, memory.stream]
        launch = partial(call, driver.cuMemcpyDtoDAsync, *copied)
        return seconds_per_launch(launch, memory.stream)

    return _rates(seconds)


def _cub(memory: _Memory, library: ctypes.CDLL) -> Figures:
    def seconds(segments: Segments) -> float:
        function = library.cub_sum if segments.operation == "Sum" else library.cub_scan
        size = ctypes.c_size_t(0)

        def launch(scratch: int) -> None:
            code = function(
                *(0, ctypes.c_void_p(memory.source), ctypes.c_void_p(memory.target)),
                *(ctypes.c_int64(segments.count), segments.length.bit_length() - 1),
                *(ctypes.c_void_p(scratch), ctypes.byref(size)),
                ctypes.c_void_p(int(memory.stream)),
            )
            if code:
                raise BenchError(f"CUB failed with CUDA's error {code}.")

        launch(0)
        with device_memory(max(size.value, 1)) as scratch:
            return seconds_per_launch(partial(launch, scratch), memory.stream, launches=2)

    return _rates(seconds)


def _cupy(memory: _Memory) -> Figures:
    import cupy  # type: ignore[import-not-found]  # noqa: PLC0415 - optional

    cupy._core.set_routine_accelerators(["cub"])  # noqa: SLF001 - has no other way
    cupy._core.set_reduction_accelerators(["cub"])  # noqa: SLF001

    def seconds(segments: Segments) -> float:
        shape = (segments.count, segments.length)
        owned = cupy.cuda.UnownedMemory(memory.source, 2 * segments.elements, memory)
        values = cupy.ndarray(shape, cupy.float16, cupy.cuda.MemoryPointer(owned, 0))
        compute = cupy.sum if segments.operation == "Sum" else cupy.cumsum
        launch = partial(compute, values, axis=1, dtype=cupy.float32)
        with cupy.cuda.ExternalStream(int(memory.stream)):
            return seconds_per_launch(launch, memory.stream, launches=2, repeats=1)

    return _rates(seconds, tuple(each for each in _WORK if each.length in _LENGTHS_OF_CUPY))


def _library() -> ctypes.CDLL:
    """Compile CUB's side, once for each of its sources and headers."""
    headers = os.environ.get(_HEADERS, "")
    name = hashlib.sha256(_SOURCE.read_bytes() + headers.encode()).hexdigest()[:16]
    library = ROOT / ".cache" / "bench" / f"cub-{name}.so"
    if not library.exists():
        library.parent.mkdir(parents=True, exist_ok=True)
        words = ["nvcc", "-std=c++17", "-O3", "-arch=native", "--shared", "-Xcompiler", "-fPIC"]
        words += [f"-I{headers}"] if headers else []
        done = subprocess.run(
            [*words, "-o", str(library), str(_SOURCE)], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise BenchError(f"nvcc refused {_SOURCE.name}: {done.stderr[-2000:]}")
    return ctypes.CDLL(str(library))


def _require_gpu() -> None:
    if not gpu_count():
        raise PeerMissingError("It needs a GPU, its driver and cuda-bindings (the extra gpu).")


def _require_cub() -> None:
    _require_gpu()
    if shutil.which("nvcc") is None:
        raise PeerMissingError("It needs nvcc, CUDA's compiler, and CUB's headers.")


def _require_cupy() -> None:
    _require_gpu()
    if find_spec("cupy") is None:
        raise PeerMissingError("CuPy is not installed: pip install cupy-cuda13x.")


@contextmanager
def _stage(_: Place, sides: frozenset[str]) -> Iterator[Mapping[str, Turn]]:
    with ExitStack() as stack:
        gpu = stack.enter_context(open_gpu())
        sources = max(2 * each.elements for each in _WORK)
        targets = max(max(4 * each.outputs, each.moved_bytes // 2) for each in _WORK)
        memory = _Memory(
            gpu,
            stack.enter_context(random_values(max(sources, targets))),
            stack.enter_context(device_memory(targets)),
            stack.enter_context(stream()),
        )
        turns: dict[str, Turn] = {
            _OURS: partial(_ours, memory),
            _COPY: partial(_copy, memory),
            _CUPY: partial(_cupy, memory),
        }
        if _CUB in sides:
            turns[_CUB] = partial(_cub, memory, _library())
        yield turns


def _rows() -> Iterator[Row]:
    for segments in _WORK:
        figure = _figure(segments)
        what = f"{_WORDS[segments.operation]} of segments of {segments.length:,}"
        is_short = segments.length <= _LONGEST_AGAINST_CUB
        for peer, goal in (
            (_COPY, (Bound("ratio", "at least", 0.9),)),
            (_CUB, (Bound("ratio", "at least", 1.0),) if is_short else ()),
            *(((_CUPY, ()),) if segments.length in _LENGTHS_OF_CUPY else ()),
        ):
            ours = Source(_OURS, figure)
            yield Row(f"{what}, against {peer}", ours, _RATE, Source(peer, figure), goal)


MATRIX_UNITS = Case(
    name="matrix-units",
    title="Sums and prefix sums of segments on matrix units of a GPU",
    text="""\
Segments of one length, 2^30 float16 elements for sums and 2^29 for prefix sums, all random and in
the GPU's memory; float32 sums and outputs. The rate is the bytes that must be moved (2 for each
element read, 4 for each output written) by the time between two events around several launches.

The peer `copy` is CUDA's copy within the GPU of as many bytes: half of them read, half written.
CUB sums by segments of one length, and scans by segments, where its version has them, else by
offsets and keys; CuPy sums and scans along an axis, with CUB as its accelerator.""",
    commands=(
        "pip install cuda-bindings cupy-cuda13x",
        "CUB_HEADERS=FOLDER .venv/bin/python bench/run.py --case matrix-units",
    ),
    sides=(
        Side(_OURS, _require_gpu),
        Side(_COPY, _require_gpu),
        Side(_CUB, _require_cub),
        Side(_CUPY, _require_cupy),
    ),
    stage=_stage,
    minutes=2,
    repeats=3,
    rows=tuple(_rows()),
    is_pinned=False,
)
