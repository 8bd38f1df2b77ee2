"""Advice on a model with predicted and achieved gains, as figures and as sentences."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from inferometer_analysis.advice import Advice, MeasuredVariant
from inferometer_analysis.samples import Interval
from inferometer_api.wording import counted


@dataclass(frozen=True, slots=True)
class AdviceReport:
    """All advice on a model, and what became of the pieces that were tried, by their places."""

    model: str
    present: MeasuredVariant
    advice: tuple[Advice, ...]
    was_tried: bool = False
    achieved: Mapping[int, Interval] = field(default_factory=dict)
    failures: Mapping[int, str] = field(default_factory=dict)
    served_ns: float | None = None
    """The median latency through a server of the model as it is; None: it was not measured."""

    def served_gain(self, place: int) -> float | None:
        """Return which share of the served latency a piece should save: the rest stays."""
        if self.served_ns is None:
            return None
        return self.advice[place].gain.value * median(self.present.nanoseconds) / self.served_ns

    def why_not_applied(self, place: int) -> str:
        """Return why a piece was not applied; empty if it was, or was not tried yet."""
        return self.advice[place].why_not or self.failures.get(place, "")


def advice_document(report: AdviceReport) -> dict[str, Any]:
    """Return a report as JSON."""
    return {
        "model": report.model,
        "engine": report.present.engine,
        "precision": report.present.precision,
        "nanoseconds": round(median(report.present.nanoseconds)),
        "servedNanoseconds": None if report.served_ns is None else round(report.served_ns),
        "advice": [
            {
                "question": each.question,
                "title": each.title,
                "sentence": each.sentence,
                "predictedGain": _gain(each.gain),
                "whyNoInterval": each.why_no_interval,
                "predictedServedGain": report.served_gain(at),
                "achievedGain": _gain(report.achieved[at]) if at in report.achieved else None,
                "settings": list(each.settings),
                "whyNotApplied": report.why_not_applied(at),
            }
            for at, each in enumerate(report.advice)
        ],
    }


def _gain(found: Interval) -> dict[str, float | None]:
    return {"value": found.value, "low": found.low, "high": found.high}


def advice_sentences(report: AdviceReport) -> Iterator[str]:
    """Yield each piece of advice: how to apply it, what it promises and what it kept."""
    present = report.present
    how = "on the GPU" if present.device == "GPU" else f"with {counted(present.threads, 'thread')}"
    yield (
        f"An inference takes {median(present.nanoseconds) / 1e6:.3f} ms on {present.engine} in "
        f"{present.precision or 'an unknown precision'}, {how}."
    )
    if report.served_ns is not None:
        yield f"Through a server its median latency is {report.served_ns / 1e6:.3f} ms."
    if not report.advice:
        yield "No advice: nothing that was measured is faster."
    for at, each in enumerate(report.advice):
        yield ""
        yield f"{each.question} {each.title}: {each.sentence}"
        if each.settings:
            yield f"  Apply: {'  '.join(f'--set {setting}' for setting in each.settings)}"
        reason = f" (no interval: {each.why_no_interval})" if each.why_no_interval else ""
        yield f"  Predicted gain: {_percent(each.gain)}{reason}"
        if at in report.achieved:
            served = report.served_gain(at)
            of_it = "" if served is None else f"; predicted of that: {100 * served:.1f} %"
            yield f"  Achieved gain:  {_percent(report.achieved[at])}, in served latency{of_it}"
        elif report.why_not_applied(at):
            yield f"  Not applied: {report.why_not_applied(at)}"
    if not report.was_tried and any(not each.why_not for each in report.advice):
        yield ""
        yield "To measure what can be applied, add --try."


def _percent(found: Interval) -> str:
    if found.low is None or found.high is None:
        return f"{100 * found.value:.1f} %"
    return f"{100 * found.value:.1f} % (95 %: {100 * found.low:.1f} to {100 * found.high:.1f})"
