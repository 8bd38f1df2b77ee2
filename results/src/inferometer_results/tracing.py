"""The traced queries in a result: where the time of slow ones went, in rows and sentences."""

from collections.abc import Iterator
from dataclasses import dataclass

from inferometer_api.results.result import ResultDocument, ScenarioResult, Step
from inferometer_api.results.tracing import (
    UNATTRIBUTED,
    StepTracing,
    TracedPart,
    TracedQuery,
    TracedSpan,
)
from inferometer_results.quantity import duration, percent


@dataclass(frozen=True, slots=True)
class TracedStep:
    """One traced step, with the result that it belongs to."""

    scenario: ScenarioResult
    step: Step
    tracing: StepTracing

    @property
    def name(self) -> str:
        """The scenario, its repeat and the step."""
        repeat = f" #{self.scenario.repeat}" if self.scenario.repeat > 1 else ""
        label = f", {self.step.label}" if self.step.label else ""
        return f"{self.scenario.name}{repeat}{label}"


def traced_steps(document: ResultDocument) -> Iterator[TracedStep]:
    """Yield the traced steps, in their order."""
    for scenario in document.scenarios:
        for step in scenario.steps:
            if step.tracing is not None:
                yield TracedStep(scenario, step, step.tracing)


def part_name(part: TracedPart | TracedSpan) -> str:
    """Return a part with the service that measured it: server compute, wire reply."""
    return f"{part.service} {part.name}".strip()


def slow_part(tracing: StepTracing) -> TracedPart | None:
    """Return the part in which slow queries lose the most against the median; None without any."""
    return max(
        tracing.parts,
        key=lambda part: part.slowest_nanoseconds - part.median_nanoseconds,
        default=None,
    )


def slowest_query(tracing: StepTracing) -> TracedQuery | None:
    """Return the slowest query that is in the result; None without any."""
    return max(tracing.queries, key=lambda query: query.latency_nanoseconds, default=None)


def sentences_of(tracing: StepTracing) -> Iterator[str]:
    """Yield what the traces show in sentences, and what is missing."""
    yield (
        f"{tracing.sampled:,} queries were traced, every {_ordinal(tracing.sample_every)} one; "
        f"{tracing.joined:,} have spans of a server."
    )
    slow = slow_part(tracing)
    if slow is not None:
        lost = slow.slowest_nanoseconds - slow.median_nanoseconds
        whole = tracing.slowest_latency_nanoseconds - tracing.median_latency_nanoseconds
        if whole > 0 and lost > 0:
            yield (
                f"The slowest 1 % take {duration(tracing.slowest_latency_nanoseconds)}, those "
                f"around the median {duration(tracing.median_latency_nanoseconds)}. "
                f"{percent(min(1.0, lost / whole))} of the difference is in {_in_words(slow)}."
            )
    if tracing.joined:
        yield (
            "No span covers a median of "
            f"{duration(tracing.median_unattributed_nanoseconds)} of a query ({UNATTRIBUTED})."
        )
    for clock in tracing.clocks:
        if clock.offset_nanoseconds or clock.error_nanoseconds:
            ahead = "ahead of" if clock.offset_nanoseconds >= 0 else "behind"
            yield (
                f"The clock of {clock.service} is {duration(abs(clock.offset_nanoseconds))} "
                f"{ahead} the client's, ± {duration(clock.error_nanoseconds)}; its spans are "
                "shifted by that, and the two parts of the wire are as uncertain."
            )
    yield from tracing.notes


def _in_words(part: TracedPart) -> str:
    if part.name == UNATTRIBUTED:
        return "no span (unattributed)"
    return f"{part.name} ({part.service})"


def _ordinal(number: int) -> str:
    ending = (
        "th" if number % 100 in {11, 12, 13} else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    )
    return f"{number:,}{ending}"
