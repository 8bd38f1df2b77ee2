"""The results service in a test's cluster, installed by its chart."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from inferometer_api.results.service_paths import EXPLORER, ingest_path
from support.api_client import AnswerError, Api
from support.chart import Json, helm
from support.cluster.cluster import Cluster
from support.cluster.images import RESULTS_IMAGE, images
from support.cluster.namespaces import fresh_namespace
from support.results_service import RESULTS_CHART
from support.stored_results import a_document
from support.waiting import wait_until

NAME = "inferometer-results"
SLOW_SECONDS = 300.0
PODS = ("pod", "--selector", f"app.kubernetes.io/name={NAME}", "--output", "name")
_DOCUMENTS = 60


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


def install_service(
    cluster: Cluster, namespace: str, operator: str, values: Json | None = None
) -> None:
    """Install or upgrade the service for the operator of a namespace, and wait until it serves."""
    account = {"namespace": operator, "serviceAccount": "inferometer-operator"}
    values = {"operators": [account]} | (values or {})
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


def kill_pod(cluster: Cluster, service: str) -> None:
    """End a pod of the service at once."""
    pod, *_ = cluster.kubectl("get", *PODS, "--namespace", service).split()
    cluster.kubectl("delete", pod, "--namespace", service, "--grace-period=0", "--force")


def push_while_killed(cluster: Cluster, service: str, namespace: str) -> None:
    """Push documents, kill the pod meanwhile, and find each that was taken exactly once."""
    client = Api(cluster)
    path = f"{EXPLORER}{ingest_path(namespace)}"
    taken: list[str] = []
    killed = threading.Event()

    def push(number: int) -> bool:
        try:
            answer = client.ask("POST", path, a_document(number).decode())
        except (AnswerError, OSError):
            return False
        taken.append(answer["id"])
        return True

    def kill() -> None:
        wait_until(lambda: len(taken) > 5, "some documents")
        kill_pod(cluster, service)
        killed.set()

    killer = threading.Thread(target=kill)
    killer.start()
    for number in range(_DOCUMENTS):
        wait_until(
            lambda number=number: push(number),  # type: ignore[misc] # called at once
            f"document {number}",
            deadline_seconds=SLOW_SECONDS,
        )
    killer.join()
    assert killed.is_set()
    found = client.ask("GET", f"{EXPLORER}/api/v1/results?where=source%3Duser&limit=500")
    client.close()
    assert sorted(each["id"] for each in found["items"]) == sorted(set(taken))
    assert len(set(taken)) == _DOCUMENTS
