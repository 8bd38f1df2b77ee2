"""How is a cluster looked over for a run, from the API server to the last node?"""

from collections.abc import Iterator
from datetime import UTC, datetime

from inferometer_api.spec.address import AddressError
from inferometer_api.spec.resolve import resolved
from inferometer_api.spec.run import BenchmarkRun
from inferometer_cli.cluster.api import Cluster, UnreachableError
from inferometer_cli.preflight.check import Check, stops
from inferometer_cli.preflight.judge import (
    Asked,
    a_plain_run,
    cluster_checks,
    run_checks,
    settings_of,
)
from inferometer_cli.preflight.operators import ASSUMED
from inferometer_cli.preflight.pods import pods_of
from inferometer_cli.preflight.references import Named
from inferometer_cli.preflight.survey import (
    Survey,
    read_classes,
    read_references,
    read_service,
    survey,
    tried,
)


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
