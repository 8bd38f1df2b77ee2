"""The results service in a test's cluster, installed by its chart."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

from support.chart import helm
from support.cluster.cluster import Cluster
from support.cluster.images import RESULTS_IMAGE, images
from support.cluster.namespaces import fresh_namespace
from support.results_service import RESULTS_CHART
from support.waiting import wait_until

NAME = "inferometer-results"
SLOW_SECONDS = 300.0


@contextmanager
def service_namespace(cluster: Cluster) -> Iterator[str]:
    """Give the nodes the image and a volume, and yield the namespace for the service."""
    (archive,) = images([RESULTS_IMAGE])
    cluster.import_image(archive)
    if not cluster.kubectl("get", "storageclass", "--output", "name"):
        cluster.provide_storage()
    with fresh_namespace(cluster, "results") as namespace:
        yield namespace
        helm("uninstall", NAME, "--namespace", namespace, kubeconfig=cluster.kubeconfig)


def install_service(cluster: Cluster, namespace: str, operator: str) -> None:
    """Install or upgrade the service for the operator of a namespace, and wait until it serves."""
    values = {"operators": [{"namespace": operator, "serviceAccount": "inferometer-operator"}]}
    done = helm(
        *("upgrade", "--install", NAME, RESULTS_CHART, "--namespace", namespace),
        *("--wait", "--timeout", "240s", "--values", "-"),
        stdin=json.dumps(values),
        kubeconfig=cluster.kubeconfig,
    )
    assert done.returncode == 0, done.stderr
    wait_until(lambda: _is_available(cluster), "the APIService", deadline_seconds=SLOW_SECONDS)


def _is_available(cluster: Cluster) -> bool:
    """Return whether the API server reaches the service."""
    found = cluster.get("apiservice", "v1alpha1.results.inferometer.dev")
    conditions = found.get("status", {}).get("conditions", [])
    return any(each["type"] == "Available" and each["status"] == "True" for each in conditions)
