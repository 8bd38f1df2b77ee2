"""Fixtures of the tests against a real API server: the server, and a namespace each."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from inferometer_api.plan import rights
from support.api_client import AnswerError, Api
from support.cluster.control_plane import ControlPlane
from support.cluster.namespaces import fresh_namespace
from support.fake_kubelet import FakeKubelet
from support.operator_process import ACCOUNT, rule
from support.stage import Stage, a_stage
from support.waiting import wait_until

_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_DEFINITIONS = sorted((Path(__file__).parents[2] / "crds").glob("*.yaml"))


@pytest.fixture(scope="session")
def api_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Run one etcd, API server and controller-manager on loopback for all tests."""
    folder: Path = tmp_path_factory.mktemp("control-plane")
    control_plane = ControlPlane(folder)
    yield control_plane
    control_plane.stop()


@pytest.fixture
def namespace(api_server: ControlPlane) -> Iterator[str]:
    """Make a namespace of the test's own, in which only restricted pods are admitted."""
    with fresh_namespace(api_server) as name:
        yield name


@pytest.fixture(scope="session")
def api(api_server: ControlPlane) -> Iterator[Api]:
    """Install the CustomResourceDefinitions and return a client."""
    for file in _DEFINITIONS:
        api_server.kubectl("apply", "--server-side", "-f", str(file))
    client = Api(api_server)
    wait_until(lambda: _served(client), "The API for runs")
    yield client
    client.close()


@pytest.fixture(scope="session")
def kubelet(
    api: Api, api_server: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[FakeKubelet]:
    """Play one node for the pods of every test."""
    kubelet = FakeKubelet(api_server, tmp_path_factory.mktemp("kubelet"))
    yield kubelet
    kubelet.close()


@pytest.fixture
def stage(api_server: ControlPlane, kubelet: FakeKubelet, tmp_path: Path) -> Iterator[Stage]:
    """Make a namespace in which an operator of the test's own can be started."""
    with a_stage(api_server, kubelet, tmp_path) as made:
        yield made


def _served(client: Api) -> bool:
    try:
        client.all("BenchmarkRun", None)
        client.all("BenchmarkSuite", None)
        client.all("NodeBenchmark", None)
    except AnswerError:
        return False
    return True


@pytest.fixture
def pool(stage: Stage) -> Iterator[Stage]:
    """Make two nodes with a label of their own, and grant the operator to list nodes."""
    fake = stage.api.found("Node", None, stage.kubelet.node) or {}
    made = [f"{stage.namespace}-{letter}" for letter in "ab"]
    for name in made:
        metadata = {"name": name, "labels": {"pool": stage.namespace}}
        stage.api.create("Node", None, {"apiVersion": "v1", "kind": "Node", "metadata": metadata})
        stage.api.merge("Node", None, name, {"status": fake["status"]}, "status")
        stage.api.merge("Node", None, name, {"spec": {"taints": None}})
    stage.kubelet.pool += made
    stage.operator_token(read_nodes=True)
    name = f"{ACCOUNT}-{stage.namespace}-nodes"
    rules = [rule(right) for right in rights.NODES]
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    subject = {"kind": "ServiceAccount", "namespace": stage.namespace, "name": ACCOUNT}
    metadata = {"metadata": {"name": name}}
    stage.api.ask("POST", f"{_RBAC}/clusterroles", {**metadata, "rules": rules})
    binding = {**metadata, "subjects": [subject], "roleRef": role}
    stage.api.ask("POST", f"{_RBAC}/clusterrolebindings", binding)
    yield stage
    stage.kubelet.pool.clear()
    for each in made:
        stage.api.delete("Node", None, each)
    for plural in ("clusterroles", "clusterrolebindings"):
        stage.api.ask("DELETE", f"{_RBAC}/{plural}/{name}")
