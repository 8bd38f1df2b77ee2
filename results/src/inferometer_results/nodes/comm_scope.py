"""Exchange with Comm|Scope: its names and counters, in the JSON of Google Benchmark.

Copies between NUMA nodes, transfers of GPUs and the costs of CUDA's calls have a counterpart there.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from inferometer_api.nodes.characteristics import NodeCharacteristics, NodeFigure, Unit
from inferometer_results.nodes.comm_scope_names import (
    BY_NAME,
    OF_FIGURES,
    PREFIX,
    CommScopeName,
)

_COUNTERS = ("numa_id", "cuda_id", "src_id", "dst_id")
_NUMBER = re.compile(r"(?:log2\(N\):)?([0-9]{1,18})")
_AGGREGATE = re.compile(r"_(mean|median|stddev|cv|BigO|RMS)$")
"""Ends of the names of figures over repetitions. Google Benchmark before 1.5 marks them in no other
way."""
_FLUSH = "_flush"
_NANOSECONDS: Mapping[object, float] = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}

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
    argument: int
    """Bytes of a transfer or an allocation, nodes of a graph; of calls without either, 0."""
    value: float
    """Bytes per second, or nanoseconds of a call or a step."""
    unit: Unit
    is_flushed: bool
    """Whether the CPU's caches were flushed before each iteration."""


def to_comm_scope(document: NodeCharacteristics) -> dict[str, Any]:
    """Return the figures of a document that Comm|Scope has too, as it writes them."""
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
            if figure.name in OF_FIGURES
            for each in _benchmarks(figure, OF_FIGURES[figure.name])
        ],
    }


def _benchmarks(figure: NodeFigure, known: CommScopeName) -> Iterator[dict[str, Any]]:
    places, argument = _places(figure, known), _argument(figure, known)
    flush = _FLUSH if _is_flushed(figure) else ""
    words = [f"{known.written}{flush}", *map(str, places)]
    if known.argument == "bytes":
        words.append(f"log2(N):{argument.bit_length() - 1}")
    elif known.argument == "steps":
        words.append(f"log2(N):{argument}")
    elif known.argument:
        words.append(str(argument))
    name = "/".join(words) + known.suffix
    samples = figure.samples or [figure.value]  # a large document has no samples of GPUs
    for index, sample in enumerate(samples):
        is_rate, is_sized = known.unit == "bytes/s", known.argument == "bytes"
        steps = argument if known.argument == "steps" else 1
        nanoseconds = argument * 1e9 / sample if is_rate else sample * steps
        bytes_per_second = sample if is_rate else argument * 1e9 / nanoseconds
        yield {
            "name": name,
            "run_name": name,
            "run_type": "iteration",
            "repetitions": len(samples),
            "repetition_index": index,
            "threads": 1,
            "iterations": 1,
            "real_time": nanoseconds,
            "cpu_time": nanoseconds,
            "time_unit": "ns",
            **({"bytes": argument, "bytes_per_second": bytes_per_second} if is_sized else {}),
            **({"strides": steps} if known.argument == "steps" else {}),
            **dict(zip((counter for _, counter in known.places), places, strict=True)),
        }


def read_comm_scope(text: str | bytes) -> list[CommScopeFigure]:
    """Return the figures in a result of Comm|Scope. Raises NotCommScopeError."""
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
    """Return one entry; None for means over repetitions, errors, and what is not compared."""
    if not isinstance(entry, dict):
        return None
    name = entry.get("name")
    if not isinstance(name, str) or entry.get("error_occurred") or _is_aggregate(entry, name):
        return None
    base, *parts = name.removeprefix(PREFIX).split("/")
    numbers = [int(match[1]) for part in parts if (match := _NUMBER.fullmatch(part))]
    known = BY_NAME.get(base.removesuffix(_FLUSH))
    if known is not None and known.unit == "ns":
        return _read_time(entry, known, numbers)
    rate = _number(entry.get("bytes_per_second"))
    if not rate:
        return None
    size = _number(entry.get("bytes"))
    if size is None:
        size = 1 << numbers[-1] if numbers and numbers[-1] < 64 else 0
    *places, _ = numbers or [0]
    if not places:
        counters = (_number(entry.get(each)) for each in _COUNTERS)
        places = [int(each) for each in counters if each is not None]
    return CommScopeFigure(
        name=base.removesuffix(_FLUSH),
        places=tuple(places),
        argument=int(size),
        value=rate,
        unit="bytes/s",
        is_flushed=base.endswith(_FLUSH),
    )


def _is_aggregate(entry: Mapping[str, Any], name: str) -> bool:
    kind = entry.get("run_type")
    return kind == "aggregate" or (kind is None and _AGGREGATE.search(name) is not None)


def _read_time(
    entry: Mapping[str, Any], known: CommScopeName, numbers: Sequence[int]
) -> CommScopeFigure | None:
    time, scale = _number(entry.get("real_time")), _NANOSECONDS.get(entry.get("time_unit", "ns"))
    count = len(known.places)
    argument = numbers[count] if len(numbers) > count else 0
    steps = (_number(entry.get("strides")) or argument) if known.argument == "steps" else 1
    if not time or scale is None or not steps or len(numbers) < count:
        return None
    return CommScopeFigure(
        name=known.name,
        places=tuple(numbers[:count]),
        argument=1 << min(argument, 63) if known.argument == "bytes" else argument,
        value=time * scale / steps,
        unit="ns",
        is_flushed=False,
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
    """Yield each figure of ours with that of Comm|Scope for the same transfer or call."""
    for figure in document.figures:
        known = OF_FIGURES.get(figure.name)
        if known is None:
            continue
        # A step takes as long however many there are.
        argument = 0 if known.argument == "steps" else _argument(figure, known)
        wanted = (known.name, _places(figure, known), argument, _is_flushed(figure))
        for other in others:
            theirs = 0 if known.argument == "steps" else other.argument
            if (other.name, other.places, theirs, other.is_flushed) == wanted:
                yield figure, other


def _places(figure: NodeFigure, known: CommScopeName) -> tuple[int, ...]:
    setting = figure.setting
    # A copy within a GPU has no peer.
    return tuple(int(setting.get(name, setting.get("gpu", "0"))) for name, _ in known.places)


def _argument(figure: NodeFigure, known: CommScopeName) -> int:
    return int(figure.setting.get(known.argument) or "0")


def _is_flushed(figure: NodeFigure) -> bool:
    return figure.setting.get("cache") == "flushed"
