"""The results service on real nodes with PostgreSQL and two replicas, one of which is killed."""

import json
from collections.abc import Iterator

import pytest

from support.cluster.cluster import Cluster
from support.cluster.namespaces import fresh_namespace
from support.cluster_postgresql import cluster_postgresql
from support.results_installed import (
    NAME,
    PODS,
    SLOW_SECONDS,
    install_service,
    push_while_killed,
    service_namespace,
)
from support.waiting import wait_until

_SECRET = "results-database"  # noqa: S105 - a name
_VALUES = {"replicas": 2, "database": {"secret": {"name": _SECRET}}}


@pytest.fixture
def service(cluster: Cluster) -> Iterator[str]:
    """Yield a namespace with a Secret that has the address of a database."""
    with cluster_postgresql(cluster) as address, service_namespace(cluster) as namespace:
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": _SECRET},
            "stringData": {"url": address},
        }
        words = ("create", "--namespace", namespace, "-f", "-")
        cluster.kubectl(*words, stdin=json.dumps(secret))
        yield namespace


def test_a_killed_replica_loses_no_document(cluster: Cluster, service: str) -> None:
    """Every document that either replica took is there once, and another pod takes its place."""
    with fresh_namespace(cluster, "pushed") as namespace:
        install_service(cluster, service, namespace, _VALUES)
        before = _pods(cluster, service)
        assert len(before) == 2
        push_while_killed(cluster, service, namespace)

    def is_whole() -> bool:
        found = cluster.get("deployment", NAME, "--namespace", service)
        return bool(found["status"].get("readyReplicas") == 2)

    wait_until(is_whole, "two ready replicas", deadline_seconds=SLOW_SECONDS)
    assert len(_pods(cluster, service) & before) == 1


def _pods(cluster: Cluster, service: str) -> set[str]:
    return set(cluster.kubectl("get", *PODS, "--namespace", service).split())
