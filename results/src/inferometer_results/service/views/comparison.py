"""Two stored results side by side: the conditions that differ, and the judged figures."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import Any

from markupsafe import Markup

from inferometer_api.results.result import ResultDocument, ScenarioResult, Step
from inferometer_results.compare.comparison import (
    SIDES,
    Compared,
    ComparedSide,
    Comparison,
    Pair,
    compare,
)
from inferometer_results.compare.differences import Difference, differences
from inferometer_results.compare.figures import Figure
from inferometer_results.compare.wording import figure_texts
from inferometer_results.explore.histogram_sum import merged_percentiles
from inferometer_results.explore.prices import PriceList
from inferometer_results.headline import headline
from inferometer_results.quantity import DASH, PERCENTILES, duration
from inferometer_results.report.latency_charts import percentile_chart
from inferometer_results.report.palette import SERIES_COUNT
from inferometer_results.report.sections import MOST_DRAWN
from inferometer_results.report.svg import draw
from inferometer_results.report.wording import bound_of
from inferometer_results.store.comparability import differing_conditions


@dataclass(frozen=True, slots=True)
class DifferingCondition:
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
    conditions: tuple[DifferingCondition, ...]
    differences: tuple[Difference, ...]
    comparison: Comparison


def compare_results(
    ids: tuple[str, str],
    documents: tuple[ResultDocument, ResultDocument],
    prices: PriceList | None = None,
    sides: tuple[ComparedSide, ComparedSide] = SIDES,
) -> ComparedResults:
    """Compare the figures of two results after the conditions in which they differ.

    If one side is retracted, nothing is judged.
    """
    first, second = documents
    comparison = compare(first, second, prices=prices, sides=sides)
    names = (pair.before.scenario for pair in comparison.pairs)
    found = differing_conditions(first, second, names)
    return ComparedResults(
        ids,
        documents,
        tuple(DifferingCondition(name, one, other) for name, (one, other) in found.items()),
        tuple(differences(first, second)),
        comparison,
    )


def overlays(documents: Sequence[ResultDocument]) -> list[Overlay]:
    """Return a chart of the latencies of each step that all of the results have.

    They are named A, B, ...; so many lines as there are colours are drawn.
    """
    drawn_documents = documents[:SERIES_COUNT]
    found = [_answered(document) for document in drawn_documents]
    shared = [key for key in found[0] if all(key in each for each in found)][:MOST_DRAWN]
    drawn = []
    for number, key in enumerate(shared):
        named = [
            each[key][1].model_copy(update={"label": ascii_uppercase[index]})
            for index, each in enumerate(found)
        ]
        bounds = {bound_of(document.run, key[0]) for document in drawn_documents}
        scenario = found[0][key][0].model_copy(update={"steps": named})
        chart = percentile_chart(scenario, bounds.pop() if len(bounds) == 1 else None)
        if chart is not None:
            title = ", ".join(filter(None, key))
            caption = chart.caption
            if any(_has_repeats(each, key[0]) for each in drawn_documents):
                caption += " Of several repeats the first one is drawn."
            drawn.append(Overlay(title, caption, draw(chart, f"overlay-{number}")))
    return drawn


def together(documents: Sequence[ResultDocument], pairs: Sequence[Pair]) -> str:
    """Return the latencies of a step over all results as one sentence; "" if they do not add up.

    `pairs` has the step of each further result with that of the first one. Histograms are added.
    They do not add up if a condition differs, a pair is not judged, or a run is not complete. A run
    that is there twice, also as the copy that a user pushed, was measured once.
    """
    if any(pair.caveats for pair in pairs):
        return ""
    if any(each.outcome.state != "Complete" for each in documents):
        return ""
    scenario, step = pairs[0].before.scenario, pairs[0].before.step
    documents = list({each.run_id: each for each in documents}.values())
    chosen = [
        found
        for document in documents
        for each in document.scenarios
        if each.name == scenario
        for found in each.steps
        if found.label == step
    ]
    if any(differing_conditions(documents[0], other, [scenario]) for other in documents[1:]):
        return ""
    histograms = [found.latency.histogram for found in chosen if found.latency is not None]
    merged = merged_percentiles(histograms, PERCENTILES)
    if merged is None or len(histograms) < len(chosen) or len(histograms) < 2:
        return ""
    queries, values = merged
    figures = ", ".join(
        f"p{percentile:g} {duration(value)}"
        for percentile, value in zip(PERCENTILES, values, strict=True)
    )
    return f"All {len(histograms)} windows together ({queries:,} queries): {figures}."


@dataclass(frozen=True, slots=True)
class ComparedStep:
    """A step in several results: each of its figures in the first one, and against it."""

    title: str
    verdicts: tuple[str, ...]
    """"" if a result lacks the step."""
    figures: tuple[tuple[str, str, tuple[tuple[str, str, str], ...]], ...]
    """The name, the first value, and for each further result its value, change and judgement."""
    caveats: tuple[str, ...]
    merged: str
    """The latencies of all together."""


def compared_steps(found: Sequence[ComparedResults]) -> list[ComparedStep]:
    """Return the steps that the first of several results shares with any other one."""
    documents = [found[0].documents[0], *(each.documents[1] for each in found)]
    paired = [
        {(pair.before.scenario, pair.before.step): pair for pair in each.comparison.pairs}
        for each in found
    ]
    keys = dict.fromkeys(key for each in paired for key in each)
    return [_compared_step(key, [each.get(key) for each in paired], documents) for key in keys]


def _compared_step(
    key: tuple[str, str], pairs: Sequence[Pair | None], documents: Sequence[ResultDocument]
) -> ComparedStep:
    known = [pair for pair in pairs if pair is not None]
    first = known[0]
    texts = [
        {figure.name: figure_texts(figure) for figure in pair.figures} if pair is not None else {}
        for pair in pairs
    ]
    rows = []
    for name in (figure.name for figure in first.figures):
        own = next(each[name] for each in texts if name in each)
        others = tuple(each[name][2:] if name in each else (DASH, "", "") for each in texts)
        rows.append((own[0], own[1], others))
    caveats = dict.fromkeys(
        f"{name} is not judged: it {caveat}"
        for name, pair in zip(ascii_uppercase[1:], pairs, strict=False)
        if pair is not None
        for caveat in pair.caveats
    )
    return ComparedStep(
        ", ".join(filter(None, key)),
        (first.before.verdict, *("" if pair is None else pair.after.verdict for pair in pairs)),
        tuple(rows),
        tuple(caveats),
        together(documents, known) if len(known) == len(pairs) else "",
    )


def _answered(document: ResultDocument) -> dict[tuple[str, str], tuple[ScenarioResult, Step]]:
    """Return the first repeat of each step with latencies, by scenario and label."""
    found: dict[tuple[str, str], tuple[ScenarioResult, Step]] = {}
    for scenario in document.scenarios:
        for step in scenario.steps:
            if step.latency is not None:
                found.setdefault((scenario.name, step.label), (scenario, step))
    return found


def _has_repeats(document: ResultDocument, scenario: str) -> bool:
    return sum(each.name == scenario for each in document.scenarios) > 1


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
