"""The canary before a suite in a cluster: which nodes it measures, and how its pods reach them."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from inferometer_operator.manifests.owner import Manifest
from inferometer_operator.wiring.dependencies import Dependencies
from inferometer_operator.wiring.suite.canary import NodeCanary
from support.manifests import FULL
from support.node_documents import a_node_document
from support.suites import a_suite, planned

_DEDICATED = {"key": "dedicated", "value": "bench", "effect": "NoSchedule"}
_GPU = {"key": "gpu", "effect": "NoSchedule"}
_TOLERATION = {"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}


class _Cluster:
    """Nodes that were measured, each with a taint; notes the Jobs that are created."""

    def __init__(
        self, *, is_expired: bool = False, version: str = "1.0", **taints: dict[str, str]
    ) -> None:
        self._version = version
        self.created: list[Manifest] = []
        self.read: list[str] = []
        self.only: tuple[list[str], ...] = ([],)
        self.children = SimpleNamespace(of_run=lambda *_: ())
        self._taints = taints
        self._current = {
            "type": "Current",
            "status": "False" if is_expired else "True",
            "reason": "Expired" if is_expired else "Measured",
            "message": "",
            "lastTransitionTime": "2026-01-31T00:00:00Z",
        }

    def list_pods(self, *_: str) -> tuple[dict[str, Any], ...]:
        """Return no pod."""
        return ()

    async def list_node_benchmarks(self, namespace: str) -> tuple[dict[str, Any], ...]:
        """Return those that have measured every node, one each day, the newest first."""
        return tuple(
            {
                "metadata": {"namespace": namespace},
                "spec": {"only": only} if only else {},
                "status": {"nodes": self._measured(day), "conditions": [self._current]},
            }
            for day, only in reversed(list(enumerate(self.only, start=1)))
        )

    def _measured(self, day: int) -> list[dict[str, Any]]:
        return [
            {
                "node": each,
                "state": "Measured",
                "configMap": f"{each}-{day}",
                "finishTime": f"2026-01-{day:02}T00:00:00Z",
            }
            for each in self._taints
        ]

    async def list_nodes(self) -> tuple[dict[str, Any], ...]:
        """Return the nodes, all of them ready."""
        ready = {"conditions": [{"type": "Ready", "status": "True"}]}
        return tuple(
            {"metadata": {"name": name}, "spec": {"taints": [taint]}, "status": ready}
            for name, taint in self._taints.items()
        )

    async def get(self, *names: str) -> dict[str, Any]:
        """Return the ConfigMap with a node's document."""
        self.read.append(names[-1])
        found = a_node_document("a-node", schema_version=self._version)
        document = found.model_dump_json(by_alias=True, exclude_none=True)
        return {"data": {"node.json": document}}

    async def create(self, job: Manifest) -> None:
        """Note a Job."""
        self.created.append(job)


def _canaries(cluster: _Cluster, server: dict[str, Any]) -> dict[str, Manifest]:
    """Return the pod of the canary on each node, for a suite with this server."""
    suite = a_suite()
    suite["spec"]["template"]["spec"]["server"] = server
    suite["metadata"] |= {"namespace": "team", "uid": "0c9e8f3a-1111-4222-8333-444455556666"}
    settings = FULL.model_copy(update={"read_nodes": True})
    facts = SimpleNamespace(reader=cluster, writer=cluster, settings=settings, clock=lambda: 0.0)
    advance = NodeCanary().advance(cast("Dependencies", facts), suite, planned(suite))
    asyncio.run(advance)
    pods = [each["spec"]["template"]["spec"] for each in cluster.created]
    return {_node(each): each for each in pods}


def _node(pod: Manifest) -> str:
    required = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    name: str = required["nodeSelectorTerms"][0]["matchFields"][0]["values"][0]
    return name


@pytest.mark.parametrize(
    ("server", "node", "key"),
    [
        ({"placement": {"tolerations": [_TOLERATION]}}, "tainted", "dedicated"),
        ({"device": "GPU"}, "gpus", "gpu"),
    ],
)
def test_the_canary_tolerates_what_the_servers_of_the_suite_tolerate(
    server: dict[str, Any], node: str, key: str
) -> None:
    """Only nodes on which a server may start are measured; the pod starts there as well."""
    cluster = _Cluster(tainted=_DEDICATED, gpus=_GPU)
    found = _canaries(cluster, server)
    assert list(found) == [node]
    assert key in {each.get("key") for each in found[node]["tolerations"]}


def test_an_expired_measurement_needs_no_canary() -> None:
    """Its figures no longer count."""
    server = {"device": "GPU"}
    assert _canaries(_Cluster(gpus=_GPU), server) != {}
    assert _canaries(_Cluster(gpus=_GPU, is_expired=True), server) == {}


def test_the_newest_measurements_of_a_node_are_compared() -> None:
    """Eight with every figure, since they show how far those differ, and eight with some."""
    cluster = _Cluster(gpus=_GPU)
    cluster.only = (*([] for _ in range(9)), *(["pageFault"] for _ in range(9)))
    assert _canaries(cluster, {"device": "GPU"}) != {}
    assert cluster.read == [f"gpus-{day}" for day in range(2, 19) if day != 10]


def test_a_measurement_of_a_newer_major_version_needs_no_canary() -> None:
    """What its figures mean is not known; a newer minor version only adds fields."""
    server = {"device": "GPU"}
    assert _canaries(_Cluster(gpus=_GPU, version="1.9"), server) != {}
    assert _canaries(_Cluster(gpus=_GPU, version="2.0"), server) == {}


def test_a_server_without_tolerations_has_no_canary_on_tainted_nodes() -> None:
    """Its own pods would not start there."""
    assert _canaries(_Cluster(tainted=_DEDICATED, gpus=_GPU), {}) == {}


def test_the_most_tolerations_of_a_placement_and_those_of_gpus_are_taken() -> None:
    """Together they exceed what a NodeBenchmark may have."""
    many = [_TOLERATION | {"key": f"key-{number}"} for number in range(16)]
    server = {"device": "GPU", "placement": {"tolerations": many}}
    (pod,) = _canaries(_Cluster(gpus=_GPU), server).values()
    assert {"gpu", "key-0", "key-15"} <= {each.get("key") for each in pod["tolerations"]}
