"""Rules about the servers' nodes: throttling, steal, and energy. Node agents report the figures."""

from collections.abc import Callable, Iterator

from inferometer_api.results.result import NodeTelemetry
from inferometer_loadgen.schedule.steps import SECOND_NS
from inferometer_loadgen.verdict.measurement import (
    Measurement,
    ScenarioConditions,
    Violation,
    Violations,
)

THROTTLED_LIMIT = 0.01
STEAL_LIMIT = 0.01
GPU_THROTTLED_LIMIT = 0.1
CONFIGURED_CLOCKS = frozenset({"ApplicationsClocksSetting"})
"""NVML's reasons for a clock that an administrator set."""


def server_throttled(measurement: Measurement, _: ScenarioConditions) -> Violations:
    """Yield a violation if the CPU limit of a node's servers withheld CPU time from them.

    The kernel counts it for each CPU that holds tasks back, so it adds up like CPU time.
    """
    for node, seconds in _by_node(measurement, lambda node: node.server_throttled_seconds):
        used = node.server_cpu_seconds
        if used is None:  # at most all CPU time of the node
            used = _window_seconds(measurement) * max(1, node.cpu_count or 0)
        share = seconds / (seconds + used) if seconds else 0.0
        if share > THROTTLED_LIMIT:
            yield Violation(
                f"The CPU limit of the servers on {node.node} withheld {seconds:.3g} s of CPU "
                f"time, {100 * share:.3g} % of what they could have used; the limit is 1 %.",
                f"{100 * share:.3g} %",
                "1 %",
                share / THROTTLED_LIMIT,
                node.node,
            )


def cpu_steal(measurement: Measurement, _: ScenarioConditions) -> Violations:
    """Yield a violation if the hypervisor gave a node's CPUs to other guests."""
    for node, seconds in _by_node(measurement, lambda node: node.steal_seconds):
        share = seconds / _window_seconds(measurement) / max(1, node.cpu_count or 0)
        if share > STEAL_LIMIT:
            yield Violation(
                f"The hypervisor gave {100 * share:.3g} % of the CPU time of {node.node} to other "
                "guests; the limit is 1 %.",
                f"{100 * share:.3g} %",
                "1 %",
                share / STEAL_LIMIT,
                node.node,
            )


def gpu_throttled(measurement: Measurement, _: ScenarioConditions) -> Violations:
    """Yield a violation if something other than a setting held a GPU's clock down."""
    for node in measurement.step.telemetry:
        samples = [each for each in node.samples if each.at_milliseconds >= 0]
        for gpu in sorted({gpu for sample in samples for gpu in sample.gpu_throttle_reasons}):
            reported = [sample.gpu_throttle_reasons.get(gpu, []) for sample in samples]
            held = [forced for each in reported if (forced := {*each} - CONFIGURED_CLOCKS)]
            share = len(held) / len(samples)
            if share > GPU_THROTTLED_LIMIT:
                reasons = ", ".join(sorted({reason for each in held for reason in each}))
                yield Violation(
                    f"The clock of {gpu} on {node.node} was throttled ({reasons}) in "
                    f"{100 * share:.3g} % of the samples; the limit is 10 %.",
                    f"{100 * share:.3g} %",
                    "10 %",
                    share / GPU_THROTTLED_LIMIT,
                    f"{gpu} on {node.node}",
                )


def energy_unavailable(measurement: Measurement, conditions: ScenarioConditions) -> Violations:
    """Yield a violation if energy was requested and none was measured."""
    energy = measurement.step.energy
    if conditions.energy_requested and energy.attribution == "unavailable":
        yield Violation(f"Energy was not measured: {energy.reason}.", "unavailable", "measured")


def energy_incomplete(measurement: Measurement, _: ScenarioConditions) -> Violations:
    """Yield a violation if the energy leaves something out."""
    left_out = measurement.step.energy.not_covered
    if left_out:
        yield Violation(
            f"The energy is incomplete: {'; '.join(left_out)}.",
            f"{len(left_out)} left out",
            "none left out",
        )


def _by_node(
    measurement: Measurement, read: Callable[[NodeTelemetry], float | None]
) -> Iterator[tuple[NodeTelemetry, float]]:
    for node in measurement.step.telemetry:
        value = read(node)
        if value is not None:
            yield node, value


def _window_seconds(measurement: Measurement) -> float:
    return max(1, measurement.step.duration_nanoseconds) / SECOND_NS
