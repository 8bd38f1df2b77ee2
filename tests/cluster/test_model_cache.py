"""A real kubelet mounts models from the cache of its node."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from inferometer_api.plan.cluster_objects import CACHE_DRIVER, SERVER
from inferometer_fetch.built_in import write_model
from inferometer_models import zoo
from support import gated_store
from support.agent_chart import agents_installed, agents_namespace
from support.cached_models import (
    BUCKET,
    ModelBucket,
    cache_pod,
    make_pod,
    mounts,
    printed,
    put_keys,
    refusals,
    start_store,
    wait_for_content,
    wait_slowly,
)
from support.chart import Json
from support.cluster.cluster import Cluster
from support.cluster.configurations import NODE_HOME
from support.node_runs import SLOW_SECONDS, make_run, wait_for
from support.operator_installed import operator_installed
from support.waiting import wait_until

CACHE_FOLDER = "/var/lib/inferometer-model-cache"
EXAMPLE = Path(__file__).parents[2] / "examples" / "25-model-cache.yaml"
RUN_MODEL = zoo.entry("classification/mobilenet_v2")


@pytest.fixture(scope="module")
def store(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> ModelBucket:
    """Start the store."""
    return start_store(cluster, tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module")
def cache(cluster: Cluster, store: ModelBucket) -> Iterator[str]:
    """Install the agents with the model cache; yield their namespace."""
    values = {"kubeletFolder": f"{NODE_HOME}/kubelet", "quota": "1Gi"}
    with (
        agents_namespace(cluster) as namespace,
        agents_installed(cluster, namespace, cache=values),
    ):
        yield namespace


@pytest.fixture(scope="module")
def served(cluster: Cluster, store: ModelBucket, cache: str) -> Iterator[str]:
    """Install an operator that lets runs use the cache; yield its namespace."""
    load = {"resources": {"cpu": "50m", "memory": "256Mi"}}
    values = {"allowSecrets": True, "modelCache": {"enabled": True}, "load": load}
    with operator_installed(cluster, "cached", values) as namespace:
        put_keys(cluster, namespace, "store", store)
        yield namespace


@pytest.fixture
def pods(cluster: Cluster, namespace: str, store: ModelBucket, cache: str) -> Iterator[str]:
    """Return a namespace whose pods have the keys of the store; wait until they are gone."""
    put_keys(cluster, namespace, "store", store)
    yield namespace
    store.open_gate()
    cluster.kubectl("delete", "pods", "--all", "--namespace", namespace, "--wait=true")


def test_the_kubelet_registers_the_plugin(cluster: Cluster, cache: str) -> None:
    """The plugin announces itself to the kubelet, which lists it for its node."""
    (node,) = cluster.nodes

    def drivers() -> list[str]:
        found = cluster.get("csinode", node)["spec"].get("drivers") or []
        return [each["name"] for each in found]

    wait_until(lambda: CACHE_DRIVER in drivers(), "the driver of the node")
    log = cluster.kubectl("logs", cache_pod(cluster, cache)["metadata"]["name"], "-n", cache)
    assert '"event": "registered"' in log


def test_runs_are_measured_from_the_cache(
    cluster: Cluster, store: ModelBucket, served: str
) -> None:
    """Two runs of a model with external data cause one download, and no pod fetches."""
    name = f"{RUN_MODEL.name.rpartition('/')[2]}.onnx"
    file = write_model(RUN_MODEL, store.folder / BUCKET / name)
    model = {
        "uri": f"s3://{BUCKET}/{name}",
        "sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
        "credentialsSecret": "store",
        "cache": "Node",
    }
    for run in ("first", "second"):
        make_run(cluster, served, run, model=model, retention={"cleanup": "Never"})
        wait_for(cluster, served, run, "Finished")
        wait_for(cluster, served, run, "Complete")
        pods = cluster.get("pods", "--namespace", served)["items"]
        (server,) = (
            each
            for each in pods
            if each["metadata"]["labels"].get("app.kubernetes.io/component") == SERVER
            and each["metadata"]["name"].startswith(run)
        )
        assert "initContainers" not in server["spec"]
        assert any("csi" in each for each in server["spec"]["volumes"])
        cluster.kubectl("delete", "benchmarkrun", run, "--namespace", served)
    assert len(store.requests(name, "GET")) == 1
    assert len(store.requests(RUN_MODEL.weights_file, "GET")) == 1


def test_example_25_fetches_once_for_all_starts_from_the_cache(
    cluster: Cluster, store: ModelBucket, served: str
) -> None:
    """The example ends Complete: its three starts without the cache fetch, those with it do not."""
    sha256 = store.add("example")
    suite = yaml.safe_load(EXAMPLE.read_text())
    model = {"uri": f"s3://{BUCKET}/example", "sha256": sha256, "credentialsSecret": "store"}
    suite["spec"]["template"]["spec"]["model"] = model
    cluster.kubectl("create", "--namespace", served, "-f", "-", stdin=json.dumps(suite))

    def status() -> Json:
        found: Json = cluster.get("bms", "model-cache", "--namespace", served).get("status", {})
        return found

    wait_until(
        lambda: status().get("phase") in {"Complete", "Failed"},
        "the end of the suite",
        deadline_seconds=2 * SLOW_SECONDS,
        poll_seconds=1.0,
    )
    found = status()
    assert found["phase"] == "Complete", json.dumps(found)
    assert len(found["states"]) == 2, json.dumps(found)
    assert set(found["states"]) <= {"V", "I"}, json.dumps(found)
    assert len(store.requests("example", "GET")) == 3 + 1
    cluster.kubectl("delete", "bms", "model-cache", "--namespace", served)


def test_pods_share_one_download(cluster: Cluster, store: ModelBucket, pods: str) -> None:
    """Two pods that want one new model wait for the same download, then read one file."""
    sha256 = store.add("shared")
    put_keys(cluster, pods, "other", store, "tester-2")
    store.close_gate()
    make_pod(cluster, pods, "one", "shared", sha256)
    make_pod(cluster, pods, "two", "shared", sha256, keys="other")

    def checked() -> set[str]:
        return {each["accessKey"] for each in store.requests("shared", "HEAD")}

    wait_slowly(lambda: checked() == {"tester", "tester-2"}, "the checks of both pods' keys")
    wait_slowly(lambda: bool(store.requests("shared", "GET")), "a download")
    assert mounts(cluster, pods, "one") == mounts(cluster, pods, "two") == []
    store.open_gate()
    for pod in ("one", "two"):
        wait_for_content(cluster, pods, pod, sha256)
    assert len(store.requests("shared", "GET")) == 1
    roots = {each.split()[3] for pod in ("one", "two") for each in mounts(cluster, pods, pod)}
    assert len(roots) == 1


def test_a_wrong_checksum_is_an_event(cluster: Cluster, store: ModelBucket, pods: str) -> None:
    """The pod's event says what to correct, and nothing of the file is mounted or kept."""
    store.add("other-file")
    make_pod(cluster, pods, "reader", "other-file", "0" * 64)
    wait_slowly(
        lambda: "should have the sha256 000" in refusals(cluster, pods, "reader"), "the event"
    )
    assert "Correct the checksum or the address" in refusals(cluster, pods, "reader")
    assert mounts(cluster, pods, "reader") == []
    assert printed(cluster, pods, "reader") == []
    (node,) = cluster.nodes.values()
    folder = Path(f"/proc/{node.pid}/root{CACHE_FOLDER}")
    known = [each.read_text() for each in folder.glob("entries/*/entry.json")]
    assert not any("0" * 64 in each for each in known)


def test_keys_of_another_pod_open_nothing(cluster: Cluster, store: ModelBucket, pods: str) -> None:
    """A pod whose keys the store refuses gets an event, though the node has the model."""
    sha256 = store.add("private")
    make_pod(cluster, pods, "owner", "private", sha256)
    wait_for_content(cluster, pods, "owner", sha256)
    put_keys(cluster, pods, "wrong", store, gated_store.INTRUDER)
    make_pod(cluster, pods, "intruder", "private", sha256, keys="wrong")
    wait_slowly(lambda: "403" in refusals(cluster, pods, "intruder"), "the event")
    assert mounts(cluster, pods, "intruder") == []
