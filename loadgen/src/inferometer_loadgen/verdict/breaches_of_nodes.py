"""What on the servers' nodes does a figure depend on, or is left out of the energy?

One function for each rule of `verdict.RULES` that speaks of what node agents tell.
"""

from collections.abc import Callable, Iterator

from inferometer_api.results.result import NodeTelemetry
from inferometer_loadgen.schedule.steps import SECOND_NS
from inferometer_loadgen.verdict.breaches import Breach, Broken, Conditions, Measurement

THROTTLED_LIMIT = 0.01
STEAL_LIMIT = 0.01
GPU_THROTTLED_LIMIT = 0.1
CHOSEN = frozenset({"ApplicationsClocksSetting"})
"""Reasons of a clock that somebody has set, and which stays so."""


def throttled(measurement: Measurement, _: Conditions) -> Broken:
    """Yield where the CPU limit of a node's servers kept CPU time from them.

    The kernel counts it for each CPU that holds tasks back, so that it adds up as CPU time does.
    """
    for node, seconds in _by_node(measurement, lambda node: node.server_throttled_seconds):
        used = node.server_cpu_seconds
        if used is None:  # then at most all that there was
            used = _window_seconds(measurement) * max(1, node.cpu_count or 0)
        share = seconds / (seconds + used) if seconds else 0.0
        if share > THROTTLED_LIMIT:
            yield Breach(
                f"The CPU limit of the servers on {node.node} withheld {seconds:.3g} s of CPU time "
                f"from them, {100 * share:.3g} % of what they could have used.",
                f"{100 * share:.3g} %",
                "1 %",
            )


def steal(measurement: Measurement, _: Conditions) -> Broken:
    """Yield where the hypervisor gave a node's CPUs to others."""
    for node, seconds in _by_node(measurement, lambda node: node.steal_seconds):
        share = seconds / _window_seconds(measurement) / max(1, node.cpu_count or 0)
        if share > STEAL_LIMIT:
            yield Breach(
                f"The hypervisor gave {100 * share:.3g} % of the CPU time of {node.node} to "
                f"others.",
                f"{100 * share:.3g} %",
                "1 %",
            )


def gpu_throttled(measurement: Measurement, _: Conditions) -> Broken:
    """Yield where something else than a setting held a GPU's clock down for a good while."""
    for node in measurement.step.telemetry:
        samples = [each for each in node.samples if each.at_milliseconds >= 0]
        for gpu in sorted({gpu for sample in samples for gpu in sample.gpu_throttle_reasons}):
            told = [sample.gpu_throttle_reasons.get(gpu, []) for sample in samples]
            held = [forced for each in told if (forced := {*each} - CHOSEN)]
            share = len(held) / len(samples)
            if share > GPU_THROTTLED_LIMIT:
                reasons = ", ".join(sorted({reason for each in held for reason in each}))
                yield Breach(
                    f"The clock of {gpu} of {node.node} was held down ({reasons}) in "
                    f"{100 * share:.3g} % of the samples.",
                    f"{100 * share:.3g} %",
                    "10 %",
                )


def energy_unavailable(measurement: Measurement, conditions: Conditions) -> Broken:
    """Yield where energy was asked for and there is none."""
    energy = measurement.step.energy
    if conditions.power_asked and energy.attribution == "unavailable":
        yield Breach(f"Energy was not measured: {energy.reason}.", "unavailable", "measured")


def energy_incomplete(measurement: Measurement, _: Conditions) -> Broken:
    """Yield where the energy leaves something out."""
    left_out = measurement.step.energy.not_covered
    if left_out:
        yield Breach(
            f"The energy does not cover everything: {'; '.join(left_out)}.",
            f"{len(left_out)} left out",
            "none left out",
        )


def _by_node(
    measurement: Measurement, of: Callable[[NodeTelemetry], float | None]
) -> Iterator[tuple[NodeTelemetry, float]]:
    for node in measurement.step.telemetry:
        value = of(node)
        if value is not None:
            yield node, value


def _window_seconds(measurement: Measurement) -> float:
    return max(1, measurement.step.duration_nanoseconds) / SECOND_NS
