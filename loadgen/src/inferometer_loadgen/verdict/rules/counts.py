"""Rules about the number of queries: enough of them, answered, and answered correctly."""

from inferometer_api.results.result import Counts, Step
from inferometer_api.scenarios.step_setting import Closed, Open, TraceArrivals
from inferometer_api.wording import as_sentence
from inferometer_loadgen.schedule.steps import End, StepPlan, sufficient_samples
from inferometer_loadgen.verdict.measurement import (
    ERROR_RATE_LIMIT,
    Measurement,
    ScenarioConditions,
    Violation,
    Violations,
    format_seconds,
)
from inferometer_loadgen.wire.contract import printable_line

MAX_QUOTED = 200
"""Length to which a server's message is cut, in characters; `errorExamples` hold more of it."""


def no_reply(measurement: Measurement, _: ScenarioConditions) -> Violations:
    """Yield a violation if no query was answered successfully."""
    counts = measurement.step.counts
    if not counts.succeeded:
        yield Violation(
            f"None of {counts.queries} queries was answered successfully.", "0 answers", "1 answer"
        )


def min_duration(measurement: Measurement, _: ScenarioConditions) -> Violations:
    """Yield a violation if the window is too short; a probe ends when it is decided."""
    duration, least = measurement.step.duration_nanoseconds, measurement.plan.min_duration_ns
    if duration < least and not measurement.plan.is_probe:
        yield Violation(
            f"The measurement lasted {format_seconds(duration)}; at least {format_seconds(least)} "
            f"is required{_sufficient_samples(measurement)}.",
            format_seconds(duration),
            format_seconds(least),
            least / max(1, duration),
        )


def _sufficient_samples(measurement: Measurement) -> str:
    """Return how many samples would suffice, if their number ends the step."""
    plan, duration = measurement.plan, measurement.step.duration_nanoseconds
    if not isinstance(plan.loop, Closed) or plan.loop.total_queries is None:
        return ""
    return f", for which about {sufficient_samples(plan, duration):,} samples would suffice"


def min_queries(measurement: Measurement, _: ScenarioConditions) -> Violations:
    """Yield a violation if there are fewer queries than required, or than a trace has."""
    found, least = measurement.step.counts.queries, measurement.plan.min_queries
    is_cut = measurement.end is End.MAX_DURATION
    longest = format_seconds(measurement.plan.max_duration_ns)
    if found < least and not measurement.plan.is_probe:
        early = f" before the maximum duration of {longest} ended the step" if is_cut else ""
        yield Violation(
            f"{found} queries were measured{early}; at least {least} are required.",
            str(found),
            str(least),
            least / max(1, found),
        )
    elif is_cut and _is_recorded(measurement.plan):
        yield Violation(
            f"{found} queries of the trace were measured before the maximum duration of {longest} "
            "ended the step; the whole trace is required.",
            str(found),
            "the whole trace",
        )


def _is_recorded(plan: StepPlan) -> bool:
    return isinstance(plan.loop, Open) and isinstance(plan.loop.arrivals, TraceArrivals)


def error_rate(measurement: Measurement, _: ScenarioConditions) -> Violations:
    """Yield a violation if too many queries failed."""
    counts = measurement.step.counts
    if counts.failed > ERROR_RATE_LIMIT * counts.queries:
        kinds = ", ".join(f"{kind}: {number}" for kind, number in counts.errors.items())
        share = f"{100 * counts.failed / counts.queries:.3g} %"
        yield Violation(
            f"{counts.failed} of {counts.queries} queries failed ({share}; {kinds}); the limit is "
            f"0.1 %.{_first_messages(measurement.step)}",
            share,
            "0.1 %",
            counts.failed / counts.queries / ERROR_RATE_LIMIT,
        )


def samples_failed(conditions: ScenarioConditions) -> Violations:
    """Yield a violation if too many samples of a load failed, or none was evaluated."""
    sampled = conditions.sampled
    if sampled is None:
        return
    seen = sampled.processed + sampled.failed
    if not seen:
        yield Violation(
            f"None of {sampled.requested:,} samples was evaluated.", "0 samples", "1 sample"
        )
    elif sampled.failed > ERROR_RATE_LIMIT * seen:
        share = f"{100 * sampled.failed / seen:.3g} %"
        first = sampled.failures[0]
        message = printable_line(first.message, MAX_QUOTED).rstrip(".")
        yield Violation(
            f"{sampled.failed:,} of {seen:,} samples could not be evaluated ({share}); the limit "
            f"is 0.1 %. The first is {first.sample}: {message}.",
            share,
            "0.1 %",
            sampled.failed / seen / ERROR_RATE_LIMIT,
        )


def too_many_resent(measurement: Measurement, _: ScenarioConditions) -> Violations:
    """Yield a violation if too many queries were sent a second time."""
    counts = measurement.step.counts
    if counts.resent > ERROR_RATE_LIMIT * counts.queries:
        yield _resent(counts, "0.1 %", "the limit is 0.1 %")


def queries_resent(measurement: Measurement, _: ScenarioConditions) -> Violations:
    """Yield a violation if a query was sent a second time, and not too many were."""
    counts = measurement.step.counts
    if 0 < counts.resent <= ERROR_RATE_LIMIT * counts.queries:
        yield _resent(counts, "0", "the server closed their connection after an error")


def _resent(counts: Counts, limit: str, clause: str) -> Violation:
    share = f"{100 * counts.resent / max(1, counts.queries):.3g} %"
    were = "query was" if counts.resent == 1 else "queries were"
    return Violation(
        f"{counts.resent} of {counts.queries} {were} sent a second time ({share}); {clause}.",
        share,
        limit,
    )


def output_shape(measurement: Measurement, _: ScenarioConditions) -> Violations:
    """Yield a violation for each output whose shape differs from the metadata in every reply."""
    for sentence in measurement.step.output_deviations:
        yield Violation(sentence, "another shape", "the shape in the metadata")


def json_replies(measurement: Measurement, _: ScenarioConditions) -> Violations:
    """Yield a violation if the server answers in JSON although binary data was requested."""
    if measurement.step.json_replies:
        yield Violation(
            "The requests carry binary tensors and want binary ones, but the server answers in "
            "JSON.",
            "JSON",
            "binary data",
        )


def replies_changed(measurement: Measurement, _: ScenarioConditions) -> Violations:
    """Yield a violation if a checked reply does not have the model's outputs."""
    counts = measurement.step.counts
    changed = counts.errors.get("content", 0)
    if changed:
        yield Violation(
            f"{changed} of {counts.checked_replies} checked replies did not match the model's "
            f"outputs; none may. {_first_message(measurement.step, 'content')}".rstrip(),
            f"{changed} replies",
            "0 replies",
            changed,
        )


def _first_messages(step: Step) -> str:
    """Return the first error message of every kind, the most frequent first, each a sentence."""
    kinds = sorted(step.counts.errors, key=lambda kind: -step.counts.errors[kind])
    messages = [(kind, _first_message(step, kind)) for kind in kinds]
    return "".join(f" First error of kind {kind}: {text}" for kind, text in messages if text)


def _first_message(step: Step, kind: str) -> str:
    """Return the first error message of a kind as a sentence; empty if there is none."""
    message = next((each.message for each in step.error_examples if each.kind == kind), "")
    return message and as_sentence(printable_line(message, MAX_QUOTED))
