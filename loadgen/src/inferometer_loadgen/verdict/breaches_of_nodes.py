"""What on the servers' nodes does a figure depend on, or is left out of the energy?

One function for each rule of `verdict.RULES` that speaks of what node agents tell.
"""

from collections.abc import Callable, Iterator

from inferometer_api.result import NodeTelemetry
from inferometer_loadgen.steps import SECOND_NS
from inferometer_loadgen.verdict.breaches import Breach, Broken, Conditions, Measurement

THROTTLED_LIMIT = 0.01
STEAL_LIMIT = 0.01
GPU_THROTTLED_LIMIT = 0.1


def throttled(measurement: Measurement, _: Conditions) -> Broken:
    """Yield where the servers of a node waited since they had used up their CPU limit."""
    for node, seconds in _by_node(measurement, lambda node: node.server_throttled_seconds):
        share = seconds / _window_seconds(measurement)
        if share > THROTTLED_LIMIT:
            yield Breach(
                f"The servers on {node.node} were held by their own CPU limit for {seconds:.3g} s "
                f"of the window, {100 * share:.3g} % of it.",
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
    """Yield where the clock of a GPU was held down for a good part of the window."""
    for node in measurement.step.telemetry:
        samples = [each for each in node.samples if each.at_milliseconds >= 0]
        for gpu in sorted({gpu for sample in samples for gpu in sample.gpu_throttle_reasons}):
            held = [
                sample.gpu_throttle_reasons[gpu]
                for sample in samples
                if gpu in sample.gpu_throttle_reasons
            ]
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
