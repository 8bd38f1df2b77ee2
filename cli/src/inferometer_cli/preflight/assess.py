"""What would stop this run on that cluster?"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from inferometer_api.document import API_VERSION
from inferometer_api.spec.address import AddressError
from inferometer_api.spec.resolve import resolved
from inferometer_api.spec.run import BenchmarkRun
from inferometer_cli.cluster.api import Cluster, UnreachableError
from inferometer_cli.preflight.api_server import (
    definition_check,
    namespace_check,
    rights_checks,
    version_check,
)
from inferometer_cli.preflight.check import Check, Json, Unread, not_known, ok, stops
from inferometer_cli.preflight.images import class_checks, image_checks
from inferometer_cli.preflight.limits import limit_checks
from inferometer_cli.preflight.nodes import node_checks
from inferometer_cli.preflight.operators import (
    ASSUMED,
    operator_checks,
    operators,
    queue_check,
    serving,
)
from inferometer_cli.preflight.pods import Pods, pods_of
from inferometer_cli.preflight.quota import quota_checks
from inferometer_cli.preflight.references import Named, reference_checks, spec_checks
from inferometer_cli.preflight.survey import (
    Survey,
    read_classes,
    read_references,
    read_service,
    survey,
    tried,
)
from inferometer_operator.settings import Settings


@dataclass(frozen=True, slots=True)
class Asked:
    """The run that is asked for and what the cluster said of it."""

    run: BenchmarkRun
    """Resolved."""
    named: Named
    classes: Mapping[tuple[str, str], Json | Unread]
    tried: Json | Unread | None
    """What the API server said to its creation; None: it was not tried."""


def looked_over(cluster: Cluster, run: BenchmarkRun | None) -> Iterator[Check]:
    """Yield a check for each thing that was looked at; without a run, for one with defaults."""
    try:
        found = survey(cluster)
        yield from cluster_checks(found, cluster.namespace, datetime.now(tz=UTC))
        yield from _of_run(cluster, found, run)
    except UnreachableError as error:
        yield stops("API server", str(error).rstrip("."))


def _of_run(cluster: Cluster, found: Survey, run: BenchmarkRun | None) -> Iterator[Check]:
    settings = settings_of(found, cluster.namespace)
    meant = a_plain_run(cluster.namespace) if run is None else resolved(run)
    try:
        pods = pods_of(meant, settings or ASSUMED)
    except AddressError as error:
        yield stops("spec", str(error).rstrip("."))
        return
    asked = Asked(
        run=meant,
        named=Named(read_references(cluster, meant), read_service(cluster, meant), settings),
        classes=read_classes(cluster, pods),
        tried=None if run is None else tried(cluster, _as_created(run, cluster.namespace)),
    )
    yield from run_checks(found, asked, pods)


def _as_created(run: BenchmarkRun, namespace: str) -> dict[str, object]:
    body = run.model_dump(mode="json", exclude_none=True, exclude_unset=True)
    return body | {"metadata": {**body["metadata"], "namespace": namespace}}


def a_plain_run(namespace: str) -> BenchmarkRun:
    """Return the run that is looked at where no file is given: all defaults."""
    return resolved(
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
    """Return the settings of the operator that serves a namespace, None where not known."""
    settings = found.operators.settings
    if isinstance(settings, Unread):
        return None
    operator = serving(operators(settings), namespace)
    return None if operator is None else operator.settings


def cluster_checks(found: Survey, namespace: str, now: datetime) -> Iterator[Check]:
    """Yield what holds of the cluster, whatever is asked of it."""
    yield version_check(found.version, found.host)
    yield definition_check(found.openapi)
    yield namespace_check(found.namespace, namespace)
    yield from rights_checks(found.rights, namespace)
    yield from operator_checks(found.operators, namespace, now)


def run_checks(found: Survey, asked: Asked, pods: Sequence[Pods]) -> Iterator[Check]:
    """Yield what holds of a run there; `pods` are those that the operator would make."""
    yield from spec_checks(asked.run)
    if asked.tried is not None:
        yield _creation_check(asked.tried)
    yield from reference_checks(asked.run, asked.named)
    yield queue_check(found.runs, asked.named.settings or ASSUMED)
    if asked.named.settings is None:
        yield not_known("settings", "the operator's settings; the chart's defaults are assumed")
    yield from quota_checks(found.quotas, pods)
    yield from limit_checks(found.limit_ranges, pods)
    yield from node_checks(found.nodes, found.pods, pods)
    if asked.named.settings is not None:
        yield from image_checks(pods, found.nodes)
    yield from class_checks(pods, asked.classes)


def _creation_check(tried: Json | Unread) -> Check:
    if not isinstance(tried, Unread):
        return ok("creation", "the API server would take the run (tried, nothing was kept)")
    if tried.absent:
        # The definition or the namespace is missing, which other checks say already.
        return not_known("creation", f"whether the API server would take the run: {tried.why}")
    if "already exists" in tried.why:
        return stops("creation", f"{tried.why}: delete that run, or give this one another name")
    return stops("creation", tried.why)
