"""The last profiled inference of each step as a process of a Chrome trace for ui.perfetto.dev.

The first track has the inference with its layers below it. With kernels of a GPU the layers are
there by their launches, and further tracks have the launches and the streams of the GPU; arrows go
from launches to executions.
"""

from collections.abc import Iterator
from typing import Any

from inferometer_api.results.result import KernelProfile, ResultDocument
from inferometer_results.export.lanes import fewest_lanes
from inferometer_results.export.profile_timeline import ProfileTimeline, profile_timelines

_LAYERS, _LAUNCHES, _FIRST_STREAM, _FURTHER_LAYERS = 1, 2, 10, 1_000_000
"""Threads of the trace."""


def profile_events(document: ResultDocument, first_process: int) -> Iterator[dict[str, Any]]:
    """Yield the events of each step's process; times are from the start of the inference."""
    for process, timeline in enumerate(profile_timelines(document), first_process):
        yield _named("process_name", process, 0, timeline.step.name)
        yield from _layer_events(timeline, process)
        yield from _kernel_events(timeline, process)


def _layer_events(timeline: ProfileTimeline, process: int) -> Iterator[dict[str, Any]]:
    """Yield the inference and its layers; further tracks have layers that run in parallel."""
    kernels = timeline.step.profile.kernels
    title = "Layers, by their launches" if kernels else "Layers"
    outermost = [at for at, each in enumerate(timeline.layers) if each.outer is None]
    extents = [(timeline.layers[at].start_ns, timeline.layers[at].end_ns) for at in outermost]
    threads = dict(zip(outermost, map(_layer_thread, fewest_lanes(extents)), strict=True))
    for thread in dict.fromkeys((_LAYERS, *threads.values())):
        yield _named("thread_name", process, thread, title)
    facts = {"batchSize": timeline.step.step.batch_size}
    yield _slice(process, _LAYERS, "Inference", 0, timeline.duration_ns, facts)
    for at, each in enumerate(timeline.layers):
        if each.outer is not None:
            threads[at] = threads[each.outer]
        layer = each.layer
        arguments = {"operator": layer.operator, "kernel": layer.kernel, "index": layer.index}
        took_ns = each.end_ns - each.start_ns
        name = layer.name or layer.operator
        yield _slice(process, threads[at], name, each.start_ns, took_ns, arguments)


def _layer_thread(lane: int) -> int:
    return _LAYERS if lane == 0 else _FURTHER_LAYERS + lane


def _kernel_events(timeline: ProfileTimeline, process: int) -> Iterator[dict[str, Any]]:
    kernels = timeline.step.profile.kernels
    if kernels:
        yield _named("thread_name", process, _LAUNCHES, "Launches")
    for stream in dict.fromkeys(each.stream for each in kernels):
        yield _named("thread_name", process, _FIRST_STREAM + stream, f"GPU, stream {stream}")
    for kernel in kernels:
        yield from _spans(kernel, process)


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
    begin, took = kernel.start_nanoseconds, sum(kernel.durations_nanoseconds[-1:])
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
