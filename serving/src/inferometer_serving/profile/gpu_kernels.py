"""The activities of a GPU, turned into kernels with the layers that launched them.

The layer of a kernel is the one within whose span its launch lies; its duration is that of the
execution (XSP, section III-A). Times are in ns.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from inferometer_serving.gpu.activities import GpuActivity, Launch
from inferometer_serving.profile.gpu_activities import GpuTrace, KernelTimes
from inferometer_serving.profile.onnx_events import RunEvents, events_by_run, layer_key

_RESOLUTION_NS = 1000
"""ONNX Runtime writes whole microseconds, rounded down."""


@dataclass(slots=True)
class _Kernel:
    layer: int | None
    executions: list[GpuActivity] = field(default_factory=list)
    launch: Launch | None = None
    run_start_ns: int = 0


@dataclass(frozen=True, slots=True)
class _Span:
    layer: int
    thread: int | None
    start_ns: int
    end_ns: int


def kernels_of(
    events: Sequence[Mapping[str, Any]], runs: int, trace: GpuTrace
) -> tuple[tuple[KernelTimes, ...], tuple[str, ...]]:
    """Return the kernels of the last `runs` runs, and notes on what the trace does not cover.

    Raises ValueError if the profile of the layers has fewer runs, or none contains a launch.
    """
    engine = _to_ours(
        trace.before.engine_ns, trace.before.ours_ns, trace.after.engine_ns, trace.after.ours_ns
    )
    cupti = _to_ours(
        trace.before.cupti_ns, trace.before.ours_ns, trace.after.cupti_ns, trace.after.ours_ns
    )
    by_correlation: dict[int, list[GpuActivity]] = {}
    for execution in trace.executions:
        by_correlation.setdefault(execution.correlation, []).append(execution)
    launches = sorted(
        (each for each in trace.launches if each.correlation in by_correlation),
        key=lambda each: each.start_ns,
    )

    def ours(engine_us: int) -> int:
        return engine(trace.profile_start_ns + engine_us * 1000)

    index: dict[tuple[str, str], int] = {}
    found: dict[tuple[object, ...], _Kernel] = {}
    at, matched = 0, 0
    for run in events_by_run(events, runs):
        start_ns, end_ns = ours(run.start_us), ours(run.end_us) + _RESOLUTION_NS
        spans = list(_spans(run, index, ours))
        while at < len(launches) and cupti(launches[at].start_ns) < start_ns:
            at += 1
        ordinals: dict[tuple[object, ...], int] = {}
        for launch, layer in _with_layers(launches[at:], spans, cupti, end_ns):
            at += 1
            for execution in by_correlation[launch.correlation]:
                matched += 1
                same = (layer, execution.kind, execution.name, execution.stream)
                ordinals[same] = ordinals.get(same, 0) + 1
                kernel = found.setdefault((*same, ordinals[same]), _Kernel(layer))
                kernel.executions.append(execution)
                kernel.launch, kernel.run_start_ns = launch, start_ns
    if not matched:
        raise ValueError("no kernel was launched within the runs")
    kernels = tuple(
        _times(number, kernel, trace, cupti) for number, kernel in enumerate(found.values())
    )
    return kernels, tuple(_notes(kernels, trace, len(launches), by_correlation))


class _ToOurs:
    """Maps another clock to this process's, by two readings of both."""

    def __init__(self, theirs_ns: int, ours_ns: int, rate: float) -> None:
        self._theirs_ns = theirs_ns
        self._ours_ns = ours_ns
        self._rate = rate

    def __call__(self, theirs_ns: int) -> int:
        return self._ours_ns + round((theirs_ns - self._theirs_ns) * self._rate)


def _to_ours(first_ns: int, first_ours_ns: int, last_ns: int, last_ours_ns: int) -> _ToOurs:
    if last_ns <= first_ns:
        raise ValueError("a clock stepped back while the kernels were recorded")
    return _ToOurs(first_ns, first_ours_ns, (last_ours_ns - first_ours_ns) / (last_ns - first_ns))


def _spans(
    run: RunEvents, index: dict[tuple[str, str], int], ours: Callable[[int], int]
) -> Iterator[_Span]:
    for event in run.nodes:
        layer = index.setdefault(layer_key(event), len(index))
        start_us, thread = int(event["ts"]), event.get("tid")
        end_ns = ours(start_us + int(event["dur"])) + _RESOLUTION_NS
        yield _Span(layer, thread, ours(start_us), end_ns)


def _with_layers(
    launches: Iterable[Launch], spans: Sequence[_Span], cupti: _ToOurs, end_ns: int
) -> Iterator[tuple[Launch, int | None]]:
    """Yield the launches until the end of a run, each with the innermost layer around it."""
    open_spans: list[_Span] = []
    at = 0
    for launch in launches:
        start, end = cupti(launch.start_ns), cupti(launch.end_ns)
        if start > end_ns:
            return
        while at < len(spans) and spans[at].start_ns <= start:
            open_spans.append(spans[at])
            at += 1
        open_spans = [each for each in open_spans if each.end_ns >= start]
        around = [
            each
            for each in open_spans
            if end <= each.end_ns and each.thread in (None, launch.thread)
        ]
        yield launch, around[-1].layer if around else None


def _times(number: int, kernel: _Kernel, trace: GpuTrace, cupti: _ToOurs) -> KernelTimes:
    last, launch = kernel.executions[-1], kernel.launch
    assert launch is not None  # noqa: S101 - set with the first execution
    begin, launched = cupti(last.start_ns), cupti(launch.start_ns)
    threads = 1
    for each in last.block or ():
        threads *= each
    occupancy = None
    if trace.multiprocessor is not None and last.block is not None:
        occupancy = trace.multiprocessor.occupancy(
            threads, last.registers, last.shared_bytes, last.shared_capacity_bytes
        )
    return KernelTimes(
        index=number,
        layer=kernel.layer,
        execution=last,
        occupancy=occupancy,
        launch_start_ns=max(0, launched - kernel.run_start_ns),
        launch_ns=cupti(launch.end_ns) - launched,
        start_ns=max(0, begin - kernel.run_start_ns),
        durations_ns=tuple(each.end_ns - each.start_ns for each in kernel.executions),
    )


def _notes(
    kernels: Sequence[KernelTimes],
    trace: GpuTrace,
    launched: int,
    by_correlation: Mapping[int, Sequence[GpuActivity]],
) -> Iterator[str]:
    uncertainty = max(trace.before.uncertainty_ns, trace.after.uncertainty_ns)
    yield (
        f"The clocks of the engine and of CUPTI were read to {uncertainty / 1000:.2f} µs; the "
        "layers' spans are whole microseconds."
    )
    lost = len(by_correlation) - launched
    if lost:
        yield f"{lost} activities of the GPU have no launch: they are left out."
    if trace.dropped:
        yield f"CUPTI dropped {trace.dropped} records."
    if any(each.execution.is_in_graph for each in kernels):
        yield "CUDA graphs launch some kernels together: these have the layer of their graph."
    ordered = sorted(kernels, key=lambda each: each.start_ns)
    if any(
        first.start_ns + first.durations_ns[-1] > second.start_ns
        for first, second in pairwise(ordered)
    ):
        yield "Kernels overlap on several streams: their durations sum to more than their time."
