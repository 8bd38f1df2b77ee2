"""GPUs of a NodeBenchmark: which pods request them, and what they then need."""

import asyncio
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from inferometer_api.nodes.benchmark import NodeBenchmarkSpec, NodeBenchmarkStatus
from inferometer_api.nodes.characteristics import GpuIdentity
from inferometer_api.nodes.selection import nodes_to_measure
from inferometer_api.spec.server import Toleration
from inferometer_operator.manifests.node_job import node_job
from inferometer_operator.manifests.owner import Owner
from inferometer_operator.reconcile.nodes.draft import NodeBenchmarkDraft
from inferometer_operator.reconcile.nodes.summary import node_summary
from inferometer_operator.settings import Settings
from inferometer_operator.wiring.dependencies import Dependencies
from inferometer_operator.wiring.nodes.queue import NodeQueue
from inferometer_operator.wiring.nodes.reconciler import NodeReconciler, _RefusedError
from support.node_documents import a_figure, a_node_document
from support.operator_process import SETTINGS

_NOW = datetime(2026, 6, 1, 3, tzinfo=UTC)
_OWNER = Owner("workers", "bench", "uid-1", "NodeBenchmark")
_TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
_TOLERATION = {"key": "nvidia.com/gpu", "operator": "Exists"}


def _node(name: str, gpus: str | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "spec": spec,
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "allocatable": {"cpu": "4", **({} if gpus is None else {"nvidia.com/gpu": gpus})},
        },
    }


def _job(gpus: int, **settings: Any) -> dict[str, Any]:
    given = Settings.model_validate({**SETTINGS, **settings})
    job = node_job(NodeBenchmarkSpec(gpus=gpus), _OWNER, "node-1", given, gpus)
    pod: dict[str, Any] = job["spec"]["template"]["spec"]
    return pod


def test_a_pod_with_gpus_requests_them_and_has_the_gpu_image() -> None:
    """CPU and memory still have no limit: the figures would be those of the limit."""
    pod = _job(2)
    (probe,) = pod["containers"]
    assert probe["image"] == SETTINGS["images"]["servingGpu"]
    assert probe["resources"]["limits"] == {"nvidia.com/gpu": "2"}
    assert probe["securityContext"]["privileged"] is False


def test_a_pod_without_gpus_is_as_before() -> None:
    """The image for CPUs, no limits, no runtime class, and no toleration of GPU nodes."""
    pod = _job(0, gpu={"runtimeClass": "nvidia", "tolerations": [_TOLERATION]})
    (probe,) = pod["containers"]
    assert probe["image"] == SETTINGS["images"]["serving"]
    assert "limits" not in probe["resources"]
    assert "runtimeClassName" not in pod
    assert "nvidia.com/gpu" not in [each.get("key") for each in pod["tolerations"]]


def test_a_pod_with_gpus_has_what_the_admin_sets_for_them() -> None:
    """The runtime class and the tolerations of server pods with GPUs."""
    pod = _job(1, gpu={"runtimeClass": "nvidia", "tolerations": [_TOLERATION]})
    assert pod["runtimeClassName"] == "nvidia"
    assert _TOLERATION in pod["tolerations"]


@pytest.mark.parametrize(
    ("requested", "offered", "expected"),
    [(0, "8", 0), (1, "8", 1), (8, "4", 4), (8, None, 0), (2, "0", 0), (2, "", 0)],
)
def test_a_pod_requests_as_many_as_the_spec_says_or_all_of_its_node(
    requested: int, offered: str | None, expected: int
) -> None:
    """Nodes without GPUs are measured all the same."""
    spec = NodeBenchmarkSpec(gpus=requested)
    assert nodes_to_measure(spec, [_node("a", offered)]) == {"a": expected}


@pytest.mark.parametrize(("gpus", "names"), [(1, ["gpu"]), (0, [])])
def test_the_admins_tolerations_count_for_pods_with_gpus_alone(gpus: int, names: list[str]) -> None:
    """A tainted node without GPUs stays out, and so does one whose GPUs are not measured."""
    nodes = [_node("gpu", "1", taints=[_TAINT]), _node("cpu", taints=[_TAINT])]
    tolerations = [Toleration.model_validate(_TOLERATION)]
    assert list(nodes_to_measure(NodeBenchmarkSpec(gpus=gpus), nodes, tolerations)) == names


class _Nodes:
    """An API server with these nodes."""

    def __init__(self, *nodes: dict[str, Any]) -> None:
        self._nodes = nodes

    async def list_nodes(self) -> list[dict[str, Any]]:
        """Return all nodes."""
        return list(self._nodes)


def _chosen(spec: NodeBenchmarkSpec, *nodes: dict[str, Any], **settings: Any) -> dict[str, Any]:
    given = Settings.model_validate({**SETTINGS, "readNodes": True, **settings})
    dependencies = SimpleNamespace(settings=given, reader=_Nodes(*nodes))
    reconciler = NodeReconciler(cast("Dependencies", dependencies), cast("NodeQueue", None))
    draft = NodeBenchmarkDraft(NodeBenchmarkStatus(), _NOW, 1)
    asyncio.run(reconciler._choose(spec, draft))
    return {row.node: row.gpus for row in draft.status.nodes}


def test_the_status_says_how_many_gpus_each_pod_requests() -> None:
    """They are chosen with the nodes, so that a later change of a node changes nothing."""
    spec = NodeBenchmarkSpec(gpus=2)
    assert _chosen(spec, _node("a", "8"), _node("b")) == {"a": 2, "b": None}


def test_more_gpus_than_the_admin_allows_are_refused() -> None:
    """With the field, the value and the setting."""
    with pytest.raises(_RefusedError, match=r"spec\.gpus.*3 GPUs.*ceilings\.gpus allows 2"):
        _chosen(NodeBenchmarkSpec(gpus=3), _node("a", "8"), ceilings={"gpus": 2})
    assert _chosen(NodeBenchmarkSpec(gpus=2), _node("a", "8"), ceilings={"gpus": 2}) == {"a": 2}


def test_the_summary_has_the_figures_of_the_slowest_gpu() -> None:
    """One slow GPU shows."""
    gpu = GpuIdentity(
        index=0,
        name="NVIDIA H200",
        compute_capability="9.0",
        multiprocessors=132,
        memory_bytes=1 << 37,
        l2_cache_bytes=1 << 26,
    )
    document = a_node_document()
    machine = document.machine.model_copy(update={"gpus": [gpu, gpu]})
    figures = [
        *document.figures,
        *(
            a_figure("gpu/stream/copy", "bytes/s", rate, gpu=at)
            for at, rate in ((0, 4e12), (1, 3e12))
        ),
        a_figure("gpu/gemm", "flop/s", 8e14, gpu=0, precision="BF16"),
        a_figure("gpu/gemm", "flop/s", 5e13, gpu=0, precision="FP32"),
        *(
            a_figure("cudaMemcpyAsync_PinnedToGPU", "bytes/s", rate, node=node, gpu=0, bytes=size)
            for node, size, rate in ((0, 4096, 1e9), (0, 1 << 28, 5.5e10), (1, 1 << 28, 4.1e10))
        ),
    ]
    found = node_summary(document.model_copy(update={"machine": machine, "figures": figures}))
    assert found.gpus == "2 x NVIDIA H200"
    assert found.gpu_memory_bytes_per_second == 3_000_000_000_000
    assert found.gpu_bf16_flops == 800_000_000_000_000
    assert found.to_gpu_bytes_per_second == 41_000_000_000
    assert found.fp32_flops == node_summary(document).fp32_flops
