"""All checks of a NodeBenchmark against a cluster: the operator, its rights, and the nodes."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from inferometer_api.crd import NODE_BENCHMARK_PLURAL
from inferometer_api.nodes.benchmark import MOST_NODES, NodeBenchmark
from inferometer_api.nodes.selection import GPU_RESOURCE, nodes_to_measure
from inferometer_api.wording import short_list
from inferometer_cli.cluster.api import Cluster, ClusterUnreachableError
from inferometer_cli.preflight.assess import cluster_checks, creation_check, settings_of
from inferometer_cli.preflight.check import (
    Check,
    Json,
    Unread,
    blocked,
    ok,
    unknown,
    warning,
)
from inferometer_cli.preflight.survey import dry_run_document, survey
from inferometer_operator.settings import Settings


def assess_node_benchmark(cluster: Cluster, benchmark: NodeBenchmark) -> Iterator[Check]:
    """Yield every check of a NodeBenchmark."""
    try:
        found = survey(cluster)
        yield from cluster_checks(found, cluster.namespace, datetime.now(tz=UTC))
        tried = dry_run_document(cluster, benchmark, NODE_BENCHMARK_PLURAL)
        yield creation_check(tried, "NodeBenchmark")
        yield from node_checks(benchmark, settings_of(found, cluster.namespace), found.nodes)
    except ClusterUnreachableError as error:
        yield blocked("API server", str(error).rstrip("."))


def node_checks(
    benchmark: NodeBenchmark, settings: Settings | None, nodes: Sequence[Json] | Unread
) -> Iterator[Check]:
    """Yield whether the operator may see nodes, and which of them match."""
    if settings is not None and not settings.read_nodes:
        yield blocked("nodes", "the operator may not read nodes; set readNodes in the chart")
    if isinstance(nodes, Unread):
        yield unknown("nodes", f"which nodes match spec.nodeSelector: {nodes.why}")
        return
    spec = benchmark.spec
    most = None if settings is None else settings.ceilings.gpus
    if most is not None and spec.gpus > most:
        yield blocked("GPUs", f"spec.gpus is {spec.gpus}, and the operator's ceiling is {most}")
    gpus = nodes_to_measure(spec, nodes, () if settings is None else settings.gpu.tolerations)
    names = list(gpus)
    if spec.gpus and names and not any(gpus.values()):
        yield warning("GPUs", f"no matching node offers {GPU_RESOURCE}: none is measured")
    if not names:
        yield blocked(
            "nodes",
            f"none of {len(nodes)} nodes matches spec.nodeSelector and is ready, schedulable and "
            "without a taint that is not tolerated",
        )
    elif len(names) > MOST_NODES:
        yield blocked("nodes", f"{len(names)} match; at most {MOST_NODES} can be measured at once")
    else:
        yield ok("nodes", f"{len(names)} match: {short_list(names)}")
