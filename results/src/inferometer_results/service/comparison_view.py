"""Two stored results side by side: the conditions that differ, and the judged figures."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from inferometer_api.results.result import ResultDocument, ScenarioResult, Step
from inferometer_results.compare.comparison import Compared, Comparison, compare
from inferometer_results.compare.differences import Difference, differences
from inferometer_results.compare.figures import Figure
from inferometer_results.headline import headline
from inferometer_results.report.latency_charts import percentile_chart
from inferometer_results.report.sections import MOST_DRAWN
from inferometer_results.report.svg import draw
from inferometer_results.report.wording import bound_of
from inferometer_results.store.comparability import differing_conditions


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition of the comparability key that differs."""

    name: str
    before: str
    """"" if it is unknown."""
    after: str


@dataclass(frozen=True, slots=True)
class Overlay:
    """The latencies of a scenario's step in both results, in one chart."""

    title: str
    caption: str
    svg: Markup


@dataclass(frozen=True, slots=True)
class ComparedResults:
    """Two results with everything that distinguishes them."""

    ids: tuple[str, str]
    documents: tuple[ResultDocument, ResultDocument]
    conditions: tuple[Condition, ...]
    differences: tuple[Difference, ...]
    comparison: Comparison


def compare_results(
    ids: tuple[str, str], documents: tuple[ResultDocument, ResultDocument]
) -> ComparedResults:
    """Compare the figures of two results after the conditions in which they differ."""
    first, second = documents
    comparison = compare(first, second)
    names = (pair.before.scenario for pair in comparison.pairs)
    found = differing_conditions(first, second, names)
    return ComparedResults(
        ids,
        documents,
        tuple(Condition(name, one, other) for name, (one, other) in found.items()),
        tuple(differences(first, second)),
        comparison,
    )


def overlays(found: ComparedResults) -> list[Overlay]:
    """Return a chart of the latencies of each step that both results have."""
    first, second = (_answered(document) for document in found.documents)
    shared = [key for key in first if key in second][:MOST_DRAWN]
    drawn = []
    for number, key in enumerate(shared):
        (scenario, before), (_, after) = first[key], second[key]
        named = (before.model_copy(update={"label": "A"}), after.model_copy(update={"label": "B"}))
        bounds = [bound_of(document.run, key[0]) for document in found.documents]
        chart = percentile_chart(
            scenario.model_copy(update={"steps": list(named)}),
            bounds[0] if bounds[0] == bounds[1] else None,
        )
        if chart is not None:
            title = ", ".join(filter(None, key))
            drawn.append(Overlay(title, chart.caption, draw(chart, f"overlay-{number}")))
    return drawn


def _answered(document: ResultDocument) -> dict[tuple[str, str], tuple[ScenarioResult, Step]]:
    """Return the first repeat of each step with latencies, by scenario and label."""
    found: dict[tuple[str, str], tuple[ScenarioResult, Step]] = {}
    for scenario in document.scenarios:
        for step in scenario.steps:
            if step.latency is not None:
                found.setdefault((scenario.name, step.label), (scenario, step))
    return found


def as_json(found: ComparedResults) -> dict[str, Any]:
    """Return a comparison as JSON; `a` is the baseline."""
    comparison = found.comparison
    return {
        "a": _side(found.ids[0], found.documents[0]),
        "b": _side(found.ids[1], found.documents[1]),
        "comparable": not found.conditions,
        "conditions": [
            {"name": each.name, "a": each.before, "b": each.after} for each in found.conditions
        ],
        "differences": [
            {"part": each.heading, "name": each.name, "a": each.before, "b": each.after}
            for each in found.differences
        ],
        "figures": list(figure_rows(found)),
        "only_a": list(comparison.only_before),
        "only_b": list(comparison.only_after),
        "margin": comparison.rule.margin,
        "confidence": comparison.rule.confidence,
    }


def figure_rows(found: ComparedResults) -> Iterator[dict[str, Any]]:
    """Yield a flat row for each figure; rates are per second, times in ns, energies in uJ."""
    for pair in found.comparison.pairs:
        for figure in pair.figures:
            yield {
                "scenario": pair.before.scenario,
                "step": pair.before.step,
                "verdict_a": pair.before.verdict,
                "verdict_b": pair.after.verdict,
                "figure": figure.name,
                "kind": figure.before.kind,
                **_estimate("a", figure.before),
                **_estimate("b", figure.after),
                **_change(figure),
                "judgement": figure.word,
                "caveats": " ".join(pair.caveats),
            }


def _side(id_: str, document: ResultDocument) -> dict[str, Any]:
    return {
        "id": id_,
        "name": document.run.name,
        "started_at": str(document.started_at),
        "verdict": headline(document).word,
    }


def _estimate(side: str, figure: Figure) -> dict[str, float | None]:
    found = figure.estimate
    return {
        side: None if found is None else found.value,
        f"{side}_low": None if found is None else found.low,
        f"{side}_high": None if found is None else found.high,
    }


def _change(figure: Compared) -> dict[str, float | None]:
    judgement = figure.judgement
    return {
        "ratio": figure.ratio,
        "ratio_low": None if judgement is None else judgement.low,
        "ratio_high": None if judgement is None else judgement.high,
        "ratio_confidence": None if judgement is None else judgement.confidence,
    }
