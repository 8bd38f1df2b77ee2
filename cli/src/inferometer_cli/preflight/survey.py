"""The state of a cluster and a namespace, read for the checks before a run."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import quote

from inferometer_api.crd import NODE_BENCHMARK_PLURAL, PLURAL, SUITE_PLURAL
from inferometer_api.nodes.benchmark import NodeBenchmark
from inferometer_api.plan.cluster_objects import GROUP, LEASE
from inferometer_api.spec.run import BenchmarkRun
from inferometer_api.suite.spec import BenchmarkSuite
from inferometer_cli.cluster.api import Cluster, ClusterUnreachableError, NotThereError
from inferometer_cli.exits import RefusedError
from inferometer_cli.preflight.api_server import RIGHTS, Right
from inferometer_cli.preflight.check import Json, Unread
from inferometer_cli.preflight.images import named_classes
from inferometer_cli.preflight.operators import SELECTOR, OperatorEvidence
from inferometer_cli.preflight.pods import Pods
from inferometer_operator.reconcile.observed import ObjectReference
from inferometer_operator.reconcile.references import run_references

Many = list[Json] | Unread
One = Json | Unread

_PLURALS = {
    "Secret": "secrets",
    "ConfigMap": "configmaps",
    "PersistentVolumeClaim": "persistentvolumeclaims",
}
_DENIED = re.compile(r'cannot (\w+) resource "([^"]+)"')
"""Finds the denied right in the API server's message."""
_CLASSES = {
    "RuntimeClass": "/apis/node.k8s.io/v1/runtimeclasses",
    "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
}


@dataclass(frozen=True, slots=True)
class Survey:
    """What was read of a cluster and a namespace, independent of the run."""

    host: str
    version: Json
    openapi: One
    rights: Mapping[Right, bool | Unread]
    namespace: One
    operators: OperatorEvidence
    runs: Many
    quotas: Many
    limit_ranges: Many
    nodes: Many
    node_benchmarks: Many
    pods: Many


def survey(cluster: Cluster) -> Survey:
    """Read all that can be read.

    Raises ClusterUnreachableError if the API server does not answer.
    """
    name = cluster.namespace
    node_benchmarks = cluster.run_path().removesuffix(PLURAL) + NODE_BENCHMARK_PLURAL
    return Survey(
        host=cluster.host,
        version=cluster.read("/version"),
        openapi=_one(lambda: cluster.read(f"/openapi/v3/apis/{GROUP}/v1alpha1")),
        rights={right: _may(cluster, right) for right in RIGHTS},
        namespace=_one(lambda: cluster.read(f"/api/v1/namespaces/{quote(name)}")),
        operators=_operators(cluster),
        runs=_many(cluster, cluster.run_path()),
        quotas=_many(cluster, cluster.core_path("resourcequotas")),
        limit_ranges=_many(cluster, cluster.core_path("limitranges")),
        nodes=_many(cluster, "/api/v1/nodes"),
        node_benchmarks=_many(cluster, node_benchmarks),
        pods=_many(cluster, "/api/v1/pods"),
    )


def read_references(cluster: Cluster, run: BenchmarkRun) -> dict[ObjectReference, One]:
    """Return every object that a run names; of Secrets, read only the metadata."""

    def read(reference: ObjectReference) -> One:
        path = cluster.core_path(_PLURALS[reference.kind], reference.name)
        return _one(lambda: cluster.read(path, metadata_only=reference.kind == "Secret"))

    return {reference: read(reference) for reference in run_references(run)}


def read_service(cluster: Cluster, run: BenchmarkRun) -> One | None:
    """Return the Service of an External server, None if the run names none."""
    external = run.spec.server.external
    if external is None or external.service is None:
        return None
    path = cluster.core_path("services", external.service.name)
    return _one(lambda: cluster.read(path))


def read_classes(cluster: Cluster, pods: Sequence[Pods]) -> dict[tuple[str, str], One]:
    """Return the runtime and priority classes that pods name, by kind and name."""

    def read(kind: str, name: str) -> One:
        return _one(lambda: cluster.read(f"{_CLASSES[kind]}/{quote(name)}"))

    return {(kind, name): read(kind, name) for kind, name in named_classes(pods)}


def dry_run(cluster: Cluster, run: Mapping[str, Any]) -> One:
    """Return the API server's answer to a dry-run creation of the run."""
    strict = f"{cluster.run_path()}?dryRun=All&fieldValidation=Strict"
    return _one(lambda: cluster.create(strict, run))


def dry_run_suite(cluster: Cluster, suite: BenchmarkSuite) -> One:
    """Return the API server's answer to a dry-run creation of the suite."""
    return dry_run_document(cluster, suite, SUITE_PLURAL)


def dry_run_document(
    cluster: Cluster, document: BenchmarkSuite | NodeBenchmark, plural: str
) -> One:
    """Return the API server's answer to a dry-run creation of a document of that kind."""
    body = document.model_dump(mode="json", exclude_none=True, exclude_unset=True)
    body["metadata"]["namespace"] = cluster.namespace
    path = cluster.run_path().removesuffix(PLURAL) + plural
    return _one(lambda: cluster.create(f"{path}?dryRun=All&fieldValidation=Strict", body))


def _operators(cluster: Cluster) -> OperatorEvidence:
    """Read the operators' objects in all namespaces or, without that right, in this one."""
    labelled = {"labelSelector": SELECTOR}
    everywhere = _many(cluster, "/api/v1/configmaps", labelled)
    beyond = everywhere if isinstance(everywhere, Unread) else None
    within = f"/namespaces/{quote(cluster.namespace)}" if beyond is not None else ""
    leases = f"/apis/coordination.k8s.io/v1{within}/leases"
    return OperatorEvidence(
        settings=_many(cluster, f"/api/v1{within}/configmaps", labelled),
        deployments=_many(cluster, f"/apis/apps/v1{within}/deployments", labelled),
        leases=_many(cluster, leases, {"fieldSelector": f"metadata.name={LEASE}"}),
        beyond=beyond,
    )


def _may(cluster: Cluster, right: Right) -> bool | Unread:
    verb, resource = right
    attributes = {
        "namespace": cluster.namespace,
        "verb": verb,
        "resource": resource,
        "group": GROUP if resource == "benchmarkruns" else "",
    }
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    answer = _one(lambda: cluster.create(path, review))
    if isinstance(answer, Unread):
        return answer
    return bool(answer["status"].get("allowed"))


def _many(cluster: Cluster, path: str, query: Mapping[str, str] | None = None) -> Many:
    answer = _one(lambda: cluster.read(path, query))
    return answer if isinstance(answer, Unread) else cast("list[Json]", answer.get("items") or [])


def _one(read: Callable[[], Json]) -> One:
    try:
        return read()
    except ClusterUnreachableError:
        raise
    except NotThereError as absent:
        return Unread(str(absent).rstrip("."), absent=True)
    except RefusedError as refusal:
        denied = _DENIED.search(str(refusal))
        why = f"you may not {denied[1]} {denied[2]}" if denied else str(refusal).rstrip(".")
        return Unread(why)
