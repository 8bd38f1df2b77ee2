"""All checks of a suite against a cluster: the suite, its systems, and each of its cells."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from inferometer_api.spec.address import AddressError
from inferometer_api.spec.resolve import fill_defaults
from inferometer_api.spec.run import BenchmarkRun
from inferometer_api.suite.plan_suite import (
    ANYWHERE,
    InvalidSuiteError,
    PlannedRun,
    SuitePlan,
    System,
    plan_suite,
)
from inferometer_api.suite.spec import BenchmarkSuite
from inferometer_api.suite.systems import find_systems, left_out_nodes
from inferometer_api.wording import counted, short_list
from inferometer_cli.cluster.api import Cluster, ClusterUnreachableError
from inferometer_cli.preflight.assess import (
    RequestedRun,
    cluster_checks,
    creation_check,
    run_checks,
    settings_of,
)
from inferometer_cli.preflight.check import Check, Json, Unread, blocked, ok, unknown
from inferometer_cli.preflight.images import named_classes
from inferometer_cli.preflight.operators import ASSUMED
from inferometer_cli.preflight.pods import Pods, pods_of
from inferometer_cli.preflight.references import Named
from inferometer_cli.preflight.survey import (
    Survey,
    dry_run_suite,
    read_classes,
    read_references,
    read_service,
    survey,
)
from inferometer_operator.reconcile.references import run_references
from inferometer_operator.reconcile.suite.reuse import lacking_for_reuse
from inferometer_operator.settings import Settings


def assess_suite(cluster: Cluster, suite: BenchmarkSuite) -> Iterator[Check]:
    """Yield every check of a suite."""
    try:
        found = survey(cluster)
        yield from cluster_checks(found, cluster.namespace, datetime.now(tz=UTC))
        yield creation_check(dry_run_suite(cluster, suite), "suite")
        settings = settings_of(found, cluster.namespace)
        plan, checks = plan_checks(suite, settings, found.nodes)
        yield from checks
        if plan is not None:
            yield from _cell_checks(cluster, found, settings, plan)
    except ClusterUnreachableError as error:
        yield blocked("API server", str(error).rstrip("."))


def plan_checks(
    suite: BenchmarkSuite, settings: Settings | None, nodes: Sequence[Json] | Unread
) -> tuple[SuitePlan | None, list[Check]]:
    """Return the plan of a suite, None if there is none, and what was found on the way."""
    checks = []
    if suite.spec.reuse and settings is not None and (lacking := lacking_for_reuse(settings)):
        checks.append(blocked("reuse", lacking.rstrip(".")))
    systems: Sequence[System] = (ANYWHERE,)
    wanted = suite.spec.systems
    if wanted is not None:
        if settings is not None and not settings.read_nodes:
            checks.append(
                blocked("systems", "the operator may not read nodes; set readNodes in the chart")
            )
        if isinstance(nodes, Unread):
            checks.append(unknown("systems", f"which nodes match spec.systems: {nodes.why}"))
        else:
            tolerations = suite.spec.template.spec.server.placement.tolerations
            systems = find_systems(wanted, nodes, tolerations)
            names = short_list([system.name for system in systems])
            if systems:
                checks.append(ok("systems", f"{len(systems)} match: {names}"))
            if left_out := left_out_nodes(wanted, nodes, tolerations):
                checks.append(ok("systems", left_out.rstrip(".")))
    try:
        plan = plan_suite(suite, systems)
    except InvalidSuiteError as error:
        return None, [*checks, *(blocked("spec", text.rstrip(".")) for text in error.problems)]
    count = f"{counted(len(plan.cells), 'cell')}, {counted(len(plan.runs), 'run')}"
    return plan, [*checks, ok("spec", f"{count}; each cell is a valid run")]


def _cell_checks(
    cluster: Cluster, found: Survey, settings: Settings | None, plan: SuitePlan
) -> Iterator[Check]:
    """Yield the checks of the cells; those of several cells once, with the first one's name."""
    first = {(run.cell, run.block.system.name): run for run in reversed(plan.runs)}
    reads = _Reads(cluster, settings)
    of_cells: dict[Check, list[str]] = {}
    for planned in first.values():
        for check in _checks_of_run(planned, found, reads):
            if (check.about, check.state) != ("spec", "ok"):
                of_cells.setdefault(check, []).append(planned.label)
    yield from together(of_cells, len(first))


def together(of_cells: dict[Check, list[str]], cells: int) -> Iterator[Check]:
    """Yield each check once; one that does not hold for all cells names those that it holds for."""
    for check, labels in of_cells.items():
        if len(labels) == cells:
            yield check
        elif check.state != "ok":
            more = f" and {len(labels) - 1} more" if len(labels) > 1 else ""
            yield Check(check.state, check.about, f"cell {labels[0]}{more}: {check.message}")


def _checks_of_run(planned: PlannedRun, found: Survey, reads: "_Reads") -> Iterator[Check]:
    run = fill_defaults(planned.run)
    try:
        pods = pods_of(run, reads.settings or ASSUMED)
    except AddressError as error:
        yield blocked("spec", str(error).rstrip("."))
        return
    yield from run_checks(found, reads.read_run(run, pods), pods)


class _Reads:
    """What the runs of a suite name in the cluster, each read once."""

    def __init__(self, cluster: Cluster, settings: Settings | None) -> None:
        self.settings = settings
        self._cluster = cluster
        self._named: dict[object, Named] = {}
        self._classes: dict[object, dict[tuple[str, str], Json | Unread]] = {}

    def read_run(self, run: BenchmarkRun, pods: Sequence[Pods]) -> RequestedRun:
        """Return a run with what the cluster says about it."""
        external = run.spec.server.external
        service = None if external is None or external.service is None else external.service.name
        names, classes = (run_references(run), service), tuple(named_classes(pods))
        if names not in self._named:
            self._named[names] = Named(
                read_references(self._cluster, run), read_service(self._cluster, run), self.settings
            )
        if classes not in self._classes:
            self._classes[classes] = read_classes(self._cluster, pods)
        return RequestedRun(run, self._named[names], self._classes[classes], tried=None)
