"""Exchange with Comm|Scope: its names and counters, in the JSON of Google Benchmark.

Only copies between NUMA nodes have a counterpart on the host; its other benchmarks need a GPU.
"""

import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from inferometer_api.nodes.characteristics import NodeCharacteristics, NodeFigure

MEMCPY = "libc_memcpy_NUMAToNUMA"
_COUNTERS = ("numa_id", "cuda_id", "src_id", "dst_id")
_SIZE = re.compile(r"(?:log2\(N\):)?([0-9]{1,18})")


_NO_LIST = (
    "The file is no result of Comm|Scope: it has no list of benchmarks. Write it with "
    "--benchmark_out=FILE --benchmark_out_format=json."
)


class NotCommScopeError(ValueError):
    """A file is no result of Comm|Scope; the message is a sentence."""


@dataclass(frozen=True, slots=True)
class CommScopeFigure:
    """One result of Comm|Scope."""

    name: str
    """cudaMemcpyAsync_PinnedToGPU, libc_memcpy_NUMAToNUMA, ...; without the prefix Comm_."""
    places: tuple[int, ...]
    """The NUMA nodes and GPUs in its name, in their order."""
    bytes: int
    bytes_per_second: float
    is_flushed: bool
    """Whether the CPU's caches were flushed before each iteration."""


def to_comm_scope(document: NodeCharacteristics) -> dict[str, Any]:
    """Return the copies of a document as Comm|Scope writes them."""
    machine = document.machine
    return {
        "context": {
            "date": document.started_at,
            "host_name": machine.hostname,
            "executable": f"inferometer {document.inferometer_version}",
            "num_cpus": machine.cpu_count,
            "caches": [{"type": "Unified", "level": 3, "size": machine.last_level_cache_bytes}],
        },
        "benchmarks": [
            each
            for figure in document.figures
            if figure.name == "memcpy"
            for each in _benchmarks(figure)
        ],
    }


def _benchmarks(figure: NodeFigure) -> Iterator[dict[str, Any]]:
    source, destination, size = (
        int(figure.setting[name]) for name in ("source", "destination", "bytes")
    )
    log2_bytes = size.bit_length() - 1
    name = f"{MEMCPY}/{source}/{destination}/log2(N):{log2_bytes}"
    for index, rate in enumerate(figure.samples):
        nanoseconds = size * 1e9 / rate
        yield {
            "name": name,
            "run_name": name,
            "run_type": "iteration",
            "repetitions": len(figure.samples),
            "repetition_index": index,
            "threads": 1,
            "iterations": 1,
            "real_time": nanoseconds,
            "cpu_time": nanoseconds,
            "time_unit": "ns",
            "bytes": size,
            "bytes_per_second": rate,
            "src_id": source,
            "dst_id": destination,
        }


def read_comm_scope(text: str | bytes) -> list[CommScopeFigure]:
    """Return the rates in a result of Comm|Scope. Raises NotCommScopeError."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NotCommScopeError(_NO_LIST) from error
    entries = document.get("benchmarks") if isinstance(document, dict) else None
    if not isinstance(entries, list):
        raise NotCommScopeError(_NO_LIST)
    found = [each for entry in entries if (each := _read(entry)) is not None]
    if not found:
        raise NotCommScopeError("The file has no benchmark with bytes_per_second above 0.")
    return found


def _read(entry: Any) -> CommScopeFigure | None:
    """Return one entry; None for means over repetitions, errors, and entries without a rate."""
    if not isinstance(entry, dict) or entry.get("run_type") == "aggregate":
        return None
    rate, name = _number(entry.get("bytes_per_second")), entry.get("name")
    if not rate or not isinstance(name, str) or entry.get("error_occurred"):
        return None
    base, *parts = name.removeprefix("Comm_").split("/")
    numbers = [int(match[1]) for part in parts if (match := _SIZE.fullmatch(part))]
    size = _number(entry.get("bytes"))
    if size is None:
        size = 1 << numbers[-1] if numbers and numbers[-1] < 64 else 0
    *places, _ = numbers or [0]
    if not places:
        counters = (_number(entry.get(each)) for each in _COUNTERS)
        places = [int(each) for each in counters if each is not None]
    return CommScopeFigure(
        name=base.removesuffix("_flush"),
        places=tuple(places),
        bytes=int(size),
        bytes_per_second=rate,
        is_flushed=base.endswith("_flush"),
    )


def _number(value: Any) -> float | None:
    """Return a number of at least 0; None for anything else, infinity and NaN."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def counterparts(
    document: NodeCharacteristics, others: Sequence[CommScopeFigure]
) -> Iterator[tuple[NodeFigure, CommScopeFigure]]:
    """Yield each figure of ours with that of Comm|Scope for the same copy and size."""
    for figure in document.figures:
        if figure.name != "memcpy":
            continue
        places = (int(figure.setting["source"]), int(figure.setting["destination"]))
        for other in others:
            same = (other.name, other.places, other.bytes) == (
                MEMCPY,
                places,
                int(figure.setting["bytes"]),
            )
            if same and not other.is_flushed:
                yield figure, other
