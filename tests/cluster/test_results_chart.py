"""The results service on real nodes: installed by its chart, fed by an operator, and killed."""

import json
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from inferometer_api.results.service_paths import EXPLORER, ingest_path
from support.api_client import AnswerError, Api
from support.chart import helm
from support.cluster.cluster import Cluster
from support.cluster.images import RESULTS_IMAGE, images
from support.cluster.namespaces import fresh_namespace
from support.node_runs import condition, make_run, status, wait_for
from support.operator_installed import operator_installed
from support.results_service import RESULTS_CHART
from support.stored_results import a_document
from support.waiting import wait_until

PLUGIN = Path(sys.executable).with_name("kubectl-inferometer")
NAME = "inferometer-results"
SLOW_SECONDS = 300.0
_DOCUMENTS = 60
_POD = ("pod", "--selector", f"app.kubernetes.io/name={NAME}", "--output", "name")


@pytest.fixture(scope="module")
def service(cluster: Cluster) -> Iterator[str]:
    """Give the nodes the image and a volume, and yield the namespace for the service."""
    (archive,) = images([RESULTS_IMAGE])
    cluster.import_image(archive)
    if not cluster.kubectl("get", "storageclass", "--output", "name"):
        cluster.provide_storage()
    with fresh_namespace(cluster, "results") as namespace:
        yield namespace
        helm("uninstall", NAME, "--namespace", namespace, kubeconfig=cluster.kubeconfig)


def install(cluster: Cluster, namespace: str, operator: str) -> None:
    """Install or upgrade the service for the operator of a namespace, and wait until it serves."""
    values = {"operators": [{"namespace": operator, "serviceAccount": "inferometer-operator"}]}
    done = helm(
        *("upgrade", "--install", NAME, RESULTS_CHART, "--namespace", namespace),
        *("--wait", "--timeout", "240s", "--values", "-"),
        stdin=json.dumps(values),
        kubeconfig=cluster.kubeconfig,
    )
    assert done.returncode == 0, done.stderr
    wait_until(lambda: available(cluster), "the APIService", deadline_seconds=SLOW_SECONDS)


def available(cluster: Cluster) -> bool:
    """Return whether the API server reaches the service."""
    found = cluster.get("apiservice", "v1alpha1.results.inferometer.dev")
    conditions = found.get("status", {}).get("conditions", [])
    return any(each["type"] == "Available" and each["status"] == "True" for each in conditions)


def test_a_result_is_stored_and_its_permanent_address_opens(cluster: Cluster, service: str) -> None:
    """It outlives its run, an upgrade of the chart, and a pod that is killed in mid-ingest."""
    url = f"https://{NAME}.{service}.svc"
    settings = {
        "results": {"url": url},
        "load": {"resources": {"cpu": "50m", "memory": "256Mi"}},
    }
    with operator_installed(cluster, "stored", settings) as namespace:
        install(cluster, service, namespace)
        make_run(cluster, namespace, "a-run")
        wait_for(cluster, namespace, "a-run", "Finished")
        wait_until(
            lambda: condition(cluster, namespace, "a-run", "Stored").get("status") == "True",
            "Stored of a-run",
            deadline_seconds=SLOW_SECONDS,
        )
        stored = status(cluster, namespace, "a-run")["result"]["stored"]
        labels = "app.kubernetes.io/component=result"
        kept = cluster.get("configmaps", "--namespace", namespace, "--selector", labels)
        assert kept["items"] == []
        cluster.kubectl("delete", "benchmarkrun", "a-run", "--namespace", namespace)
        push_while_killed(cluster, service, namespace)
        before = cluster.get("secret", f"{NAME}-tls", "--namespace", service)["data"]
        install(cluster, service, namespace)
        assert cluster.get("secret", f"{NAME}-tls", "--namespace", service)["data"] == before
        page, _, id_ = stored["url"].rpartition("/")
        assert (page, id_) == ("http://127.0.0.1:8091/results", stored["id"])
        with web(cluster) as address:
            answer = urllib.request.urlopen(f"{address}/results/{id_}", timeout=60)  # noqa: S310 - our own address
            assert "a-run" in answer.read().decode()


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
        (pod,) = cluster.kubectl("get", *_POD, "--namespace", service).split()
        words = ("--namespace", service, "--grace-period=0", "--force")
        cluster.kubectl("delete", pod, *words)
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


@contextmanager
def web(cluster: Cluster) -> Iterator[str]:
    """Yield the address of `kubectl inferometer web`."""
    process = subprocess.Popen(
        [PLUGIN, "web", "--port", "0", "--kubeconfig", str(cluster.kubeconfig)],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        yield process.stderr.readline().split()[4].rstrip("/")
    finally:
        process.terminate()
        process.communicate(timeout=60)
