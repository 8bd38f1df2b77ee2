"""Advice on a model with predicted and achieved gains, as a document and as sentences."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from inferometer_analysis.advice import Advice, Evidence, advise, notes
from inferometer_analysis.cpu_evidence import CpuTimings, cpu_evidence
from inferometer_analysis.samples import Interval
from inferometer_api.layers.advice import AdviceGain, AdvicePiece, ModelAdvice
from inferometer_api.layers.timings import LayerTimings, MachineState
from inferometer_api.wording import counted
from inferometer_results.layers.bound_report import variant_words
from inferometer_results.layers.slowness import slow_sentence

_TOO_FEW_ROUNDS = " (no interval: it takes six rounds)"


@dataclass(frozen=True, slots=True)
class AdviceTrial:
    """What became of the pieces of advice that were tried, by their places."""

    achieved: Mapping[int, Interval] = field(default_factory=dict)
    """Gains in served latency."""
    failures: Mapping[int, str] = field(default_factory=dict)
    """Why a piece could not be measured."""
    served_ns: float | None = None
    """The median latency through a server of the model as it is; None: it was not measured."""


@dataclass(frozen=True, slots=True)
class AdvisedModel:
    """What advice is on."""

    name: str
    machine: MachineState
    evidence: Evidence
    batch_size: int = 1
    not_measured: Mapping[str, str] = field(default_factory=dict)
    """Ways to run it that could not be measured, by name, with the reasons."""
    slowdown: float = 0.0
    """By which share the machine was slower than when layers were timed that the database has."""


def model_advice(
    model: AdvisedModel, advice: Sequence[Advice], trial: AdviceTrial | None = None
) -> ModelAdvice:
    """Return the document of some advice; `trial`: None if nothing was tried."""
    tried = trial or AdviceTrial()
    present, served = model.evidence.present, tried.served_ns
    now = median(present.nanoseconds)
    return ModelAdvice(
        model=model.name,
        batch_size=model.batch_size,
        machine=model.machine.name,
        device=model.machine.device,
        threads=present.threads,
        engine=present.engine,
        precision=present.precision,
        nanoseconds=round(now),
        served_nanoseconds=None if served is None else round(served),
        was_tried=trial is not None,
        advice=[
            AdvicePiece(
                question=each.question,
                title=each.title,
                sentence=each.sentence,
                predicted_gain=_gain(each.gain),
                why_no_interval=each.why_no_interval,
                # What a server adds to an inference stays as it is.
                predicted_served_gain=None if served is None else each.gain.value * now / served,
                achieved_gain=_gain(tried.achieved[at]) if at in tried.achieved else None,
                settings=list(each.settings),
                why_not_applied=each.why_not or tried.failures.get(at, ""),
            )
            for at, each in enumerate(advice)
        ],
        not_measured=dict(model.not_measured),
        notes=[*notes(model.evidence), *_slow_note(model.slowdown)],
    )


def _slow_note(share: float) -> Iterator[str]:
    if slow := slow_sentence(share):
        yield f"{slow} Q1 and Q4 compare with it, and promise too much by about as much."


def _gain(found: Interval) -> AdviceGain:
    return AdviceGain(value=found.value, low=found.low, high=found.high)


def timed_advice(timings: LayerTimings) -> Iterator[ModelAdvice]:
    """Yield the advice that follows from timings on a CPU; nothing if none was requested."""
    for graph in timings.graphs:
        found = CpuTimings(graph, timings)
        evidence = cpu_evidence(found)
        if evidence is not None:
            model = AdvisedModel(
                graph.model, timings.machine, evidence, graph.batch_size, found.not_measured
            )
            yield model_advice(model, advise(evidence))


def advice_sentences(report: ModelAdvice) -> Iterator[str]:
    """Yield each piece of advice: how to apply it, what it promises and what it kept."""
    yield base_sentence(report)
    if report.served_nanoseconds is not None:
        yield f"Through a server its median latency is {report.served_nanoseconds / 1e6:.3f} ms."
    if not report.advice:
        yield "No advice: nothing that was measured is faster."
    for each in report.advice:
        yield ""
        yield f"{each.question} {each.title}: {each.sentence}"
        if each.settings:
            yield f"  Apply: {'  '.join(f'--set {setting}' for setting in each.settings)}"
        reason = f" (no interval: {each.why_no_interval})" if each.why_no_interval else ""
        yield f"  Predicted gain: {gain_words(each.predicted_gain)}{reason}"
        if each.achieved_gain is not None:
            served = each.predicted_served_gain
            of_it = "" if served is None else f"; predicted of that: {100 * served:.1f} %"
            few = "" if each.achieved_gain.low is not None else _TOO_FEW_ROUNDS
            yield (
                f"  Achieved gain:  {gain_words(each.achieved_gain)}{few}, in served latency{of_it}"
            )
        elif each.why_not_applied:
            yield f"  Not applied: {each.why_not_applied}"
    if report.not_measured or report.notes:
        yield ""
    yield from notes_of(report)


def notes_of(report: ModelAdvice) -> Iterator[str]:
    """Yield what cannot be answered, and which ways to run the model could not be measured."""
    yield from report.notes
    names: dict[str, list[str]] = {}
    for name, reason in report.not_measured.items():
        names.setdefault(reason, []).append(variant_words(name, report.device))
    for reason, variants in names.items():
        yield f"Not measured: {'; '.join(variants)}. {reason}"


def base_sentence(report: ModelAdvice) -> str:
    """Return how long the model takes as it is."""
    how = "on the GPU" if report.device == "GPU" else f"with {counted(report.threads, 'thread')}"
    return (
        f"An inference takes {report.nanoseconds / 1e6:.3f} ms on {report.engine} in "
        f"{report.precision or 'an unknown precision'}, {how}."
    )


def gain_words(found: AdviceGain) -> str:
    """Return "12.3 % (95 %: 11.0 to 13.1)"."""
    if found.low is None or found.high is None:
        return f"{100 * found.value:.1f} %"
    return f"{100 * found.value:.1f} % (95 %: {100 * found.low:.1f} to {100 * found.high:.1f})"
