"""All checks of a run against a cluster, from the API server to the last node."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from inferometer_api.document import API_VERSION
from inferometer_api.spec.address import AddressError
from inferometer_api.spec.resolve import fill_defaults
from inferometer_api.spec.run import BenchmarkRun
from inferometer_cli.cluster.api import Cluster, ClusterUnreachableError
from inferometer_cli.preflight.api_server import (
    definition_check,
    namespace_check,
    rights_checks,
    version_check,
)
from inferometer_cli.preflight.check import Check, Json, Unread, blocked, ok, unknown
from inferometer_cli.preflight.images import class_checks, image_checks
from inferometer_cli.preflight.limits import limit_checks
from inferometer_cli.preflight.nodes import known_faults, node_checks
from inferometer_cli.preflight.operators import (
    ASSUMED,
    operator_checks,
    operators,
    queue_check,
    serving,
)
from inferometer_cli.preflight.pods import Pods, pods_of
from inferometer_cli.preflight.quota import quota_checks
from inferometer_cli.preflight.references import (
    Named,
    ceiling_checks,
    reference_checks,
    spec_checks,
)
from inferometer_cli.preflight.survey import (
    Survey,
    dry_run,
    read_classes,
    read_references,
    read_service,
    survey,
)
from inferometer_operator.settings import ServerNotAllowedError, Settings


@dataclass(frozen=True, slots=True)
class RequestedRun:
    """A run and what the cluster says about it."""

    run: BenchmarkRun
    """Resolved."""
    named: Named
    classes: Mapping[tuple[str, str], Json | Unread]
    tried: Json | Unread | None
    """The API server's answer to a dry-run creation; None if it was not tried."""


def assess(cluster: Cluster, run: BenchmarkRun | None) -> Iterator[Check]:
    """Yield every check of a run, or of a run with defaults if none is given."""
    try:
        found = survey(cluster)
        yield from cluster_checks(found, cluster.namespace, datetime.now(tz=UTC))
        yield from _of_run(cluster, found, run)
    except ClusterUnreachableError as error:
        yield blocked("API server", str(error).rstrip("."))


def _of_run(cluster: Cluster, found: Survey, run: BenchmarkRun | None) -> Iterator[Check]:
    settings = settings_of(found, cluster.namespace)
    meant = default_run(cluster.namespace) if run is None else fill_defaults(run)
    try:
        pods = pods_of(meant, settings or ASSUMED)
    except (AddressError, ServerNotAllowedError) as error:
        yield blocked("spec", str(error).rstrip("."))
        return
    requested = RequestedRun(
        run=meant,
        named=Named(read_references(cluster, meant), read_service(cluster, meant), settings),
        classes=read_classes(cluster, pods),
        tried=None if run is None else dry_run(cluster, _as_created(run, cluster.namespace)),
    )
    yield from run_checks(found, requested, pods)


def _as_created(run: BenchmarkRun, namespace: str) -> dict[str, object]:
    body = run.model_dump(mode="json", exclude_none=True, exclude_unset=True)
    return body | {"metadata": {**body["metadata"], "namespace": namespace}}


def default_run(namespace: str) -> BenchmarkRun:
    """Return the run that is checked if no file is given: all defaults."""
    return fill_defaults(
        BenchmarkRun.model_validate(
            {
                "apiVersion": API_VERSION,
                "kind": "BenchmarkRun",
                "metadata": {"name": "preflight", "namespace": namespace},
                "spec": {
                    "model": {"uri": "zoo://classification/resnet50"},
                    "scenarios": [{"name": "latency", "singleStream": {}}],
                },
            }
        )
    )


def settings_of(found: Survey, namespace: str) -> Settings | None:
    """Return the settings of the operator that serves a namespace, None if unknown."""
    settings = found.operators.settings
    if isinstance(settings, Unread):
        return None
    operator = serving(operators(settings), namespace)
    return None if operator is None else operator.settings


def cluster_checks(found: Survey, namespace: str, now: datetime) -> Iterator[Check]:
    """Yield the checks that do not depend on the run."""
    yield version_check(found.version, found.host)
    yield definition_check(found.openapi)
    yield namespace_check(found.namespace, namespace)
    yield from rights_checks(found.rights, namespace)
    yield from operator_checks(found.operators, namespace, now)


def run_checks(found: Survey, requested: RequestedRun, pods: Sequence[Pods]) -> Iterator[Check]:
    """Yield the checks of a run; `pods` are those that the operator would create."""
    yield from spec_checks(requested.run)
    if requested.tried is not None:
        yield creation_check(requested.tried, "run")
    yield from ceiling_checks(requested.run, requested.named.settings)
    yield from reference_checks(requested.run, requested.named)
    yield queue_check(found.runs, requested.named.settings or ASSUMED)
    if requested.named.settings is None:
        yield unknown("settings", "the operator's settings; assuming the chart's defaults")
    yield from quota_checks(found.quotas, pods)
    yield from limit_checks(found.limit_ranges, pods)
    faults = known_faults(found.node_benchmarks, datetime.now(tz=UTC))
    yield from node_checks(found.nodes, found.pods, pods, faults)
    if requested.named.settings is not None:
        yield from image_checks(pods, found.nodes)
    yield from class_checks(pods, requested.classes)


def creation_check(tried: Json | Unread, what: str) -> Check:
    """Check the API server's answer to the dry-run creation of a run or a suite."""
    if not isinstance(tried, Unread):
        return ok("creation", f"the API server accepts the {what} (dry run)")
    if tried.absent:
        # The definition or the namespace is missing, which other checks report.
        return unknown("creation", f"whether the API server accepts the {what}: {tried.why}")
    if "already exists" in tried.why:
        return blocked(
            "creation", f"{tried.why}; delete that {what}, or give this one another name"
        )
    return blocked("creation", tried.why)
