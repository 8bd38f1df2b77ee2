"""What the operator reads of the nodes of a run's servers, once each; no run fails without it."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from typing_extensions import override

from inferometer_api.plan.cluster_objects import LOADGEN, SERVER, labels
from inferometer_api.results.result import ClusterNode
from inferometer_operator.cluster.connection import ApiConnection
from inferometer_operator.cluster.errors import ApiError
from inferometer_operator.cluster.reader import Reader
from inferometer_operator.settings import Settings
from inferometer_operator.wiring.cluster_node_reads import (
    ClusterNodeMemory,
    describe_node,
    read_cluster_nodes,
)

_SETTINGS = Settings.model_validate({"images": {"serving": "a", "servingGpu": "b", "loadgen": "c"}})
_RUN = {"metadata": {"name": "a", "namespace": "ns", "uid": "u"}}
_NODE = {
    "metadata": {
        "labels": {
            "node.kubernetes.io/instance-type": "c5.xlarge",
            "nvidia.com/gpu.product": "NVIDIA-L4-SHARED",
        }
    },
    "status": {
        "capacity": {"cpu": "4", "memory": "7929248Ki"},
        "nodeInfo": {"kernelVersion": "6.1.0-cloud"},
    },
}


def _pod(run_uid: str | None, controller: str | None) -> dict[str, Any]:
    owners = [] if controller is None else [{"kind": controller, "controller": True}]
    own = {} if run_uid is None else {"labels": labels("a", run_uid, SERVER)}
    return {"metadata": {**own, "ownerReferences": owners}}


_PODS = [
    _pod("u", "Job"),
    _pod("another", "Job"),
    _pod(None, "ReplicaSet"),
    _pod(None, None),
    _pod(None, "DaemonSet"),
    _pod(None, "Node"),
    {"metadata": {"deletionTimestamp": "2026-01-31T12:00:00Z"}},
]


def _server(node: str, component: str = SERVER, at: str = "10.0.0.1") -> dict[str, Any]:
    metadata = {"uid": f"{node}-{component}", "labels": labels("a", "u", component)}
    return {"metadata": metadata, "spec": {"nodeName": node}, "status": {"podIP": at}}


class _Connection(ApiConnection):
    """Answers lists of nodes and pods, or refuses them."""

    def __init__(self, refusal: ApiError | None = None, pods: Any = _PODS) -> None:
        self.asked: list[tuple[str, str]] = []
        self._refusal, self._pods = refusal, pods

    @override
    async def request(
        self, method: str, path: str, *, query: Mapping[str, str] | None = None, **_: Any
    ) -> Any:
        assert method == "GET"
        self.asked.append((path, (query or {})["fieldSelector"]))
        if self._refusal is not None:
            raise self._refusal
        return {"items": [_NODE] if path.endswith("/nodes") else self._pods}


def _read(connection: _Connection, **settings: Any) -> dict[str, ClusterNode | None]:
    memory = ClusterNodeMemory()
    reader, chosen = Reader(connection), _SETTINGS.model_copy(update=settings)
    pods = (_server("n1"), _server("n1"), _server("n3", at=""), _server("n2", LOADGEN))
    for _ in range(2):
        asyncio.run(read_cluster_nodes(reader, chosen, _RUN, pods, memory))
    return memory.nodes


def test_each_node_of_a_server_is_read_once() -> None:
    """With two requests; pods of the run, of DaemonSets and of the node itself are not others."""
    connection = _Connection()
    (found,) = _read(connection, read_nodes=True).values()
    assert connection.asked == [
        ("/api/v1/nodes", "metadata.name=n1"),
        ("/api/v1/pods", "spec.nodeName=n1,status.phase=Running"),
    ]
    assert found == ClusterNode(
        instance_type="c5.xlarge",
        gpu_model="NVIDIA L4",
        cpu_count=4,
        memory_bytes=7929248 * 1024,
        kernel="6.1.0-cloud",
        other_pods=3,
    )


def test_without_the_right_to_read_nodes_only_pods_are_read() -> None:
    """Nodes are read if the settings say that the operator may."""
    connection = _Connection()
    assert _read(connection) == {"n1": ClusterNode(other_pods=3)}
    assert [path for path, _ in connection.asked] == ["/api/v1/pods"]


def test_an_operator_of_one_namespace_does_not_say_that_a_node_is_not_shared() -> None:
    """It sees the pods of its own namespace alone."""
    assert _read(_Connection(), namespace="ns") == {"n1": ClusterNode(other_pods=3)}
    alone = _Connection(pods=[_pod("u", "Job")])
    assert _read(alone, namespace="ns") == {"n1": ClusterNode(other_pods=None)}
    assert alone.asked[0][0] == "/api/v1/namespaces/ns/pods"
    assert _read(_Connection(pods=[])) == {"n1": ClusterNode(other_pods=0)}


def test_a_run_does_not_fail_because_its_nodes_cannot_be_read() -> None:
    """A refusal is logged; what may pass is raised, and so tried again."""
    refused = ApiError(403, "Forbidden", "pods is forbidden")
    assert _read(_Connection(refused), read_nodes=True) == {"n1": None}
    with pytest.raises(ApiError, match="later"):
        _read(_Connection(ApiError(503, "Unavailable", "later")))


def test_the_servers_of_a_further_repeat_are_looked_at_again() -> None:
    """On the same node: other pods may have come since."""
    connection, memory = _Connection(), ClusterNodeMemory()
    for pod in (_server("n1"), _server("n1"), {**_server("n1"), "metadata": {"uid": "next"}}):
        pod["metadata"]["labels"] = labels("a", "u", SERVER)
        asyncio.run(read_cluster_nodes(Reader(connection), _SETTINGS, _RUN, [pod], memory))
    assert len(connection.asked) == 2


@pytest.mark.parametrize(
    "status", [{}, {"capacity": {"cpu": "x", "memory": "y"}}, {"capacity": None, "nodeInfo": None}]
)
def test_a_node_that_says_little_is_described_as_far_as_it_goes(status: Any) -> None:
    """Quantities that cannot be read are unknown, not zero."""
    described = describe_node({"metadata": {}, "status": status}, other_pods=None)
    assert described == ClusterNode()
