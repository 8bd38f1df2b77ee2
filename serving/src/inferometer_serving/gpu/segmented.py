"""Sums and prefix sums of segments on a GPU's matrix units, by kernels compiled for each length.

The algorithms are those of Dakkak et al. (ICS 2019); docs/explanation/matrix-units.md has their
form here, and `inferometer_analysis.matrix_units` their algebra in NumPy.
"""

import ctypes
import itertools
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib import resources
from typing import Any, Literal

from inferometer_serving.gpu.device import (
    GpuDevice,
    GpuFunction,
    GpuUnavailableError,
    address_argument,
    call,
    compile_kernels,
    device_memory,
)

Operation = Literal["Sum", "Scan"]
Operand = Literal["float16", "bfloat16"]
Algorithm = Literal["Quad", "Warp", "Block", "Tile"]
TILE_AREA = 256
_LANES = 32
_ALGORITHMS: tuple[Algorithm, ...] = ("Quad", "Warp", "Block", "Tile")
_OPERANDS = {"float16": ("f16", "0x3C003C00u"), "bfloat16": ("bf16", "0x3F803F80u")}
_INPUT_BYTES, _SUM_BYTES, _STATE_BYTES = 2, 4, 8
_MOST_WARPS = 16
_LONGEST = 1 << 31
_SMALLEST_CAPABILITY = (8, 0)


class SegmentsRefusedError(ValueError):
    """Segments or a plan that no kernel here can run; the message says why."""


@dataclass(frozen=True, slots=True)
class Segments:
    """Segments of one length that follow one another in memory, and the operation on each.

    The input starts at a multiple of 16 bytes. Sums and prefix sums are float32.
    """

    operation: Operation
    operand: Operand
    length: int
    """Elements of a segment."""
    count: int
    """Segments."""

    def __post_init__(self) -> None:
        """Raise SegmentsRefusedError unless there is something to sum."""
        if not 1 <= self.length <= _LONGEST or self.count < 1:
            raise SegmentsRefusedError(
                f"{self.count} segments of {self.length} elements: both must be at least 1, and "
                f"the length at most {_LONGEST}."
            )

    @property
    def elements(self) -> int:
        """Elements of the input."""
        return self.length * self.count

    @property
    def outputs(self) -> int:
        """Elements of the output: one for each segment, or for each element."""
        return self.count if self.operation == "Sum" else self.elements

    @property
    def moved_bytes(self) -> int:
        """The bytes that must be read and written: the input once and the output once."""
        return _INPUT_BYTES * self.elements + _SUM_BYTES * self.outputs


@dataclass(frozen=True, slots=True)
class KernelPlan:
    """How a kernel computes segments.

    `Quad` (16 and 16 N in the paper) gives a segment to four lanes, `Warp` (256 and 256 N) to a
    warp, `Block` to one block or several (block and grid level), `Tile` several segments to a tile.
    """

    algorithm: Algorithm
    warps: int = 8
    """Of a block."""
    coarsening: int = 1
    """Groups of segments of a warp at a time; for sums by blocks: how often a block loads."""
    depth: int = 1
    """Loads of each group before the first is used."""

    @property
    def part(self) -> int:
        """Elements of a segment that a block takes, by the algorithm `Block`."""
        return self.warps * TILE_AREA * self.depth * self.coarsening

    def refusal(self, segments: Segments) -> str:
        """Return why this plan cannot be used; empty if it can."""
        if not 0 < self.warps <= _MOST_WARPS or self.coarsening < 1 or self.depth < 1:
            return f"blocks have 1 to {_MOST_WARPS} warps, and each loads at least once"
        if segments.operation == "Sum":
            return "sums have no algorithm Tile" if self.algorithm == "Tile" else ""
        if self.coarsening > 1 and self.algorithm not in ("Tile", "Quad"):
            return "these scans coarsen by depth alone"
        if self.algorithm == "Tile" and (segments.length % 16 or TILE_AREA % segments.length):
            return f"segments of {segments.length} do not fill tiles"
        return ""


@dataclass(frozen=True, slots=True)
class SegmentedKernel:
    """A kernel for segments of one length, with its scratch memory."""

    segments: Segments
    plan: KernelPlan
    kernels: dict[str, GpuFunction]
    scratch: int = 0
    scratch_bytes: int = 0
    blocks: int = 1
    launches: Iterator[int] = field(default_factory=itertools.count)
    """How many there were before."""

    def launch(self, source: int, target: int, on: Any, scale: float = 1.0) -> None:
        """Put it in the stream `on`: from and to addresses of device memory.

        Sums are multiplied by `scale`. Launches that share this object must not overlap. Raises
        CudaError.
        """
        if self.segments.operation == "Sum":
            self._launch_sum(source, target, on, scale)
        else:
            self._launch_scan(source, target, on)

    def _launch_sum(self, source: int, target: int, on: Any, scale: float) -> None:
        count = (self.segments.count, ctypes.c_uint64)
        factor = (scale, ctypes.c_float)
        first = [address_argument(source), address_argument(self.scratch or target), count, factor]
        self._start("reduce_segments", first, on)
        if self.scratch:
            second = [address_argument(self.scratch), address_argument(target), factor]
            grid = (self.segments.count, 1, 1)
            self.kernels["reduce_parts"].launch(grid, (_LANES, 1, 1), second, on)

    def _launch_scan(self, source: int, target: int, on: Any) -> None:
        arguments = [
            address_argument(source),
            address_argument(target),
            (self.segments.count, ctypes.c_uint64),
        ]
        if self.plan.algorithm == "Block":
            before = next(self.launches)
            ticket = self.scratch + self.scratch_bytes - _STATE_BYTES if self.scratch else 0
            arguments += [
                address_argument(self.scratch),
                address_argument(ticket),
                (before * self.blocks, ctypes.c_uint64),
                (1 - before % 2, ctypes.c_uint64),
            ]
        self._start("scan_segments", arguments, on)

    def _start(self, name: str, arguments: Sequence[Any], on: Any) -> None:
        block = (self.plan.warps * _LANES, 1, 1)
        self.kernels[name].launch((self.blocks, 1, 1), block, arguments, on)


@contextmanager
def segmented_kernel(
    gpu: GpuDevice, segments: Segments, plan: KernelPlan
) -> Iterator[SegmentedKernel]:
    """Compile a kernel, and allocate its scratch memory.

    Raises SegmentsRefusedError, GpuUnavailableError without a compiler or such matrix units, and
    CudaError.
    """
    if gpu.compute_capability < _SMALLEST_CAPABILITY:
        raise GpuUnavailableError(
            f"{gpu.name} has compute capability {'.'.join(map(str, gpu.compute_capability))}; "
            "products of 16 x 16 by 16 x 8 need 8.0"
        )
    source, options = kernel_source(segments, plan)
    names = kernel_names(segments, plan)
    with (
        compile_kernels(gpu, source, names, options) as kernels,
        allocate(segments, plan, kernels) as kernel,
    ):
        yield kernel


def kernel_source(segments: Segments, plan: KernelPlan) -> tuple[str, list[str]]:
    """Return CUDA C++ and the compiler's options. Raises SegmentsRefusedError."""
    reason = plan.refusal(segments)
    if reason:
        raise SegmentsRefusedError(f"{plan} cannot compute {segments}: {reason}.")
    folder = resources.files(__package__).joinpath("kernels")
    files = ["fragments.cu", "reduce.cu" if segments.operation == "Sum" else "scan.cu"]
    if segments.operation == "Scan" and plan.algorithm == "Block":
        files.append("scan_blocks.cu")
    source = "".join(folder.joinpath(name).read_text() for name in files)
    operand, ones = _OPERANDS[segments.operand]
    values = {
        **{name.upper(): index for index, name in enumerate(_ALGORITHMS)},
        "ALGORITHM": plan.algorithm.upper(),
        "OPERAND": f'"{operand}"',
        "ONE_PAIR": ones,
        "LENGTH": f"{segments.length}ull",
        "WARPS": plan.warps,
        "COARSENING": plan.coarsening,
        "DEPTH": plan.depth,
    }
    return source, [f"--define-macro={name}={value}" for name, value in values.items()]


def kernel_names(segments: Segments, plan: KernelPlan) -> list[str]:
    """Return the names of the kernels that a plan compiles."""
    if segments.operation == "Scan":
        return ["scan_segments"]
    return ["reduce_segments", *(["reduce_parts"] if plan.algorithm == "Block" else [])]


@contextmanager
def allocate(
    segments: Segments, plan: KernelPlan, kernels: dict[str, GpuFunction]
) -> Iterator[SegmentedKernel]:
    """Allocate what compiled kernels need besides input and output. Raises CudaError."""
    from cuda.bindings import driver  # noqa: PLC0415 - optional

    parts = -(-segments.length // plan.part) if plan.algorithm == "Block" else 1
    blocks = segments.count * parts if plan.algorithm == "Block" else _blocks(segments, plan)
    size = 0
    if parts > 1:
        size = _SUM_BYTES * blocks if segments.operation == "Sum" else _STATE_BYTES * (blocks + 1)
    with ExitStack() as stack:
        scratch = stack.enter_context(device_memory(size)) if size else 0
        if scratch:
            call(driver.cuMemsetD8, scratch, 0, size)
            call(driver.cuCtxSynchronize)
        yield SegmentedKernel(segments, plan, kernels, scratch, size, blocks)


def _blocks(segments: Segments, plan: KernelPlan) -> int:
    """Return how many blocks hold the warps of segments that no two blocks share."""
    match plan.algorithm:
        case "Quad":
            warps = -(-segments.count // (16 * plan.coarsening))
        case "Tile":
            warps = -(-segments.elements // (TILE_AREA * plan.coarsening))
        case _:
            warps = -(-segments.count // plan.coarsening)
    return -(-warps // plan.warps)
