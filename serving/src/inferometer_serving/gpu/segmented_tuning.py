"""Auto-tuning of the kernels for segments: the fastest plan for each length on this GPU.

`python -m inferometer_serving.gpu.segmented_tuning FILE` measures and adds this GPU's compute
capability to the table in FILE; the package has the one of 9.0. Exit codes: 0 it was tuned; 2 there
is no GPU or no compiler.
"""

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from importlib import resources
from pathlib import Path
from statistics import median
from typing import Any, get_args

import numpy as np

from inferometer_serving.gpu.device import (
    GpuDevice,
    GpuUnavailableError,
    call,
    device_memory,
    load_kernels,
    machine_code,
    open_gpu,
    seconds_on_gpu,
    stream,
    write,
)
from inferometer_serving.gpu.segmented import (
    TILE_AREA,
    KernelPlan,
    Operation,
    Segments,
    allocate,
    kernel_names,
    kernel_source,
)

LENGTHS = tuple(1 << power for power in (*range(4, 17), 18, 20, 22))
"""Of the table; another length uses the next shorter one's plan."""
_TABLE = "segmented_plans.json"
_ELEMENTS = 1 << 29
"""So large that neither input nor output stays in a cache."""
_LAUNCHES, _REPEATS = 8, 3
_RANDOM = 1 << 22
_LONGEST_QUAD, _LONGEST_WARP = 1 << 12, 1 << 15
_MOST_LOADS = 16
_SMALLEST_PART = 1 << 12
_EXIT_REFUSED = 2

Seconds = dict[tuple[Operation, int], list[tuple[float, KernelPlan]]]


def plan_for(segments: Segments, compute_capability: tuple[int, int]) -> KernelPlan:
    """Return the fastest plan known for a length; of 9.0 if that GPU was never measured."""
    plans = _table(compute_capability)["plans"][segments.operation]
    known = [int(length) for length in plans if int(length) <= segments.length]
    plan = KernelPlan(**plans[str(max(known, default=min(map(int, plans))))])
    return KernelPlan("Quad") if plan.refusal(segments) else plan


def _tables() -> list[dict[str, Any]]:
    text = resources.files(__package__).joinpath(_TABLE).read_text()
    tables: list[dict[str, Any]] = json.loads(text)
    return tables


def _table(compute_capability: tuple[int, int]) -> dict[str, Any]:
    by_name = {each["computeCapability"]: each for each in _tables()}
    return by_name.get(_name(compute_capability), by_name["9.0"])


def _name(compute_capability: tuple[int, int]) -> str:
    return ".".join(map(str, compute_capability))


def candidates(operation: Operation, length: int) -> Iterator[KernelPlan]:
    """Yield the plans worth measuring for a length of the table or another."""
    one = Segments(operation, "float16", length, 1)
    for plan in _all_plans(operation):
        if not plan.refusal(one) and _is_sensible(operation, plan, length):
            yield plan


def _all_plans(operation: Operation) -> Iterator[KernelPlan]:
    for warps in (4, 8):
        for coarsening in (1, 2, 4, 8):
            yield KernelPlan("Tile", warps, coarsening)
            for depth in (1, 2, 4, 8):
                if coarsening * depth <= _MOST_LOADS // 2:
                    yield KernelPlan("Quad", warps, coarsening, depth)
                    yield KernelPlan("Warp", warps, coarsening, depth)
    for warps in (1, 2, 4, 8, 16):
        for depth in (1, 2, 4, 8):
            for coarsening in (1, 2, 4, 8) if operation == "Sum" else (1,):
                yield KernelPlan("Block", warps, coarsening, depth)


def _is_sensible(operation: Operation, plan: KernelPlan, length: int) -> bool:
    """Return whether a plan keeps lanes busy and has the loads of a few registers in flight."""
    if plan.algorithm == "Tile":
        return True
    if plan.algorithm == "Block":
        if operation == "Sum" and not 4 <= plan.warps * plan.depth <= 64:
            return False
        return TILE_AREA <= plan.part <= length and plan.part >= min(length, _SMALLEST_PART)
    if operation == "Scan" and plan.coarsening > 2:
        return False
    if plan.algorithm == "Quad":
        step = 32 if operation == "Sum" else 16
        return length <= _LONGEST_QUAD and plan.depth <= max(1, length // step)
    return TILE_AREA <= length <= _LONGEST_WARP and plan.depth <= length // TILE_AREA


def tune(
    gpu: GpuDevice,
    operations: Iterable[Operation] = get_args(Operation),
    lengths: Iterable[int] = LENGTHS,
    choose: Callable[[Operation, int], Iterable[KernelPlan]] = candidates,
) -> Seconds:
    """Return the seconds of each plan by operation and length, the fastest first.

    Kernels are compiled on all cores. Raises GpuUnavailableError and CudaError.
    """
    jobs = [
        (_large(operation, length), plan)
        for operation in operations
        for length in lengths
        for plan in choose(operation, length)
    ]
    most = [max(_buffers(segments)[i] for segments, _ in jobs) for i in range(2)]
    found: Seconds = {}
    with (
        random_values(most[0]) as source,
        device_memory(most[1]) as target,
        ProcessPoolExecutor(os.cpu_count()) as pool,
    ):
        compile_one = partial(_compile, gpu.compute_capability)
        for (segments, plan), code in zip(jobs, pool.map(compile_one, jobs), strict=True):
            with (
                load_kernels(code, kernel_names(segments, plan)) as kernels,
                allocate(segments, plan, kernels) as kernel,
                stream() as on,
            ):
                seconds = seconds_per_launch(partial(kernel.launch, source, target, on), on)
            found.setdefault((segments.operation, segments.length), []).append((seconds, plan))
    return {key: sorted(plans, key=lambda each: each[0]) for key, plans in found.items()}


def _compile(compute_capability: tuple[int, int], job: tuple[Segments, KernelPlan]) -> bytes:
    return machine_code(compute_capability, *kernel_source(*job))


def _buffers(segments: Segments) -> tuple[int, int]:
    """Return the bytes of input and output."""
    return 2 * segments.elements, 4 * segments.outputs


@contextmanager
def random_values(size: int) -> Iterator[int]:
    """Allocate device memory of at least `size` bytes, full of finite 16-bit numbers.

    They are numbers near 1 both in float16 and in bfloat16.
    """
    from cuda.bindings import driver  # noqa: PLC0415 - optional

    block = 2 * min(_RANDOM, 1 << (size - 1).bit_length())
    bits = np.random.default_rng().integers(0x3C00, 0x3FFF, block // 2, np.uint16)
    with device_memory(-(-size // block) * block) as address:
        write(address, bits)
        for at in range(block, size, block):
            call(driver.cuMemcpyDtoD, address + at, address, block)
        yield address


def seconds_per_launch(
    launch: Callable[[], object], on: Any, *, launches: int = _LAUNCHES, repeats: int = _REPEATS
) -> float:
    """Return the time of one launch among several that follow one another: the median of repeats.

    The first repeat, which loads code and fills caches, is left out.
    """

    def launch_some() -> None:
        for _ in range(launches):
            launch()

    return median([seconds_on_gpu(launch_some, on) for _ in range(repeats + 1)][1:]) / launches


def table_of(gpu: GpuDevice, seconds: Seconds) -> dict[str, Any]:
    """Return the fastest plans as the table has them, and the bytes that each moves in a second."""
    plans: dict[str, dict[str, Any]] = {}
    rates: dict[str, dict[str, int]] = {}
    for (operation, length), ((fastest, plan), *_) in seconds.items():
        moved = _large(operation, length).moved_bytes
        plans.setdefault(operation, {})[str(length)] = asdict(plan)
        rates.setdefault(operation, {})[str(length)] = round(moved / fastest)
    return {
        "computeCapability": _name(gpu.compute_capability),
        "card": gpu.name,
        "plans": plans,
        "bytesPerSecond": rates,
    }


def _large(operation: Operation, length: int) -> Segments:
    return Segments(operation, "float16", length, _ELEMENTS // length)


def main(file: Path) -> int:
    """Tune on this GPU, and write its table into a file of tables; return the exit code."""
    tables = json.loads(file.read_text()) if file.exists() else []
    try:
        with open_gpu() as gpu:
            found = table_of(gpu, tune(gpu))
    except GpuUnavailableError as error:
        sys.stderr.write(f"The kernels cannot be tuned: {error}.\n")
        return _EXIT_REFUSED
    others = [each for each in tables if each["computeCapability"] != found["computeCapability"]]
    file.write_text(json.dumps([*others, found], indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
