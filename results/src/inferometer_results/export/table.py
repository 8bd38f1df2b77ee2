"""The figures of a step as texts, in the columns of the formats for people."""

from inferometer_api.results.result import ModelFigures, Step, nanoseconds_at
from inferometer_results.quantity import PERCENTILES, duration, energy, significant


def headings() -> tuple[str, ...]:
    """Return the names of the columns."""
    percentiles = tuple(f"p{percentile:g}" for percentile in PERCENTILES)
    return ("queries", "failed", "queries/s", "samples/s", *percentiles, "energy/inference")


def figure_texts(step: Step) -> tuple[str, ...]:
    """Return the figures of a step, in the order of `headings`."""
    return (
        f"{step.counts.queries:,}",
        f"{step.counts.failed:,}",
        significant(step.achieved_qps),
        significant(step.achieved_samples_per_second),
        *(duration(nanoseconds_at(step.latency, percentile)) for percentile in PERCENTILES),
        energy(step.energy.microjoules_per_inference),
    )


def model_figure_texts(figures: ModelFigures) -> tuple[str, ...]:
    """Return the figures of a model of a mix, in the order of `headings`; it has no others."""
    return (
        f"{figures.queries:,}",
        f"{figures.failed:,}",
        significant(figures.achieved_qps),
        "",
        *(duration(nanoseconds_at(figures.latency, percentile)) for percentile in PERCENTILES),
        "",
    )
