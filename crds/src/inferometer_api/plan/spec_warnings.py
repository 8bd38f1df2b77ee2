"""Warnings about valid specs whose result may disappoint.

The run is measured all the same. The warnings are noted in the result's environment.
"""

from collections.abc import Iterator

from inferometer_api.runtimes.table import RUNTIMES
from inferometer_api.scenarios.planned_duration import (
    RESTART_SECONDS,
    planned_duration,
    restart_count,
)
from inferometer_api.scenarios.table import SCENARIOS, effective_validity, fewest_clients
from inferometer_api.spec.run import BenchmarkRun, Retention, RunSpec
from inferometer_api.spec.scenario import Scenario


def spec_warnings(spec: RunSpec) -> tuple[str, ...]:
    """Return one sentence for each warning; each begins with the path of a field."""
    of_scenarios = (
        f"spec.scenarios[{index}].{scenario.kind}{sentence}"
        for index, scenario in enumerate(spec.scenarios)
        for sentence in _scenario_warnings(scenario, spec)
    )
    return (*_few_connections(spec), *of_scenarios, *_short_deadline(spec))


def local_notes(run: BenchmarkRun) -> tuple[str, ...]:
    """Return a sentence for each thing in the spec that a local run does not enforce."""
    descriptor = RUNTIMES.get(run.spec.server.runtime)
    launch = None if descriptor is None else descriptor.launch
    local = None if launch is None else launch.local
    notes = () if local is None else local.notes(run.spec.server)
    if run.spec.retention == Retention():
        return notes
    retention = (
        "spec.retention is for clusters: a local run always ends its processes and keeps its "
        "result until you delete it."
    )
    return (*notes, retention)


def _few_connections(spec: RunSpec) -> Iterator[str]:
    connections, workers = spec.load.connections, spec.load.workers
    if connections < workers and any(_shares_connections(each, spec) for each in spec.scenarios):
        yield (
            f"spec.load.connections ({connections}) is less than spec.load.workers ({workers}). "
            f"Each worker has at least one connection, so there will be {workers:,} to each server."
        )


def _shares_connections(scenario: Scenario, spec: RunSpec) -> bool:
    match SCENARIOS[scenario.kind].shares_connections:
        case "over gRPC":
            return spec.load.protocol == "GRPC"
        case shared:
            return shared == "always"


def _short_deadline(spec: RunSpec) -> Iterator[str]:
    deadline = spec.active_deadline_seconds
    each_repeat = sum(planned_duration(each, spec).least_seconds for each in spec.scenarios)
    restarts = restart_count(spec)
    least = spec.validity.repeats * each_repeat + restarts * RESTART_SECONDS
    if least > deadline:
        many = "1 restart" if restarts == 1 else f"{restarts} restarts"
        of_server = f", and {many} of the server," if restarts else ""
        yield (
            f"spec.activeDeadlineSeconds ({deadline}) is less than the {least:,.0f} s that the "
            f"warm-ups and windows of all scenarios and repeats{of_server} take at least: the run "
            "will be Failed (DeadlineExceeded)."
        )


def _scenario_warnings(scenario: Scenario, spec: RunSpec) -> Iterator[str]:
    validity = effective_validity(scenario, spec.validity)
    yield from SCENARIOS[scenario.kind].warnings(scenario.load_profile, validity)
    clients = fewest_clients(scenario)
    if clients is not None and clients < spec.load.workers:
        many = "1 client" if clients == 1 else f"{clients} clients in a step"
        yield (
            f" has {many}, fewer than spec.load.workers ({spec.load.workers}). The other "
            "workers will send nothing."
        )
