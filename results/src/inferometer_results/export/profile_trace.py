"""The last profiled inference of each step as a Chrome trace, which ui.perfetto.dev opens.

With kernels of a GPU the tracks are the layers by their launches, the launches, and the streams of
the GPU; arrows go from launches to executions. Without, the layers as the engine timed them.
"""

from collections.abc import Iterator
from typing import Any

import orjson

from inferometer_api.results.result import KernelProfile, ResultDocument, StepProfile
from inferometer_results.profile import profiled_steps

_LAYERS, _LAUNCHES, _FIRST_STREAM = 1, 2, 10
"""Threads of the trace."""


def profile_trace(document: ResultDocument) -> str:
    """Return the JSON object of the Trace Event Format, with times in microseconds."""
    events: list[dict[str, Any]] = []
    for process, each in enumerate(profiled_steps(document), start=1):
        events.append(_named("process_name", process, 0, each.name))
        part = _gpu_events if each.profile.kernels else _layer_events
        events += part(each.profile, process)
    trace = {
        "traceEvents": events,
        "displayTimeUnit": "ns",
        "otherData": {"run": document.run.name, "runId": document.run_id},
    }
    return orjson.dumps(trace, option=orjson.OPT_APPEND_NEWLINE).decode()


def _layer_events(profile: StepProfile, process: int) -> Iterator[dict[str, Any]]:
    yield _named("thread_name", process, _LAYERS, "Layers")
    for layer in profile.layers:
        if layer.durations_nanoseconds:
            yield _slice(
                process,
                _LAYERS,
                layer.name or layer.operator,
                layer.start_nanoseconds,
                layer.durations_nanoseconds[-1],
                {"operator": layer.operator, "kernel": layer.kernel},
            )


def _gpu_events(profile: StepProfile, process: int) -> Iterator[dict[str, Any]]:
    yield _named("thread_name", process, _LAYERS, "Layers, by their launches")
    yield _named("thread_name", process, _LAUNCHES, "Launches")
    for stream in dict.fromkeys(each.stream for each in profile.kernels):
        yield _named("thread_name", process, _FIRST_STREAM + stream, f"GPU, stream {stream}")
    by_layer: dict[int, list[KernelProfile]] = {}
    for kernel in profile.kernels:
        if kernel.layer is not None:
            by_layer.setdefault(kernel.layer, []).append(kernel)
        yield from _spans(kernel, process)
    layers = {each.index: each for each in profile.layers}
    for index, kernels in by_layer.items():
        layer = layers[index]
        begin = min(each.launch_start_nanoseconds for each in kernels)
        end = max(each.launch_start_nanoseconds + each.launch_nanoseconds for each in kernels)
        arguments = {"operator": layer.operator, "index": index}
        name = layer.name or layer.operator
        yield _slice(process, _LAYERS, name, begin, end - begin, arguments)


def _spans(kernel: KernelProfile, process: int) -> Iterator[dict[str, Any]]:
    """Yield the launch and the execution of a kernel, and the arrow between them."""
    thread = _FIRST_STREAM + kernel.stream
    arguments: dict[str, Any] = {"layer": kernel.layer}
    if kernel.kind == "Kernel":
        arguments |= {
            "grid": kernel.grid,
            "block": kernel.block,
            "registersPerThread": kernel.registers_per_thread,
            "sharedBytes": kernel.shared_bytes,
            "theoreticalOccupancy": kernel.theoretical_occupancy,
        }
    else:
        arguments["movedBytes"] = kernel.moved_bytes
    start = kernel.launch_start_nanoseconds
    yield _slice(process, _LAUNCHES, kernel.name, start, kernel.launch_nanoseconds, {})
    begin, took = kernel.start_nanoseconds, kernel.durations_nanoseconds[-1]
    yield _slice(process, thread, kernel.name, begin, took, arguments)
    arrow = {"name": "launch", "cat": "launch", "id": process * 10_000_000 + kernel.index}
    yield {**arrow, "ph": "s", "ts": start / 1000, "pid": process, "tid": _LAUNCHES}
    yield {**arrow, "ph": "f", "bp": "e", "ts": begin / 1000, "pid": process, "tid": thread}


def _slice(
    process: int, thread: int, name: str, start_ns: int, took_ns: int, arguments: dict[str, Any]
) -> dict[str, Any]:
    return {
        "name": name,
        "ph": "X",
        "ts": start_ns / 1000,
        "dur": took_ns / 1000,
        "pid": process,
        "tid": thread,
        "args": arguments,
    }


def _named(what: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"name": what, "ph": "M", "pid": process, "tid": thread, "args": {"name": name}}
