"""The lower bounds of a model, next to its measured latencies, as figures and as sentences."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from inferometer_analysis.bound import (
    Bound,
    best_timings,
    has_roofline,
    is_wrong,
    lower_bound,
    roofline_bound,
    shows_kernel,
)
from inferometer_analysis.layer_work import GraphLayer, graph_layers
from inferometer_analysis.samples import Interval, median_interval
from inferometer_api.layers.graph import LayerGraph
from inferometer_api.layers.timings import KernelTiming, LayerTimings, MachineState
from inferometer_api.layers.variants import named_variant
from inferometer_api.nodes.characteristics import NodeCharacteristics
from inferometer_api.nodes.peaks import NodePeak, bandwidth_peak, product_peak
from inferometer_api.wording import counted
from inferometer_results.layers.slowness import slow_sentence, slowdown
from inferometer_results.quantity import spread_percent

_MOST_NAMED = 10
_DEFAULT = "Default"
_OPTION_WORDS = {"CudaGraph": "as one CUDA graph", "ChannelsLast": "channels last"}


@dataclass(frozen=True, slots=True)
class NoiseFloor:
    """How far apart equal measurements lay."""

    empty_kernel_ns: int = 0
    """The duration of an empty kernel on a GPU; 0 on a CPU."""
    reference_ns: int = 0
    """How long the same matrix product took in the rounds of the measurement, on a CPU; 0 if it was
    not timed."""
    reference_spread: float | None = None
    """The distance of the quartiles of the product, as a share."""
    layer_spread: float | None = None
    """The same of the timings that the bound joins: the median over them."""

    @property
    def words(self) -> str:
        """The floor in a sentence; empty if nothing is known of it."""
        if self.empty_kernel_ns:
            first = f"an empty kernel takes {self.empty_kernel_ns / 1e3:.2f} µs"
        elif self.reference_ns and self.reference_spread is not None:
            first = (
                f"the quartiles of a matrix product of {_milliseconds(self.reference_ns)} in the "
                f"same rounds are {spread_percent(self.reference_spread)} apart"
            )
        else:
            first = ""
        second = (
            f"the quartiles of a layer's timing are {spread_percent(self.layer_spread)} apart in "
            "the median"
            if self.layer_spread is not None
            else ""
        )
        found = ", ".join(each for each in (first, second) if each)
        return f"Noise floor: {found}." if found else ""


@dataclass(frozen=True, slots=True)
class BoundReport:
    """What the layer database says about the best latency of a model."""

    model: str
    precision: str
    bound: Bound
    roofline_ns: float | None
    """None if the peaks of the machine were not measured."""
    measured: Mapping[str, Interval]
    """Measured latencies of this precision in ns, by the name of the variant."""
    machine: MachineState
    arithmetic: NodePeak
    """Operations per second of the roofline."""
    bandwidth: NodePeak
    """Bytes per second of the roofline."""
    failures: tuple[str, ...]
    """Layers that an engine could not run alone, one sentence each."""
    others: Mapping[str, str] = field(default_factory=dict)
    """The effective precision of each variant that computed in another one than the bound's."""
    disturbed: Mapping[str, int] = field(default_factory=dict)
    """How many rounds of a variant other processes disturbed throughout, by its name."""
    rounds: int = 0
    """Of each variant."""
    busy: Mapping[str, float] = field(default_factory=dict)
    """How long a GPU works for one inference, in ns, by the name of the variant."""
    floor: NoiseFloor = field(default_factory=NoiseFloor)
    slowdown: float = 0.0
    """By which share the machine was slower than when the fastest of its layers were timed."""
    kernels_ns: float = 0.0
    """The sequential bound with the fastest kernel of each layer in place of a timing of 0 ns."""
    without_kernel_by: tuple[str, ...] = ()
    """The engines whose timings of 0 ns the bound takes."""
    without_roofline: Mapping[str, int] = field(default_factory=dict)
    """How many layers of an operator the roofline takes for free."""

    @property
    def fastest(self) -> Interval | None:
        """The fastest measured latency."""
        return min(self.measured.values(), key=lambda each: each.value, default=None)

    @property
    def is_wrong(self) -> bool:
        """Whether the bound lies above the fastest measured latency, beyond its interval."""
        return bool(self.bound.covered) and self._is_above(self.bound.sequential_ns)

    @property
    def is_roofline_wrong(self) -> bool:
        """Whether the roofline lies above it."""
        return self.roofline_ns is not None and self._is_above(self.roofline_ns)

    def _is_above(self, bound_ns: float) -> bool:
        fastest = self.fastest
        return fastest is not None and is_wrong(bound_ns, fastest)


def bound_report(
    model: str,
    precision: str,
    graph: LayerGraph,
    known: LayerTimings | None,
    measured: LayerTimings,
    node: Sequence[NodeCharacteristics] = (),
) -> BoundReport:
    """Return the bounds of a graph from the known timings, next to the `measured` variants.

    `node` are measurements of this machine. Each peak of the roofline is the highest of them and of
    what the measurement itself found: one on a busy machine would make the roofline no bound.
    """
    layers = graph_layers(graph)
    timings = (*(() if known is None else known.kernels), *measured.kernels)
    machine = measured.machine
    variants = {
        name: each for name, each in measured.variants.items() if _has_bound(name, machine.threads)
    }
    flops = machine.peak_flops(precision)
    best = best_timings(timings, precision)
    has_peaks = flops > 0 and machine.copy_bytes_per_second > 0
    kernels = best_timings(filter(shows_kernel, timings), precision)
    bound = lower_bound(layers, best)
    arithmetic = _higher(flops, product_peak(node, precision, machine))
    bandwidth = _higher(machine.copy_bytes_per_second, bandwidth_peak(node, machine))
    return BoundReport(
        model=model,
        precision=precision,
        bound=bound,
        roofline_ns=roofline_bound(layers, arithmetic.rate, bandwidth.rate) if has_peaks else None,
        measured={
            name: median_interval(each.nanoseconds)
            for name, each in variants.items()
            if each.precision in ("", precision) and each.nanoseconds
        },
        machine=machine,
        arithmetic=arithmetic,
        bandwidth=bandwidth,
        failures=tuple(_failures(layers, measured)),
        others={
            name: each.precision
            for name, each in variants.items()
            if each.precision not in ("", precision)
        },
        disturbed={name: each.disturbed_rounds for name, each in measured.variants.items()},
        rounds=max((len(each.nanoseconds) for each in measured.variants.values()), default=0),
        busy={
            name: each.busy_nanoseconds
            for name, each in measured.variants.items()
            if each.busy_nanoseconds is not None
        },
        floor=_floor(measured, [best[each.key] for each in layers if each.key in best]),
        slowdown=slowdown(measured, known),
        kernels_ns=lower_bound(layers, best | kernels).sequential_ns,
        without_roofline=operator_counts(
            each for each in layers if not each.is_view and not has_roofline(each)
        ),
        without_kernel_by=tuple(sorted({best[each.key].engine for each in bound.without_kernel})),
    )


def _has_bound(name: str, threads: int) -> bool:
    """Say whether the bound holds for a variant: it has these layers, and this many threads."""
    variant = named_variant(name)
    return variant is None or (variant.threads == threads and not variant.rewriting)


def _floor(measured: LayerTimings, timings: Sequence[KernelTiming]) -> NoiseFloor:
    spreads = [
        each.spread_nanoseconds / each.nanoseconds
        for each in timings
        if each.spread_nanoseconds is not None and each.nanoseconds > 0
    ]
    return NoiseFloor(
        empty_kernel_ns=measured.node_nanoseconds if measured.machine.device == "GPU" else 0,
        reference_ns=measured.reference_nanoseconds,
        reference_spread=measured.reference_spread,
        layer_spread=median(spreads) if spreads else None,
    )


def _higher(rate: float, known: NodePeak | None) -> NodePeak:
    return known if known is not None and known.rate > rate else NodePeak(rate, "")


def _failures(layers: list[GraphLayer], measured: LayerTimings) -> Iterator[str]:
    """Yield what could not be measured. Where there is advice, that names the variants."""
    names = {each.key: each.name for each in reversed(layers)}
    for each in measured.failed:
        if each.key in names:
            yield f"{names[each.key]} cannot run alone on {each.engine}: {each.reason}"
        elif not measured.present and _has_bound(each.key, measured.machine.threads):
            yield f"{each.key} was not measured: {each.reason}"


def bound_document(report: BoundReport) -> dict[str, Any]:
    """Return a report as JSON."""
    bound = report.bound
    return {
        "model": report.model,
        "precision": report.precision,
        "sequentialNanoseconds": round(bound.sequential_ns),
        "sequentialLowNanoseconds": _rounded(bound.sequential.low),
        "sequentialHighNanoseconds": _rounded(bound.sequential.high),
        "criticalPathNanoseconds": round(bound.critical_path_ns),
        "rooflineNanoseconds": _rounded(report.roofline_ns),
        "rooflineWrong": report.is_roofline_wrong,
        "layersWithoutRoofline": dict(report.without_roofline),
        "coverage": round(bound.coverage, 4),
        "layers": bound.layers,
        "layersByEngine": dict(bound.by_engine),
        "layersWithoutKernel": operator_counts(bound.without_kernel),
        "kernelsNanoseconds": round(report.kernels_ns),
        "missing": [
            {"name": each.name, "operator": each.operator, "reason": each.why_not}
            for each in bound.missing
        ],
        "failures": list(report.failures),
        "measured": {
            name: {
                **_interval(each),
                "disturbedRounds": report.disturbed.get(name, 0),
                "busyNanoseconds": report.busy.get(name),
            }
            for name, each in report.measured.items()
        },
        "boundIsWrong": report.is_wrong,
        "slowdown": report.slowdown,
        "noiseFloor": {
            "emptyKernelNanoseconds": report.floor.empty_kernel_ns or None,
            "referenceNanoseconds": report.floor.reference_ns or None,
            "referenceSpread": report.floor.reference_spread,
            "layerSpread": report.floor.layer_spread,
        },
        "flopsPerSecond": report.arithmetic.rate,
        "bytesPerSecond": report.bandwidth.rate,
        "sentences": list(bound_sentences(report)),
    }


def _interval(found: Interval) -> dict[str, int | None]:
    return {
        "nanoseconds": round(found.value),
        "lowNanoseconds": _rounded(found.low),
        "highNanoseconds": _rounded(found.high),
    }


def _rounded(value: float | None) -> int | None:
    return None if value is None else round(value)


def bound_sentences(report: BoundReport, *, advises_fill: bool = True) -> Iterator[str]:
    """Yield what a report shows: coverage, bounds, measured latencies, and what is missing."""
    bound = report.bound
    yield (
        f"Coverage: {100 * bound.coverage:.1f} % ({bound.covered} of {bound.layers} layers that "
        "take time have a timing)."
    )
    if bound.covered:
        share = ", ".join(f"{count} by {name}" for name, count in bound.by_engine.items()) or "none"
        yield (
            f"Sequential bound: {_milliseconds(bound.sequential_ns)} "
            f"({_ends(bound.sequential)}fastest layers: {share})."
        )
        yield from _free_sentences(report)
        yield f"Critical path: {_milliseconds(bound.critical_path_ns)}."
    if report.roofline_ns is not None:
        yield (
            f"Roofline: {_milliseconds(report.roofline_ns)} at "
            f"{report.arithmetic.rate / 1e9:.1f} GFLOP/s and {report.bandwidth.rate / 1e9:.1f} "
            f"GB/s, as measured {_when(report)}."
        )
        if free := report.without_roofline:
            yield (
                f"Free in the roofline: {counted(sum(free.values()), 'layer')} "
                f"({operator_words(free)}), whose work is not known."
            )
    yield from _measured_sentences(report)
    yield from _missing_sentences(bound)
    if advises_fill and any(not each.why_not for each in bound.missing):
        yield "Missing layers count as free. To benchmark them, add --fill."
    yield from report.failures[:_MOST_NAMED]


def operator_counts(layers: Iterable[GraphLayer]) -> dict[str, int]:
    """Return how many layers there are of each operator, the most frequent first."""
    return dict(Counter(each.operator for each in layers).most_common())


def operator_words(counts: Mapping[str, int]) -> str:
    """Return "2 Loop, 1 If"."""
    return ", ".join(f"{count} {name}" for name, count in counts.items())


def _free_sentences(report: BoundReport) -> Iterator[str]:
    """Yield which layers with a timing count as free, and what the bound is if they do not."""
    free = report.bound.without_kernel
    if not free:
        return
    engines = " and ".join(report.without_kernel_by)
    yield (
        f"Free in it: {counted(len(free), 'layer')} ({operator_words(operator_counts(free))}), "
        f"for which {engines} reports 0 ns: run in place, or too short for its counters."
    )
    if round(report.kernels_ns) != round(report.bound.sequential_ns):
        yield (
            "With the fastest timing above 0 of each, the sequential bound is "
            f"{_milliseconds(report.kernels_ns)}."
        )


def _when(report: BoundReport) -> str:
    """Return when the peaks were measured: "here", or "by `inferometer node` on 2026-01-01"."""
    days = {"arithmetic": report.arithmetic.day, "bandwidth": report.bandwidth.day}
    known = {name: day for name, day in days.items() if day}
    if not known:
        return "here"
    if len(known) == 1:
        ((name, day),) = known.items()
        return f"here, the {name} by `inferometer node` on {day}"
    first, second = known.values()
    return f"by `inferometer node` on {first}" + (f" and {second}" if second != first else "")


def _measured_sentences(report: BoundReport) -> Iterator[str]:
    for name, each in report.measured.items():
        share = 100 * report.bound.sequential_ns / each.value
        words = f"; the bound is {share:.0f} % of it" if report.bound.covered else ""
        yield (
            f"Measured on {variant_words(name, report.machine.device)}: "
            f"{_milliseconds(each.value)}{words}."
        )
        if name in report.busy:
            yield f"  The GPU works for {_milliseconds(report.busy[name])} of it."
    if report.floor.words and report.measured:
        yield report.floor.words
    if report.machine.device == "GPU" and report.measured:
        yield "Transfers of inputs and outputs are part of no figure."
    for name, effective in report.others.items():
        yield (
            f"Not compared: {variant_words(name, report.machine.device)}. It computed in "
            f"{effective}, and the bound is of {report.precision}."
        )
    most = max(report.disturbed.values(), default=0)
    if most > report.rounds / 2:
        yield (
            f"The machine was busy: in {most} of {report.rounds} rounds other processes took the "
            "CPU during every inference. The latency is too high, and the bound seems too low. "
            "Measure again on a quiet machine."
        )
    if slow := slow_sentence(report.slowdown):
        yield f"{slow} Next to the bound, the latency is too long by about as much. Measure again."
    if report.is_wrong:
        yield (
            "Bound wrong: it lies above the fastest measured latency. Its layers take longer alone "
            "than within the model."
        )
    if report.is_roofline_wrong:
        yield (
            "Roofline wrong: it lies above the fastest measured latency. The peaks were measured "
            "too low, as on a busy machine, or kernels multiply less than layers define (Winograd)."
        )


def variant_words(name: str, device: str) -> str:
    """Return "onnxruntime, FP32, 1 thread" for onnxruntime:FP32:1; a GPU has no threads."""
    engine, precision, threads, *others = name.split(":")
    words = [engine] if precision == _DEFAULT else [engine, precision]
    if device == "CPU":
        words.append(counted(int(threads), "thread"))
    return ", ".join((*words, *(_OPTION_WORDS.get(each, each) for each in others)))


def _ends(found: Interval) -> str:
    if found.low is None or found.high is None:
        return ""
    return f"95 %: {found.low / 1e6:.3f} to {found.high / 1e6:.3f}; "


def _missing_sentences(bound: Bound) -> Iterator[str]:
    for each in bound.missing[:_MOST_NAMED]:
        yield f"Missing: {each.name} ({each.operator}). {each.why_not}".rstrip()
    left = len(bound.missing) - _MOST_NAMED
    if left > 0:
        yield f"... and {left} more."


def _milliseconds(nanoseconds: float) -> str:
    return f"{nanoseconds / 1e6:.3f} ms"
