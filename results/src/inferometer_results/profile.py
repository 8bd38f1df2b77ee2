"""The profiles in a result, as rows of XSP's analyses A1 to A7 and of the engine's kernels."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from statistics import median

from inferometer_analysis.layers import (
    ProfiledLayer,
    TypeRow,
    layer_types,
    outermost,
    thirds,
)
from inferometer_analysis.models import (
    ModelRow,
    batch_at_knee,
    batch_of_maximum,
    model_information,
)
from inferometer_analysis.samples import (
    Interval,
    difference,
    median_interval,
    next_interval,
    trimmed_mean,
)
from inferometer_api.results.result import ResultDocument, ScenarioResult, Step, StepProfile
from inferometer_api.scenarios.table import PROFILED

_FEWEST_OPENINGS = 3


@dataclass(frozen=True, slots=True)
class ProfiledStep:
    """One profiled step, with the result that it belongs to."""

    scenario: ScenarioResult
    step: Step
    profile: StepProfile

    @property
    def name(self) -> str:
        """The scenario and the step."""
        return f"{self.scenario.name}, {self.step.label}"


def is_profiled(kinds: Iterable[str]) -> bool:
    """Return whether a run with scenarios of these kinds is profiled, so that it is no baseline."""
    return not PROFILED.isdisjoint(kinds)


def profiled_steps(document: ResultDocument) -> Iterator[ProfiledStep]:
    """Yield the steps with a profile, in their order."""
    for scenario in document.scenarios:
        yield from steps_of(scenario)


def steps_of(scenario: ScenarioResult) -> list[ProfiledStep]:
    """Return the steps of a scenario with a profile."""
    return [
        ProfiledStep(scenario, step, step.profile)
        for step in scenario.steps
        if step.profile is not None
    ]


def layers_of(profile: StepProfile) -> list[ProfiledLayer]:
    """Return the layers as the analyses take them."""
    return [
        ProfiledLayer(
            index=each.index,
            name=each.name,
            operator=each.operator,
            shape=tuple(each.shape),
            durations_ns=tuple(each.durations_nanoseconds),
            output_bytes=each.output_bytes,
            kernel=each.kernel,
            provider=each.provider,
            datatype=each.datatype,
            outer=each.outer,
        )
        for each in profile.layers
    ]


def models_of(steps: Sequence[ProfiledStep]) -> list[ModelRow]:
    """Return A1: the model at each batch size, by the trimmed mean of runs without a profiler."""
    return model_information(
        {
            each.step.batch_size: trimmed_mean(each.profile.model_nanoseconds)
            for each in steps
            if each.profile.model_nanoseconds
        }
    )


def overhead_of(profile: StepProfile) -> Interval | None:
    """Return what the profiler of the layers adds to an inference, in ns, by paired rounds.

    The interval is that in which sessions opened once more lie with 95 %; if sessions were opened
    fewer than three times, that of the rounds of these.
    """
    if not profile.profiled_nanoseconds:
        return None
    if not _has_openings(profile):
        return difference(profile.profiled_nanoseconds, profile.model_nanoseconds)
    profiled, plain = iter(profile.profiled_nanoseconds), iter(profile.model_nanoseconds)
    return next_interval(
        [
            difference(list(islice(profiled, runs)), list(islice(plain, runs))).value
            for runs in profile.opening_iterations
        ]
    )


def _has_openings(profile: StepProfile) -> bool:
    return len(profile.opening_iterations) >= _FEWEST_OPENINGS


def layers_share(profile: StepProfile) -> float:
    """Return the layers' part of an inference: the median over runs, or that of the means."""
    layers = outermost(layers_of(profile))
    runs = profile.profiled_nanoseconds
    if not layers or not runs:
        return 0.0
    if all(len(layer.durations_ns) == len(runs) for layer in layers):
        sums = map(sum, zip(*(layer.durations_ns for layer in layers), strict=True))
        return median(part / whole for part, whole in zip(sums, runs, strict=True))
    return sum(layer.latency_ns for layer in layers) / trimmed_mean(runs)


def sentences_of(each: ProfiledStep) -> Iterator[str]:
    """Yield what a profile shows in sentences: model, overhead, gaps, and what is missing."""
    profile = each.profile
    for level, why in profile.unavailable.items():
        yield f"{level} level is unavailable: {why}"
    if profile.model_nanoseconds:
        yield f"An inference takes {_milliseconds(median_interval(profile.model_nanoseconds))}."
    overhead = overhead_of(profile)
    if overhead is not None:
        waiting = " and the wait for each kernel add" if profile.gpu is not None else " adds"
        share = "95 % of further openings" if _has_openings(profile) else "95 %"
        yield f"The profiler of the layers{waiting} {_milliseconds(overhead, share)}."
        if profile.kernel_profiled_nanoseconds:
            deeper = difference(profile.kernel_profiled_nanoseconds, profile.model_nanoseconds)
            yield f"The profilers of layers and kernels together add {_milliseconds(deeper)}."
        layers = layers_of(profile)
        if not layers:
            if "Layer" not in profile.unavailable:
                yield "The model has no layer that takes time."
            yield from profile.notes
            return
        total = sum(layer.latency_ns for layer in outermost(layers))
        yield (
            f"{_layers_take(len(layers))} {total / 1e6:.3f} ms: "
            f"{100 * total / median(profile.model_nanoseconds):.1f} % of an inference without the "
            f"profiler, and {100 * layers_share(profile):.1f} % of their own, in which the "
            "profiler writes between them."
        )
        begin, middle, end = thirds(layers, lambda layer: layer.latency_ns)
        if total:
            shares = ", ".join(f"{100 * part / total:.0f} %" for part in (begin, middle, end))
            yield f"By thirds of the layers: {shares} of their time."
    yield from profile.notes


def _layers_take(count: int) -> str:
    return "The only layer takes" if count == 1 else f"The {count:,} layers sum to"


def batch_sentence(steps: Sequence[ProfiledStep]) -> str:
    """Return the batch sizes of the highest throughput and of the knee; empty for one size."""
    rows = models_of(steps)
    if len(rows) < 2:
        return ""
    best, knee = batch_of_maximum(rows), batch_at_knee(rows)
    words = f"The throughput is highest at batch {best}"
    sizes = {row.batch_size for row in rows}
    if sizes.isdisjoint(2 * each for each in sizes):
        return f"{words}; no batch is twice another, so that a knee is not known."
    if knee is None:
        return f"{words}; every measured doubling of the batch adds more than 5 %."
    return f"{words}; doubling batch {knee} adds at most 5 %."


def type_rows(profile: StepProfile) -> list[TypeRow]:
    """Return A5, A6 and A7: the layers of each type together."""
    return layer_types(layers_of(profile))


def kernel_rows(profile: StepProfile) -> list[tuple[str, int, float, float]]:
    """Return A10 for the engine's kernels: name, layers, latency in ns, share of all layers."""
    layers = [layer for layer in outermost(layers_of(profile)) if layer.kernel]
    total = sum(layer.latency_ns for layer in layers)
    names = dict.fromkeys(layer.kernel for layer in layers)
    rows = [
        (name, len(group), latency, latency / total if total else 0.0)
        for name in names
        if (group := [layer for layer in layers if layer.kernel == name])
        for latency in (sum(layer.latency_ns for layer in group),)
    ]
    return sorted(rows, key=lambda row: -row[2])


def _milliseconds(found: Interval, share: str = "95 %") -> str:
    if found.low is None or found.high is None:
        return f"{found.value / 1e6:.3f} ms"
    bounds = f"{share}: {found.low / 1e6:.3f} to {found.high / 1e6:.3f}"
    return f"{found.value / 1e6:.3f} ms ({bounds})"
