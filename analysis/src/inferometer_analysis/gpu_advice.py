"""Advice on a model on a GPU: algorithms (Q3), idle gaps (Q4) and tensor cores (Q6) of Benanza."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import hypot
from statistics import median

from inferometer_analysis.advice import Advice, Evidence, MeasuredVariant, advise, listed
from inferometer_analysis.bound import Bound, best_timings, lower_bound, timing_interval
from inferometer_analysis.layer_work import GraphLayer, graph_layers
from inferometer_analysis.samples import Interval, minus, rest, share, spread_interval
from inferometer_api.layers.graph import LayerGraph
from inferometer_api.layers.timings import KernelTiming

_MOST_NAMED = 3
_LEAST_GAIN = 0.01
"""Smaller gains are no advice."""
_NO_CHOICE = (
    "ONNX Runtime chooses the algorithms of cuDNN and cuBLAS itself, and no setting takes another "
    "for one layer."
)
_OWN_KERNELS = "matrix-units"
_NO_SUMS = "No engine has kernels on matrix units for sums: a custom operator would call them."
_NO_GRAPH = "Tried and not faster beyond noise: as one CUDA graph."
_NOT_MEASURED = "No variant without them was measured."


@dataclass(frozen=True, slots=True)
class GpuTimings:
    """What was timed of one model in one precision on a GPU."""

    precision: str
    graph: LayerGraph
    kernels: Sequence[KernelTiming]
    busy_ns: float | None = None
    """How long the GPU works for one inference of the present variant."""
    busy_spread_ns: float | None = None
    """The distance of the quartiles of that."""

    @property
    def bound(self) -> Bound:
        """The lower bounds of the model."""
        return lower_bound(graph_layers(self.graph), best_timings(self.kernels, self.precision))


@dataclass(frozen=True, slots=True)
class GpuEvidence:
    """What a GPU adds to the evidence."""

    layers: Sequence[GraphLayer]
    own: Mapping[str, KernelTiming]
    """The present engine's timings in the present precision, by layer."""
    best: Mapping[str, KernelTiming]
    """The fastest timings in this precision, by layer."""
    busy_ns: float | None = None
    """How long the GPU works for one inference of the present variant."""
    lower_bounds: Mapping[str, Bound] = field(default_factory=dict)
    """The bounds of the model in other precisions."""
    busy_spread_ns: float | None = None
    """The distance of the quartiles of `busy_ns`."""


def gpu_evidence(
    measured: Sequence[MeasuredVariant], present: GpuTimings, others: Sequence[GpuTimings] = ()
) -> tuple[Evidence, GpuEvidence]:
    """Return the evidence of variants, the present one first, and of timings of layers.

    `present` are the timings in the present precision, `others` those in lower ones.
    """
    layers = [each for each in graph_layers(present.graph) if not each.is_view]
    own = best_timings(
        (each for each in present.kernels if each.engine == measured[0].engine), present.precision
    )
    by_operator: dict[str, list[Interval]] = {}
    for layer in layers:
        if layer.key in own:
            by_operator.setdefault(layer.operator, []).append(timing_interval(own[layer.key]))
    evidence = Evidence(
        present=measured[0],
        others=tuple(measured[1:]),
        bound=present.bound,
        layer_times=by_operator,
    )
    return evidence, GpuEvidence(
        layers=layers,
        own=own,
        best=best_timings(present.kernels, present.precision),
        busy_ns=present.busy_ns,
        busy_spread_ns=present.busy_spread_ns,
        lower_bounds={each.precision: each.bound for each in others},
    )


def advise_on_gpu(evidence: Evidence, gpu: GpuEvidence) -> list[Advice]:
    """Return all advice on a model on a GPU, by question.

    Questions that a faster variant answers have no advice from timings of layers.
    """
    found = advise(evidence)
    answered = {each.question for each in found if not each.why_not}
    now = median(evidence.present.nanoseconds)
    predicted = (
        *_faster_algorithms(gpu, now),
        *_idle_gaps(evidence, gpu),
        *_tensor_cores(evidence, gpu),
    )
    found += (each for each in predicted if each.question not in answered)
    return listed(found, evidence)


def _faster_algorithms(gpu: GpuEvidence, now: float) -> Iterator[Advice]:
    """Yield what other algorithms of the same precision save, if they are faster beyond noise."""
    savings = [
        (layer, own, best)
        for layer in gpu.layers
        if (own := gpu.own.get(layer.key)) is not None
        and (best := gpu.best[layer.key]).nanoseconds + _noise(own, best) < own.nanoseconds
    ]
    saved = sum(own.nanoseconds - best.nanoseconds for _, own, best in savings)
    if saved <= _LEAST_GAIN * now:
        return
    largest = sorted(savings, key=lambda each: each[2].nanoseconds - each[1].nanoseconds)
    named = "; ".join(_choice(*each) for each in largest[:_MOST_NAMED])
    is_sum = {best.engine == _OWN_KERNELS for _, _, best in savings}
    reasons = [words for words, each in ((_NO_CHOICE, False), (_NO_SUMS, True)) if each in is_sum]
    noise = hypot(*(_noise(own, best) for _, own, best in savings))
    yield Advice(
        "Q3",
        f"{len(savings)} layers have a faster algorithm, which saves {saved / 1e6:.3f} ms: "
        f"{named}.",
        Interval(saved / now, (saved - noise) / now, (saved + noise) / now),
        why_not=" ".join(reasons),
    )


def _noise(own: KernelTiming, best: KernelTiming) -> float:
    return hypot(own.spread_nanoseconds or 0.0, best.spread_nanoseconds or 0.0)


def _choice(layer: GraphLayer, own: KernelTiming, best: KernelTiming) -> str:
    how = f"{best.engine} {best.algorithm}".rstrip()
    return (
        f"{layer.name} ({layer.operator}) by {how} in {best.nanoseconds / 1e3:.1f} instead of "
        f"{own.nanoseconds / 1e3:.1f} µs"
    )


def _idle_gaps(evidence: Evidence, gpu: GpuEvidence) -> Iterator[Advice]:
    """Yield how long the GPU waits during an inference for launches and for the call."""
    now = median(evidence.present.nanoseconds)
    if gpu.busy_ns is None or now - gpu.busy_ns <= _LEAST_GAIN * now:
        return
    idle = now - gpu.busy_ns
    yield Advice(
        "Q4",
        f"The GPU has nothing to do for {idle / 1e6:.3f} of {now / 1e6:.3f} ms: it waits for "
        "launches of kernels and for the call itself.",
        rest(share(spread_interval(gpu.busy_ns, gpu.busy_spread_ns), evidence.present.latency)),
        why_not=_NO_GRAPH if _has_graph(evidence) else _NOT_MEASURED,
    )


def _has_graph(evidence: Evidence) -> bool:
    return any(each.provider_option == "CudaGraph" for each in evidence.others)


def _tensor_cores(evidence: Evidence, gpu: GpuEvidence) -> Iterator[Advice]:
    """Yield what tensor cores in a lower precision save, by the bounds of both."""
    now = median(evidence.present.nanoseconds)
    matrices = [
        (layer, gpu.own[layer.key])
        for layer in gpu.layers
        if layer.key in gpu.own and gpu.own[layer.key].precision
    ]
    without = [(layer, own) for layer, own in matrices if not own.uses_tensor_cores]
    unused_ns = sum(own.nanoseconds for _, own in without)
    words = (
        f"{len(without)} of {len(matrices)} layers that multiply matrices run without tensor cores "
        f"({unused_ns / 1e6:.3f} ms)"
    )
    if evidence.bound is None:
        return
    for precision, lower in gpu.lower_bounds.items():
        saved = evidence.bound.sequential_ns - lower.sequential_ns
        if saved > _LEAST_GAIN * now:
            yield Advice(
                "Q6",
                f"{words}; in {precision} the bound is {lower.sequential_ns / 1e6:.3f} instead of "
                f"{evidence.bound.sequential_ns / 1e6:.3f} ms.",
                share(minus(evidence.bound.sequential, lower.sequential), evidence.present.latency),
                why_not=_why_not_lower(evidence, precision),
            )


def _why_not_lower(evidence: Evidence, precision: str) -> str:
    if any(each.precision == precision for each in evidence.others):
        return f"Tried and not faster beyond noise: the model in {precision}."
    return f"The model in {precision} was not measured."
