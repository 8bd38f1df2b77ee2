"""Advice on a model by Benanza's questions Q1 to Q6, each with a predicted gain.

Where a variant was measured, the gain is the median over rounds, with its interval. Where it
follows from timings of layers, it is a share of the present latency N: that of the branches or of
some layers, P / N, or what the layers leave of it, 1 - P / N. N has the interval of its median over
rounds, and each timing with quartiles q apart that of a single round, ± 1.96 / 1.349 q. P adds up
the ends of its timings. The ends of the gain are P at one end by N at the other, which covers it
with at least 95 % whatever the errors have in common.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from inferometer_analysis.bound import Bound
from inferometer_analysis.samples import Interval, median_interval, rest, share, total
from inferometer_api.layers.variants import ProviderOption, Rewriting
from inferometer_api.wording import counted

Question = Literal["Q1", "Q2", "Q3", "Q4", "Q5", "Q6"]
TITLES: Mapping[Question, str] = {
    "Q1": "Ideal latency",
    "Q2": "Parallel execution",
    "Q3": "Choice of kernels",
    "Q4": "What the framework adds",
    "Q5": "Fusion that was missed",
    "Q6": "Lower precision",
}
_SMALLEST_APPLIED_GAIN = 0.03
"""Predictions miss what a served model gains by one or two points in the median: see
docs/performance.md. A smaller gain may be a loss."""
_TOO_SMALL = (
    f"It may be less than {100 * _SMALLEST_APPLIED_GAIN:g} %, which may be lost once the model is "
    "served."
)
_NOT_KEPT = "The rewritten model was not kept: `inferometer advise` writes it, and can try it."
_ONE_STREAM = (
    "ONNX Runtime runs the operators of one device one after the other, also if executionMode is "
    "Parallel."
)
_UNANSWERED = "Q1, Q4 and Q5 are not answered"
_FEW_ROUNDS = "too few rounds of the model were measured"
_NO_SPREAD = "timings in the database have no spread, of a single round or of an earlier version"
_ELEMENTWISE = frozenset(
    {"Add", "Clip", "Div", "Elu", "Erf", "HardSigmoid", "HardSwish", "LeakyRelu", "Mul", "Pow"}
    | {"Relu", "Sigmoid", "Softplus", "Sqrt", "Sub", "Tanh"}
)


_REWRITTEN: Mapping[Rewriting, str] = {
    "FixedShapes": "a model with fixed shapes",
    "Fused": "a model with fused operators",
}
_OPTIMISATION_ADVICE: Mapping[str, str] = {
    "All": "With all optimisations of ONNX Runtime an inference is faster.",
    "Extended": "With the optimisation Extended no layouts are converted.",
}
_OTHER_OPTIMISATION = "With another optimisation it is faster."
_OPTION_ADVICE: Mapping[ProviderOption, tuple[Question, str]] = {
    "": ("Q4", "Launched kernel by kernel, with channels first, an inference is faster."),
    "CudaGraph": ("Q4", "Launched as one CUDA graph, the kernels follow each other without gaps."),
    "ChannelsLast": ("Q3", "With channels last, convolutions have faster algorithms."),
}
_DEFAULTS: Mapping[str, str] = {
    "spec.server.precision": "Default",
    "spec.server.onnxRuntime.graphOptimization": "All",
}
"""Fields that a variant leaves out where they have this value."""
_FIELDS_OF: Mapping[str, tuple[str, ...]] = {
    "onnxruntime": ("spec.server.precision", "spec.server.onnxRuntime."),
    "openvino": ("spec.server.precision",),
}
"""The fields that an engine takes."""
_OWN = "spec.server.onnxRuntime"
"""The choices of ONNX Runtime alone."""
_LEAST_COVERAGE = 0.9
"""Of the layers that take time, from which a bound says something about the model."""
_BITS: Mapping[str, int] = {"FP32": 32, "TF32": 19, "BF16": 16, "FP16": 16, "INT8": 8}
_OPTION_FIELDS: Mapping[ProviderOption, str] = {
    "CudaGraph": "cudaGraph",
    "ChannelsLast": "channelsLast",
}


@dataclass(frozen=True, slots=True)
class MeasuredVariant:
    """One way to run the whole model, with its durations in rounds shared with the others."""

    engine: str
    precision: str
    """The effective one."""
    threads: int
    nanoseconds: tuple[int, ...]
    difference: float = 0.0
    """The largest difference of an output from the first variant's, in its deviations."""
    graph_optimization: str = "All"
    rewriting: Rewriting = ""
    model: str = ""
    """Address of the rewritten model; empty if it is the original, or was not kept."""
    device: Literal["CPU", "GPU"] = "CPU"
    provider_option: ProviderOption = ""

    @property
    def latency(self) -> Interval:
        """The median over rounds, with its interval."""
        return median_interval(self.nanoseconds)

    @property
    def settings(self) -> tuple[str, ...]:
        """The fields of a run that choose this variant, as PATH=VALUE."""
        found = self._of_gpu() if self.device == "GPU" else self._of_cpu()
        return tuple(f"{path}={value}" for path, value in found)

    def _of_gpu(self) -> list[tuple[str, str]]:
        found = [("spec.server.device", "GPU")]
        if self.provider_option:
            found.append(
                (f"spec.server.onnxRuntime.{_OPTION_FIELDS[self.provider_option]}", "true")
            )
        if self.precision == "FP32":
            found.append(("spec.server.onnxRuntime.tf32", "false"))
        if self.model:
            found.append(("spec.model.uri", self.model))
        return found

    def _of_cpu(self) -> list[tuple[str, str]]:
        is_openvino = self.engine == "openvino"
        found = [("spec.server.runtime", "OpenVino" if is_openvino else "OnnxRuntime")]
        found.append(("spec.server.threads", str(self.threads)))
        if self.graph_optimization != "All":
            path = "spec.server.onnxRuntime.graphOptimization"
            found.append((path, self.graph_optimization))
        if self.model:
            found.append(("spec.model.uri", self.model))
        elif is_openvino:
            found.append(("spec.server.precision", self.precision))
        return found


@dataclass(frozen=True, slots=True)
class Advice:
    """One piece of advice."""

    question: Question
    sentence: str
    gain: Interval
    """Predicted: the share of the present duration that would be saved."""
    settings: tuple[str, ...] = ()
    """Fields of the run that apply it, as PATH=VALUE."""
    why_not: str = ""
    """Why it cannot be applied by a setting; empty if it can."""
    why_no_interval: str = ""
    """Why the gain has no interval; empty if it has one."""

    @property
    def title(self) -> str:
        """The question in words."""
        return TITLES[self.question]


@dataclass(frozen=True, slots=True)
class Evidence:
    """What advice is drawn from."""

    present: MeasuredVariant
    others: tuple[MeasuredVariant, ...]
    bound: Bound | None = None
    own_kernels: Interval | None = None
    """The sum of the present engine's own timings of all layers; None if some are missing."""
    layer_times: Mapping[str, Sequence[Interval]] = field(default_factory=dict)
    """Timings of the present engine's layers by operator."""
    not_rewritten: Mapping[str, str] = field(default_factory=dict)
    """Why a rewriting could not be made, by its name."""


def advise(evidence: Evidence) -> list[Advice]:
    """Return all advice, by question.

    A variant that is not faster beyond noise is no advice. Q4 and Q5 follow from timings of layers
    as well: if none of their variants is faster, they are listed with that reason.
    """
    found = list(_variants(evidence))
    answered = {each.question for each in found}
    found += _bounds(evidence)
    found += (each for each in _framework(evidence) if each.question not in answered)
    return listed(found, evidence)


def notes(evidence: Evidence) -> list[str]:
    """Return which questions cannot be answered, and why, as sentences."""
    bound, present = evidence.bound, evidence.present
    now = present.latency.value
    found = []
    if bound is None:
        found.append(f"{_UNANSWERED}: no layers were timed in {present.precision}.")
    elif not bound.covered:
        found.append(f"{_UNANSWERED}: they follow from timings of layers.")
    elif bound.sequential_ns >= now:
        found.append(
            f"Q1 is not answered. Bound wrong: its layers take {bound.sequential_ns / 1e6:.3f} ms "
            f"alone, and the whole model {now / 1e6:.3f} ms."
        )
    elif not _is_ideal(bound):
        operators = ", ".join(sorted({each.operator for each in bound.missing}))
        found.append(
            f"Q1 is not answered: {counted(len(bound.missing), 'layer')} without a timing "
            f"({operators}) may take most of an inference."
        )
    return found


def listed(found: Iterable[Advice], evidence: Evidence) -> list[Advice]:
    """Return advice by question, and say of each gain without an interval why it has none."""
    is_short = evidence.present.latency.low is None
    reason = _FEW_ROUNDS if is_short else _NO_SPREAD
    explained = (
        replace(each, why_no_interval=reason) if each.gain.low is None else each for each in found
    )
    return sorted(explained, key=lambda advice: (advice.question, -advice.gain.value))


def paired_gain(before: Sequence[float], after: Sequence[float]) -> Interval:
    """Return the share of `before` that `after` saves: the median over rounds, with its bounds."""
    return median_interval([1 - b / a for a, b in zip(before, after, strict=True)])


def _is_ideal(bound: Bound) -> bool:
    """Return whether what the bound leaves out can be no more than a small part of the model."""
    return bound.coverage >= _LEAST_COVERAGE and not any(each.why_not for each in bound.missing)


def _bounds(evidence: Evidence) -> Iterator[Advice]:
    bound, present = evidence.bound, evidence.present
    if bound is None or not bound.covered:
        return
    now = present.latency
    coverage = f"{100 * bound.coverage:.0f} % of the layers"
    if bound.sequential_ns < now.value and _is_ideal(bound):
        yield Advice(
            "Q1",
            f"With the fastest known kernel for each layer, an inference takes "
            f"{bound.sequential_ns / 1e6:.3f} ms (timings cover {coverage}).",
            rest(share(bound.sequential, now)),
            why_not="It is a bound: no engine mixes the kernels of several.",
        )
    spared = bound.branches
    if spared.value > 0.01 * bound.sequential_ns:
        yield Advice(
            "Q2",
            f"Independent branches hold {spared.value / 1e6:.3f} ms of the sequential bound.",
            share(spared, now),
            why_not=_ONE_STREAM,
        )


def _variants(evidence: Evidence) -> Iterator[Advice]:
    present = evidence.present
    for other in evidence.others:
        gain = paired_gain(present.nanoseconds, other.nanoseconds)
        if gain.value <= 0 or (gain.low is not None and gain.low <= 0):
            continue
        question, words = _proposal(present, other)
        least = gain.value if gain.low is None else gain.low
        why_not = _TOO_SMALL if least < _SMALLEST_APPLIED_GAIN else ""
        if other.rewriting and not other.model:
            yield Advice(question, words, gain, why_not=why_not or _NOT_KEPT)
        else:
            yield Advice(question, words, gain, _changes(present, other), why_not)


def _changes(present: MeasuredVariant, other: MeasuredVariant) -> tuple[str, ...]:
    """Return the fields of a run that make the present variant the other one, as PATH=VALUE."""
    found = [each for each in other.settings if each not in present.settings]
    for path, default in _DEFAULTS.items():
        is_left_out = _has(present.settings, path) and not _has(other.settings, path)
        if is_left_out and path.startswith(_FIELDS_OF[other.engine]):
            found.append(f"{path}={default}")
    if other.engine == "openvino" and any(each.startswith(_OWN) for each in present.settings):
        found.append(f"{_OWN}=null")  # OpenVINO refuses them
    return tuple(found)


def _has(settings: Iterable[str], path: str) -> bool:
    return any(each.startswith(f"{path}=") for each in settings)


def _proposal(present: MeasuredVariant, other: MeasuredVariant) -> tuple[Question, str]:
    """Return the question that a variant answers, and the sentence."""
    if other.provider_option != present.provider_option and other.precision == present.precision:
        return _OPTION_ADVICE[other.provider_option]
    return _general_proposal(present, other)


def _general_proposal(present: MeasuredVariant, other: MeasuredVariant) -> tuple[Question, str]:
    engine = f" on {other.engine}" if other.engine != present.engine else ""
    differs = f"outputs differ by at most {other.difference:.2g} of their deviation"
    choices: tuple[tuple[bool, Question, str], ...] = (
        (other.rewriting == "INT8", "Q6", f"Static quantisation to INT8{engine}; {differs}."),
        (
            _changes_precision(present, other),
            "Q6",
            f"{other.engine} computes in {other.precision}; {differs}.",
        ),
        (
            other.rewriting == "Fused",
            "Q5",
            f"Operators that were left apart are fused in a rewritten model; {differs}.",
        ),
        (
            other.rewriting == "FixedShapes",
            "Q4",
            "With fixed shapes no layers compute shapes in each inference.",
        ),
        (
            other.engine == present.engine
            and other.graph_optimization != present.graph_optimization,
            "Q4",
            _OPTIMISATION_ADVICE.get(other.graph_optimization, _OTHER_OPTIMISATION),
        ),
        (
            other.threads != present.threads,
            "Q2",
            f"{other.threads} threads share the work within each layer{engine}.",
        ),
        (True, "Q3", f"{other.engine} has faster kernels."),
    )
    return next((question, words) for applies, question, words in choices if applies)


def _changes_precision(present: MeasuredVariant, other: MeasuredVariant) -> bool:
    """Say whether the precision is why a variant is faster: an engine with a higher one is not."""
    is_lower = _BITS.get(other.precision, 32) < _BITS.get(present.precision, 32)
    return other.precision != present.precision and (is_lower or other.engine == present.engine)


def _framework(evidence: Evidence) -> Iterator[Advice]:
    now = evidence.present.latency
    kernels = evidence.own_kernels
    if kernels is not None and kernels.value < now.value:
        left_ms = (now.value - kernels.value) / 1e6
        yield Advice(
            "Q4",
            f"{left_ms:.3f} ms of an inference are in no kernel of a layer: "
            "reorders, gaps between layers, and the call itself.",
            rest(share(kernels, now)),
            why_not=_why_not_faster(evidence, "Q4"),
        )
    unfused = {name: each for name, each in evidence.layer_times.items() if name in _ELEMENTWISE}
    apart = total(layer for each in unfused.values() for layer in each)
    if apart.value > 0.01 * now.value:
        count = sum(map(len, unfused.values()))
        yield Advice(
            "Q5",
            f"{counted(count, 'element-wise layer')} not fused ({', '.join(sorted(unfused))}): "
            f"{apart.value / 1e6:.3f} ms. Fused into the layer before, most of it vanishes.",
            share(apart, now),
            why_not=_why_not_faster(evidence, "Q5"),
        )


def _why_not_faster(evidence: Evidence, question: Question) -> str:
    """Return why no variant answers a question."""
    if question == "Q5" and "Fused" in evidence.not_rewritten:
        return evidence.not_rewritten["Fused"]
    tried = [
        _REWRITTEN.get(each.rewriting, f"the optimisation {each.graph_optimization}")
        for each in evidence.others
        if _proposal(evidence.present, each)[0] == question
    ]
    if not tried:
        return "No setting applies it here."
    return f"Tried and not faster beyond noise: {', '.join(tried)}."
