"""Rules about other processes: whether they used the CPUs that the measurement needed."""

from collections.abc import Sequence

from inferometer_api.results.result import OtherLoad, Step
from inferometer_loadgen.verdict.measurement import (
    Measurement,
    ScenarioConditions,
    Violation,
    Violations,
)

BUSY_MACHINE, OTHER_PROCESSES = "BusyMachine", "OtherProcesses"
OTHERS_LIMIT = 0.1
"""Share of a machine's CPUs that other processes may use."""
BUSY_LIMIT = 0.5
FULL_LIMIT = 0.9
"""Share of the CPUs in use, by all processes, from which the load generator or the server may wait
for one."""
_LEAST_UNNAMED = 0.2
"""Share of the CPU use of others from which the part without a name is reported."""
_OF_THE_CLIENT = frozenset({"ClientStarved", "ClientStall", "DispatchLag"})
_OF_THE_SERVER = (
    "LatencyBound",
    "PeakNotFound",
    "BoundCannotBeMet",
    "AchievedRate",
    "Unsteady",
    "ServerStall",
)


def explains(rule: str) -> bool:
    """Return whether a busy machine takes the place of a rule's reason."""
    return rule in _OF_THE_CLIENT


def busy_machine(steps: Sequence[Step], rules: Sequence[str]) -> Violations:
    """Yield a violation if others used the CPUs of a machine while steps broke these rules."""
    late = [rule for rule in rules if rule in _OF_THE_CLIENT]
    slow = [rule for rule in rules if rule in _OF_THE_SERVER]
    least = BUSY_LIMIT if late else FULL_LIMIT
    busy = [each for step in steps for each in step.other_load if _is_busy(each, least)]
    if busy and (late or slow):
        yield _violation(busy, _effects(late, slow))


def other_processes(measurement: Measurement, conditions: ScenarioConditions) -> Violations:
    """Yield a violation if others used the CPUs of a machine, whether or not a figure shows it."""
    del conditions  # it holds for every kind of scenario
    busy = [each for each in measurement.step.other_load if _is_busy(each, BUSY_LIMIT)]
    if busy:
        yield _violation(busy, "")


def _violation(busy: Sequence[OtherLoad], effects: str) -> Violation:
    worst = max(busy, key=lambda each: each.other_cores / each.cpu_count)
    limit = OTHERS_LIMIT * worst.cpu_count
    return Violation(
        f"{_used(worst)}{effects}",
        f"{worst.other_cores:.1f} of {worst.cpu_count} CPUs",
        f"{limit:.1f} CPUs",
        worst.other_cores / limit,
    )


def _is_busy(load: OtherLoad, least: float) -> bool:
    return (
        load.other_cores > OTHERS_LIMIT * load.cpu_count
        and load.busy_cores >= least * load.cpu_count
    )


def _used(load: OtherLoad) -> str:
    """Return a sentence about what others used, with their names if they are known."""
    cpus = f"{load.other_cores:.1f} of the {load.cpu_count} CPUs"
    if load.node:
        return f"Other pods and processes used {cpus} of {load.node}."
    names = [
        f"{each.name}{f' ({each.processes} processes)' * (each.processes > 1)} {each.cpu_cores:.1f}"
        for each in load.processes
    ]
    left = load.other_cores - sum(each.cpu_cores for each in load.processes)
    if names and left >= _LEAST_UNNAMED * load.other_cores:
        names.append(f"processes that ended or used little {left:.1f}")
    return f"Other processes used {cpus} of this machine{': ' if names else ''}{', '.join(names)}."


def _effects(late: Sequence[str], slow: Sequence[str]) -> str:
    """Return sentences about the rules that this explains, and that it may explain."""
    text = f" The load generator was late ({', '.join(late)})." if late else ""
    if slow:
        text += f" This may be the cause of {', '.join(slow)}{' as well' if late else ''}."
    return text
