"""The ways to run a model that were timed, and those that could not be."""

from collections.abc import Mapping

from inferometer_analysis.advice import MeasuredVariant
from inferometer_api.layers.timings import LayerTimings
from inferometer_api.layers.variants import named_variant


def measured_variants(
    timings: LayerTimings, addresses: Mapping[str, str] | None
) -> dict[str, MeasuredVariant]:
    """Return the variants that ran, with their durations by round, by name.

    `addresses` are those of the files of rewritten models, by name; None: they were not kept.
    """
    found: dict[str, MeasuredVariant] = {}
    for name, timing in timings.variants.items():
        variant = named_variant(name)
        if variant is None or not timing.nanoseconds:
            continue
        found[name] = MeasuredVariant(
            engine=variant.engine,
            precision=timing.precision,
            threads=variant.threads,
            nanoseconds=tuple(timing.nanoseconds),
            difference=timing.difference,
            graph_optimization=variant.graph_optimization,
            rewriting=variant.rewriting,
            model=(addresses or {}).get(name, ""),
            device=timings.machine.device,
            provider_option=variant.provider_option,
        )
    return found


def failed_variants(timings: LayerTimings) -> dict[str, str]:
    """Return why some ways to run the model could not be measured, by their names."""
    return {each.key: each.reason for each in timings.failed if named_variant(each.key) is not None}
