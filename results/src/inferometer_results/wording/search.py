"""The outcome of a search, a sweep, an evaluation or repeats, in sentences."""

from collections.abc import Iterator

from inferometer_api.results.peak_words import known_range
from inferometer_api.results.result import ResultDocument, ScenarioResult, Step
from inferometer_api.results.search import Knee, Peak, RepeatFigure, RepeatSummary
from inferometer_api.wording import counted
from inferometer_results.quantity import DASH, duration, energy, percent, significant
from inferometer_results.wording.accuracy import accuracy_sentences
from inferometer_results.wording.server_time import pipeline_sentences

_NAMES = {
    "achievedQps": "queries/s",
    "achievedSamplesPerSecond": "samples/s",
    "meanNanoseconds": "mean latency",
    "p50Nanoseconds": "p50",
    "p90Nanoseconds": "p90",
    "p99Nanoseconds": "p99",
    "p999Nanoseconds": "p99.9",
    "microjoulesPerInference": "energy/inference",
    "peakQps": "peak queries/s",
    "coldStartNanoseconds": "cold start",
}
_FIGURES_SHOWN = (
    "coldStartNanoseconds",
    "peakQps",
    "achievedQps",
    "p50Nanoseconds",
    "p99Nanoseconds",
)


def judged_step(result: ScenarioResult) -> Step | None:
    """Return the probe by which a search is judged; None if there is none."""
    if result.peak is None:
        return None
    return next((step for step in result.steps if step.label == result.peak.step), None)


def steps_shown(result: ScenarioResult) -> list[Step]:
    """Return the steps to show: all, but only the judged probe of a search."""
    if result.peak is None:
        return result.steps
    step = judged_step(result)
    return [] if step is None else [step]


def found_by(result: ScenarioResult) -> Iterator[str]:
    """Yield the outcome of a search, a sweep or an evaluation, and the shares of steps."""
    if result.peak is not None:
        yield peak_sentence(result.peak)
        yield from _judged_probe(result.peak)
    if result.knee is not None:
        yield knee_sentence(result.knee)
    served = list(pipeline_sentences(steps_shown(result)))
    if result.accuracy is not None:
        yield from accuracy_sentences(result.accuracy, has_steps=not served)
    yield from served


def _judged_probe(peak: Peak) -> Iterator[str]:
    """Yield which probe's figures are shown, and whether it kept the bound."""
    probe = next((each for each in peak.probes if each.step == peak.step), None)
    if probe is None:
        return
    is_confirmed = peak.confidence is not None
    half = "; of probes so near to the peak, about half do" if is_confirmed else ""
    kept = {
        True: "which kept the bound",
        False: f"which did not keep the bound{half}",
        None: "which does not decide whether the bound is kept",
    }[probe.within_bound]
    which = "nearest to the peak" if is_confirmed else "by which the search is judged"
    yield (
        f"The figures shown are those of the probe {which}, at "
        f"{significant(probe.target_qps, 4)} queries/s, {kept}."
    )


def peak_sentence(peak: Peak) -> str:
    """Return the outcome of a peak search, and how certain it is."""
    name = f"p{peak.percentile:g}"
    bound = f"{name} within {duration(peak.latency_bound_nanoseconds)}"
    if peak.stop_reason == "CannotBeMet":
        return f"No rate keeps the {bound}: {'; '.join(_unmet(peak, name))}."
    probes = counted(len(peak.probes), "probe")
    if peak.confidence is None or peak.low_qps is None or peak.high_qps is None:
        about = "" if peak.qps is None else f"; the probes lead to {peak_rate(peak)}/s"
        known = f"{known_range(peak)}{about}"
        return f"No peak with {bound} is confirmed: {known} ({probes}{_open(peak)})."
    low, high = significant(peak.low_qps, 4), significant(peak.high_qps, 4)
    known = f"{peak.confidence:.0%} bounds within this search: {low} to {high}"
    rate = peak_rate(peak)
    return f"The peak with {bound} is {rate} queries/s ({known}); {probes}, until {_why(peak)}."


def peak_rate(peak: Peak) -> str:
    """Return the peak with as many digits as are certain: two if it has no bracket."""
    if peak.qps is None:
        return DASH
    if peak.confidence is None:
        return f"about {significant(peak.qps, 2)}"
    return significant(peak.qps, 4)


def _unmet(peak: Peak, name: str) -> Iterator[str]:
    """Yield what shows that the bound cannot be met."""
    if peak.service_time_nanoseconds is not None:
        alone = duration(peak.service_time_nanoseconds)
        yield f"a single query already has a {name} of {alone}"
    elif not peak.probes:
        yield "a single query at a time already exceeds it"
    if peak.probes:
        lowest = significant(min(probe.target_qps for probe in peak.probes))
        yield f"no probe kept it, down to {lowest} queries/s"


def _open(peak: Peak) -> str:
    """Return why there is no bracket, unless a limit was hit, which the verdict names."""
    match str(peak.stop_reason):
        case "Indistinguishable" if peak.qps is None:
            return (
                ", which contradict each other: use longer probes, and a machine on which nothing "
                "else runs"
            )
        case "Indistinguishable":
            return ", with too few bursts of slow queries for a bracket: use longer probes"
        case "ProbesTooShort":
            return ", which ended before a queue could grow: use longer probes"
        case "EndedEarly":
            return ", before the search was ended early"
        case _:
            return ""


def _why(peak: Peak) -> str:
    """Return why a search with a bracket ended; a newer version may have more reasons."""
    match str(peak.stop_reason):
        case "Resolved":
            return "the bracket was within 1 %"
        case "Indistinguishable":
            return "probes at the two ends of the bracket would differ only by chance"
        case "OutOfTime":
            return "the maximum duration ended the search"
        case "EndedEarly":
            return "the search was ended early"
        case reason:
            return f"it ended with {reason}"


def knee_sentence(knee: Knee) -> str:
    """Return where a sweep over clients has the most throughput for its latency."""
    p99 = f", p99 {duration(knee.p99_nanoseconds)}" if knee.p99_nanoseconds is not None else ""
    clients = counted(knee.clients, "client")
    beyond = "; this is the last step, so the knee may lie beyond it" if knee.last_step else ""
    return (
        f"The knee (highest ratio of throughput to mean latency) is at {clients}: "
        f"{significant(knee.qps)} queries/s{p99}{beyond}."
    )


def repeat_coverage(repeated: RepeatSummary) -> str:
    """Return which means they are, and what their intervals cover."""
    if repeated.scope == "Server":
        covers = (
            "The server was restarted between the repeats: the intervals cover what differs from "
            "process to process."
        )
    else:
        covers = (
            "One server was measured in all repeats, without a restart: the intervals do not cover "
            "what differs from process to process."
        )
    return f"Means are geometric. {covers}"


def figures_shown(repeated: RepeatSummary) -> list[RepeatFigure]:
    """Return the figures of repeats that tables and charts show."""
    return [each for each in repeated.figures if each.name in _FIGURES_SHOWN]


def figure_name(figure: RepeatFigure) -> str:
    """Return the display name of a figure."""
    return _NAMES.get(figure.name, figure.name)


def figure_value(figure: RepeatFigure, value: float | None) -> str:
    """Return one value of a figure with its unit."""
    if value is None:
        return "?"
    if figure.name.endswith("Nanoseconds"):
        return duration(max(0.0, value))
    if figure.name == "microjoulesPerInference":
        return energy(max(0.0, value))
    return significant(max(0.0, value), 4)


FIGURE_HEADINGS = ("n", "mean", "95 % low", "95 % high", "variation")


def figure_texts(figure: RepeatFigure) -> tuple[str, ...]:
    """Return the cells of a figure over the repeats, in the order of `FIGURE_HEADINGS`."""
    variation = figure.coefficient_of_variation
    return (
        str(len(figure.values)),
        figure_value(figure, figure.mean),
        figure_value(figure, figure.low),
        figure_value(figure, figure.high),
        DASH if variation is None else percent(variation),
    )


def repeated_of(document: ResultDocument, name: str) -> RepeatSummary | None:
    """Return the summary over the repeats of a scenario, None if it has none."""
    return next((each for each in document.repeat_summaries if each.name == name), None)


def early_stopping_sentences(result: ScenarioResult) -> Iterator[str]:
    """Yield the outcome of MLPerf's early stopping for each step, without a period.

    A search has none: its bracket already says how certain the peak is.
    """
    for step in [] if result.peak is not None else result.steps:
        found = step.early_stopping
        if found is None:
            continue
        of = f"{step.label}: " if step.label else ""
        name = f"p{found.percentile:g}"
        if found.latency_bound_nanoseconds is not None:
            yield (
                f"{of}{found.overshoots:,} of {found.queries:,} queries exceeded "
                f"{duration(found.latency_bound_nanoseconds)}; with that many, "
                f"{found.required_queries or 0:,} queries are needed to know with 99 % confidence "
                f"that the {name} keeps the bound (MLPerf's early stopping)"
            )
        elif found.estimate_nanoseconds is not None:
            yield (
                f"{of}with 99 % confidence the {name} is at most "
                f"{duration(found.estimate_nanoseconds)} (MLPerf's early stopping)"
            )
        elif found.required_queries is not None:
            yield (
                f"{of}{found.queries:,} queries are too few to bound the {name} with 99 % "
                f"confidence; {found.required_queries:,} are needed (MLPerf's early stopping)"
            )
