"""The results service on real nodes: installed by its chart, fed by an operator, and killed."""

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from inferometer_api.results.service_paths import EXPLORER
from support.api_client import AnswerError, Api
from support.cluster.cluster import Cluster
from support.node_runs import condition, make_run, status, wait_for
from support.operator_installed import operator_installed
from support.results_installed import (
    NAME,
    PODS,
    SLOW_SECONDS,
    install_service,
    kill_pod,
    push_while_killed,
    service_namespace,
)
from support.suites import two_by_two
from support.waiting import wait_until

PLUGIN = Path(sys.executable).with_name("kubectl-inferometer")
_COPY = (
    "import sqlite3; sqlite3.connect('/data/results.db').execute(\"VACUUM INTO '/data/copy.db'\")"
)


@pytest.fixture(scope="module")
def service(cluster: Cluster) -> Iterator[str]:
    """Prepare the nodes, and yield the namespace for the service."""
    with service_namespace(cluster) as namespace:
        yield namespace


def test_a_result_is_stored_and_its_permanent_address_opens(cluster: Cluster, service: str) -> None:
    """It outlives its run, an upgrade of the chart, and a pod that is killed in mid-ingest."""
    url = f"https://{NAME}.{service}.svc"
    settings = {
        "results": {"url": url},
        "load": {"resources": {"cpu": "50m", "memory": "256Mi"}},
    }
    with operator_installed(cluster, "stored", settings) as namespace:
        install_service(cluster, service, namespace)
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
        install_service(cluster, service, namespace)
        assert cluster.get("secret", f"{NAME}-tls", "--namespace", service)["data"] == before
        page, _, id_ = stored["url"].rpartition("/")
        assert (page, id_) == ("http://127.0.0.1:8091/results", stored["id"])
        back_up_and_restore(cluster, service, id_)
        with web(cluster) as address:
            assert "a-run" in opened(address, f"/results/{id_}")


def back_up_and_restore(cluster: Cluster, service: str, id_: str) -> None:
    """Copy the database out as documented, delete a result, and put the copy back."""
    (pod,) = cluster.kubectl("get", *PODS, "--namespace", service).split()
    run = ("exec", "--namespace", service, pod, "--")
    cluster.kubectl(*run, "python3", "-c", _COPY)
    client = Api(cluster)
    path = f"{EXPLORER}/api/v1/results/{id_}"
    client.ask("DELETE", path)
    assert client.ask("GET", f"{EXPLORER}/api/v1/results?where=id%3D{id_}")["total"] == 0
    cluster.kubectl(*run, "mv", "/data/copy.db", "/data/restore.db")
    cluster.kubectl("rollout", "restart", f"deployment/{NAME}", "--namespace", service)

    def is_back() -> bool:
        try:
            return bool(client.ask("GET", path)["id"] == id_)
        except (AnswerError, OSError):
            return False

    wait_until(is_back, "the restored result", deadline_seconds=SLOW_SECONDS)
    client.close()


def test_a_suite_is_stored_though_the_service_is_killed_meanwhile(
    cluster: Cluster, service: str
) -> None:
    """Two models over two protocols: each cell is there once, and its permanent address opens."""
    suite = two_by_two()
    name = suite["metadata"]["name"]
    settings = {
        "results": {"url": f"https://{NAME}.{service}.svc"},
        "load": {"resources": {"cpu": "50m", "memory": "256Mi"}},
        "readNodes": True,
    }
    with operator_installed(cluster, "suited", settings) as namespace:
        install_service(cluster, service, namespace)
        cluster.kubectl("create", "--namespace", namespace, "-f", "-", stdin=json.dumps(suite))

        def stored() -> dict[str, str]:
            runs = cluster.get("bmr", "--namespace", namespace)["items"]
            results = {
                each["metadata"]["name"]: each.get("status", {}).get("result", {}) for each in runs
            }
            return {
                run: found["stored"]["url"] for run, found in results.items() if "stored" in found
            }

        wait_until(lambda: len(stored()) > 0, "the first cell", deadline_seconds=SLOW_SECONDS)
        kill_pod(cluster, service)
        wait_until(
            lambda: (
                cluster.get("bms", name, "--namespace", namespace)["status"].get("phase")
                == "Complete"
            ),
            "the end of the suite",
            deadline_seconds=SLOW_SECONDS,
        )
        wait_until(lambda: len(stored()) == 4, "all cells", deadline_seconds=SLOW_SECONDS)
        client = Api(cluster)
        found = client.ask("GET", f"{EXPLORER}/api/v1/results?where=suite%3D{name}")
        client.close()
        assert found["total"] == 4
        with web(cluster) as address:
            for run, url in stored().items():
                path = url.removeprefix("http://127.0.0.1:8091")
                assert run in opened(address, path)
            matrix = opened(address, f"/suites/{name}")
            assert all(each["id"] in matrix for each in found["items"])


def opened(address: str, path: str) -> str:
    """Return the text of a page."""
    with urllib.request.urlopen(f"{address}{path}", timeout=60) as answer:  # noqa: S310 - our own address
        text: str = answer.read().decode()
    return text


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
