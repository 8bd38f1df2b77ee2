"""Planned durations of the scenarios of a run."""

from dataclasses import dataclass

from inferometer_api.scenarios.table import SCENARIOS, effective_validity, step_settings
from inferometer_api.spec.resolve import restarts_server
from inferometer_api.spec.run import RunSpec
from inferometer_api.spec.scenario import Scenario

RESTART_SECONDS = 2
"""Planned length of a restart of the server between repeats: that of a small model on one machine.

A large model takes longer to load, and a cluster to start a pod.
"""
_PROBE_WARM_UP = 1.25
"""A probe with its warm-up, in units of its longest window."""


@dataclass(frozen=True, slots=True)
class PlannedDuration:
    """How long one repeat of a scenario takes, warm-up included."""

    least_seconds: float
    """If it becomes VALID; 0 for a search, which ends as soon as it knows its peak."""
    most_seconds: float
    """Until its limits end it, without the preparation of requests and the last replies."""
    idle_seconds: float = 0.0
    """What is added if energy can be measured: the idle power is measured before each step."""


def restart_count(spec: RunSpec) -> int:
    """Return how often the server of a resolved run is restarted between its repeats."""
    return spec.validity.repeats - 1 if restarts_server(spec) else 0


def planned_duration(scenario: Scenario, spec: RunSpec) -> PlannedDuration:
    """Return how long one repeat of a scenario takes.

    At most: a warm-up until steady takes as long as a window may, a search ends after the probe in
    which its time is over, and the timing of layers takes its budget. The idle power is measured
    before each step but a probe.
    """
    kind, load = SCENARIOS[scenario.kind], scenario.load_profile
    validity = effective_validity(scenario, spec.validity)
    most = float(validity.max_duration_seconds + load.added_seconds)
    if kind.search is not None:
        most += _PROBE_WARM_UP * kind.search(load).max_seconds
    elif validity.warm_up == "UntilSteady":
        most += max(most, validity.warm_up_seconds)
    else:
        most += validity.warm_up_seconds
    idle = 0.0
    if kind.search is None and spec.telemetry.power != "Disabled":
        idle = float(spec.telemetry.idle_seconds * len(step_settings(scenario)))
    return PlannedDuration(kind.least_seconds(load, validity), most, idle)
