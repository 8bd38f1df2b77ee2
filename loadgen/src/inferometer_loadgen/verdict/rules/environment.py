"""Rules about the run as a whole: how it ended, where it ran, and on what."""

from inferometer_loadgen.schedule.steps import End
from inferometer_loadgen.verdict.measurement import ScenarioConditions, Violation, Violations


def ended_early(conditions: ScenarioConditions) -> Violations:
    """Yield a violation if something other than the run's own limits ended the scenario."""
    why = conditions.cut_short
    if why is not None:
        yield Violation(f"The scenario ended early because {why.value}.", why.value, End.DONE.value)


def server_restarted(conditions: ScenarioConditions) -> Violations:
    """Yield a violation if another server process answers than at first."""
    if conditions.server_restarted:
        yield Violation(
            "The server was restarted during the measurement.", "restarted", "one process"
        )


def single_window(conditions: ScenarioConditions) -> Violations:
    """Yield a violation if the scenario is measured only once."""
    if conditions.single_window:
        yield Violation("The scenario was measured once.", "1 repeat", "2 repeats")


def server_not_ready(conditions: ScenarioConditions) -> Violations:
    """Yield a violation if the model was ready and its server was not."""
    if conditions.unready_server:
        yield Violation(
            f"The model was ready, but not its server: {conditions.unready_server}.",
            "not ready",
            "ready",
        )


def server_colocated(conditions: ScenarioConditions) -> Violations:
    """Yield a violation if server and load generator share one machine."""
    if conditions.colocated:
        yield Violation(
            "Server and load generator share one machine; the load generator may use "
            f"{conditions.cpu_count} CPU{'s' * (conditions.cpu_count != 1)}.",
            "one machine",
            "two machines",
        )


def load_node_unfit(conditions: ScenarioConditions) -> Violations:
    """Yield a violation for each fault of a node that load comes from."""
    for fault in conditions.load_node_faults:
        yield Violation(fault.sentence, fault.figure, fault.limit, subject=fault.node)


def server_not_guaranteed(conditions: ScenarioConditions) -> Violations:
    """Yield a violation if a server's pod may get less CPU or memory than it requested."""
    if conditions.not_guaranteed:
        classes = " and ".join(conditions.not_guaranteed)
        yield Violation(
            f"The server's pod has the quality-of-service class {classes}, not Guaranteed.",
            classes,
            "Guaranteed",
        )


def engine_setting(conditions: ScenarioConditions) -> Violations:
    """Yield a violation for each setting that the engine did not take."""
    for setting, requested, effective, detail in conditions.not_obtained:
        explained = f": {detail}" if detail else ""
        yield Violation(
            f"The {setting} {requested} was requested, and the engine computes with "
            f"{effective or 'an unknown one'}{explained}.",
            effective or "unknown",
            requested,
            subject=setting,
        )


def unexpected_prediction(conditions: ScenarioConditions) -> Violations:
    """Yield a violation if predictions are not those that the manifest states."""
    if conditions.expectation_broken:
        yield Violation(f"{conditions.expectation_broken}.", "different", "the same")


def constraint_unchecked(conditions: ScenarioConditions) -> Violations:
    """Yield a violation if it is not known whether the engine satisfies the manifest."""
    if conditions.unchecked_constraint:
        yield Violation(
            f"The manifest needs {conditions.unchecked_constraint}, and the version of the "
            "server's engine is not known.",
            "unknown",
            conditions.unchecked_constraint,
        )


def compute_fell_back(conditions: ScenarioConditions) -> Violations:
    """Yield a violation if compute nodes of a graph for the GPU ran on the CPU."""
    count = conditions.compute_nodes_fell_back
    if count:
        yield Violation(
            f"{count} compute nodes of the graph ran on the CPU instead of the GPU; none may.",
            str(count),
            "0",
        )
