"""Faults of servers reach the conditions of their runs by way of a real API server.

Which signature gives which reason is tested in tests/unit/operator (test_conditions).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from support.cluster.control_plane import ControlPlane
from support.fake_kubelet import FakeKubelet
from support.fake_pod import Pod, stamp
from support.stage import Stage, a_stage

_READY_SECONDS = 60
"""How long these runs wait for a server: what may heal has healed by then, or never does."""


@dataclass(frozen=True, slots=True)
class _Fault:
    reason: str
    script: Callable[[Pod], None]
    condition: str = "ServerReady"
    """The condition that reports it first."""
    spec: dict[str, Any] = field(default_factory=dict)
    says: str = ""


def _image(pod: Pod) -> None:
    pod.bind()
    pod.waiting("ErrImagePull", 'failed to pull "registry.test/serving:1": not found')
    pod.waiting("ImagePullBackOff", 'Back-off pulling image "registry.test/serving:1"')


def _image_name(pod: Pod) -> None:
    pod.bind()
    pod.waiting("InvalidImageName", 'Failed to apply default image tag "a::b"')


def _no_node(pod: Pod) -> None:
    pod.unschedulable("0/3 nodes are available: 3 node(s) had untolerated taint {a: b}.")


def _no_gpu(pod: Pod) -> None:
    pod.unschedulable("0/3 nodes are available: 3 Insufficient nvidia.com/gpu.")


def _crashes(pod: Pod) -> None:
    pod.bind()
    pod.start(ready=False)
    pod.end(1, message="no such shape")


def _never_ready(pod: Pod) -> None:
    pod.bind()
    pod.start(ready=False)


def _out_of_memory(pod: Pod) -> None:
    pod.bind()
    pod.start(ready=False)
    pod.end(137, "OOMKilled")


def _no_model(pod: Pod) -> None:
    pod.bind()
    pod.fetch_ended(2, "There is no model zoo://classification/resnet50.")


def _refused(pod: Pod) -> None:
    pod.bind()
    pod.end(2, message="The model has no input called x.")


def _evicted(pod: Pod) -> None:
    pod.bind()
    pod.start()
    pod.evict("The node was low on resource: memory.")


def _node_lost(pod: Pod) -> None:
    pod.bind()
    pod.start()
    # As the cluster's node controller marks the pods of a node that fell silent a minute ago.
    pod.write(
        conditions=[
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": stamp(90)},
            {"type": "Initialized", "status": "True", "lastTransitionTime": stamp(90)},
            {"type": "ContainersReady", "status": "True", "lastTransitionTime": stamp(90)},
            {"type": "Ready", "status": "False", "lastTransitionTime": stamp(61)},
        ]
    )


_GPU = {"device": "GPU", "gpu": {"resource": "nvidia.com/gpu"}}
_FAULTS = (
    _Fault("ImageNotPulled", _image, says="registry.test/serving:1"),
    _Fault("ImageNameInvalid", _image_name),
    _Fault("ServerCrashed", _crashes, says="no such shape"),
    _Fault("ServerNotReady", _never_ready, condition="Failed"),
    _Fault("OutOfMemory", _out_of_memory, says="2Gi"),
    _Fault("ModelRefused", _no_model, says="zoo://classification/resnet50"),
    _Fault("ServerRefused", _refused, says="no input called x"),
    _Fault("Evicted", _evicted, says="low on resource: memory"),
    # A silent node counts from the first look at it, so that the server must have longer.
    _Fault("NodeLost", _node_lost, spec={"readyDeadlineSeconds": 3 * _READY_SECONDS}),
)
_WAITS = (
    _Fault("Unschedulable", _no_node, says="untolerated taint"),
    _Fault("GpuUnavailable", _no_gpu, spec=_GPU, says="nvidia.com/gpu"),
)
"""What ends no run: it goes back to the queue."""


@pytest.fixture(scope="module")
def many(
    api_server: ControlPlane, kubelet: FakeKubelet, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stage]:
    """Start a run for each fault of a server at once, and keep the conditions' history."""
    with a_stage(api_server, kubelet, tmp_path_factory.mktemp("many")) as stage:
        by_run = {_named(fault): fault for fault in (*_FAULTS, *_WAITS)}

        def play(pod: Pod) -> None:
            by_run[pod.run].script(pod)

        stage.play("server", play)
        stage.play("loadgen", stage.loads.follow)
        stage.keep_history()
        stage.start_operator(maxConcurrentRuns=len(by_run))
        for name, fault in by_run.items():
            stage.apply(name, server={"readyDeadlineSeconds": _READY_SECONDS, **fault.spec})
        yield stage


@pytest.mark.parametrize("fault", _WAITS, ids=lambda fault: fault.reason)
def test_a_run_without_nodes_waits_in_the_queue(many: Stage, fault: _Fault) -> None:
    """It says why in the scheduler's words, and neither it nor its pods hold anything meanwhile."""
    name = _named(fault)
    accepted = many.wait("Accepted", "WaitingForNodes", name=name)
    assert fault.says in accepted["message"]
    many.wait_for(
        lambda: "startTime" not in many.status(name),
        lambda: f"its pods' end: {many.status(name)}\n{many.logs()}",
    )
    assert many.status(name)["phase"] == "Queued"
    assert f"Job/{name}-server" not in many.children()
    assert fault.reason in {each["reason"] for each in many.history[name]}
    many.change(name, cancel=True)
    many.finished(name)


@pytest.mark.parametrize("fault", _FAULTS, ids=lambda fault: fault.reason)
def test_a_server_that_cannot_serve_is_reported(many: Stage, fault: _Fault) -> None:
    """The condition has the reason and what was found, soon after the trace, and the run ends."""
    name = _named(fault)
    many.wait("Failed", fault.reason, name=name)
    many.finished(name)
    assert many.condition("ServerReady", name)["status"] == "False"
    assert many.condition("Valid", name)["status"] == "False"
    messages = [
        each["message"]
        for each in many.history[name]
        if (each["type"], each["reason"]) == (fault.condition, fault.reason)
    ]
    assert messages
    assert fault.says in messages[0]


def _named(fault: _Fault) -> str:
    return fault.reason.lower()
