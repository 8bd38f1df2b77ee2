"""The timings of layers in a result, in sentences: bounds, predictions, and what was not timed."""

from collections.abc import Iterator
from dataclasses import dataclass

from inferometer_analysis.bricks.predict import predict
from inferometer_api.layers.advice import ModelAdvice
from inferometer_api.layers.split import default_granularity, operators_of, split
from inferometer_api.layers.timings import LayerTimings
from inferometer_api.results.result import ResultDocument, ScenarioResult
from inferometer_results.layers.advice_report import advice_sentences, timed_advice
from inferometer_results.layers.bound_report import bound_report, bound_sentences
from inferometer_results.layers.brick_errors import busy_sentence

PRECISION = "FP32"
_MOST_MODELS = _MOST_FAILURES = 10


@dataclass(frozen=True, slots=True)
class StepSentences:
    """What the timings of one scenario show."""

    name: str
    sentences: tuple[str, ...]


def layer_sentences(document: ResultDocument) -> Iterator[StepSentences]:
    """Yield the sentences of each scenario that timed layers."""
    for scenario in document.scenarios:
        advice = (each for advice in advice_of(scenario) for each in _advice_sentences(advice))
        sentences = (*scenario_sentences(scenario), *advice)
        if sentences:
            yield StepSentences(scenario.name, sentences)


def advice_of(scenario: ScenarioResult) -> Iterator[ModelAdvice]:
    """Yield the advice that follows from the timings of a scenario."""
    for step in scenario.steps:
        if step.layers is not None and step.layers.timings is not None:
            yield from timed_advice(step.layers.timings)


def scenario_sentences(scenario: ScenarioResult) -> Iterator[str]:
    """Yield what the layers of a scenario show, but for advice; nothing if it has none."""
    for step in scenario.steps:
        if step.layers is None:
            continue
        if step.layers.unavailable:
            yield step.layers.unavailable
        elif step.layers.timings is not None:
            yield from timing_sentences(step.layers.timings)


def _advice_sentences(advice: ModelAdvice) -> Iterator[str]:
    yield from filter(None, advice_sentences(advice))
    if advice.can_be_tried:
        yield "To measure what can be applied: `inferometer advise MODEL --try`."


def timing_sentences(timings: LayerTimings) -> Iterator[str]:
    """Yield bounds from kernels and variants, or predictions from bricks."""
    if timings.variants:
        for graph in timings.graphs:
            yield from bound_sentences(
                bound_report(graph.model, PRECISION, graph, None, timings), advises_fill=False
            )
    if timings.bricks:
        yield f"{len(timings.bricks):,} unique bricks were timed in {timings.seconds:.0f} s."
        for graph in timings.graphs[:_MOST_MODELS]:
            found = predict(graph, timings, default_granularity(timings.machine.threads))
            least = "" if found.is_complete else "at least "
            yield (
                f"{graph.model}: {least}{found.sequential_nanoseconds / 1e6:.3f} ms by its layers, "
                f"of which {found.layers_known} of {found.layers} are known."
            )
        left = len(timings.graphs) - _MOST_MODELS
        if left > 0:
            yield f"... and {left} more models."
        if warning := busy_sentence(timings, None, "Repeat the run."):
            yield warning
    if not timings.variants:
        yield from _brick_failures(timings)
    if timings.untimed:
        yield (
            f"{len(timings.untimed):,} were not timed within the budget. To time them, raise "
            "budgetSeconds."
        )


def _brick_failures(timings: LayerTimings) -> Iterator[str]:
    """Yield what could not be timed, and why: models that were refused, bricks by operators."""
    operators = {
        use.key: operators_of(use, graph)
        for graph in timings.graphs
        for use in split(graph, default_granularity(timings.machine.threads))
    }
    for each in timings.failed[:_MOST_FAILURES]:
        yield f"Not timed: {operators.get(each.key, each.key)}. {each.reason}"
    left = len(timings.failed) - _MOST_FAILURES
    if left > 0:
        yield f"... and {left} others were not timed."
