"""Courses of a run through which operators are killed, and what is right at their ends."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from inferometer_api.plan.cluster_objects import LOADGEN, SERVER
from support.cluster.audit import requests
from support.fake_kubelet import ready_server
from support.fake_pod import Pod
from support.stage import SHORT, Stage

_NO_GPU = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
_LAUNCHED = {"jobs": 2, "configmaps": 2}
_PODS = {SERVER: 1, LOADGEN: 1}


@dataclass(frozen=True, slots=True)
class Course:
    """What happens to a run, and what it leaves."""

    name: str
    lead: Callable[[Stage], None]
    """Sets the stage: what servers and load generators do."""
    spec: Mapping[str, Any] = field(default_factory=dict)
    failure: str = ""
    """The reason of the condition Failed; empty for a run that completes."""
    created: Mapping[str, int] = field(default_factory=lambda: dict(_LAUNCHED))
    """How many objects of each resource are created, in all."""
    pods: Mapping[str, int] = field(default_factory=lambda: dict(_PODS))
    """How many pods of each component there ever are."""

    def begin(self, stage: Stage) -> None:
        """Set the stage and create the run."""
        self.lead(stage)
        stage.apply(**self.spec)

    def is_over(self, stage: Stage) -> bool:
        """Return whether the run is finished and nothing is left of it but its result."""
        ended = stage.condition("Finished").get("status") == "True"
        return ended and all("result" in each for each in stage.children())

    def check(self, stage: Stage) -> None:
        """Check the end: the right outcome, each child created once, one measurement."""
        status = stage.status()
        if self.failure:
            assert stage.condition("Failed").get("reason") == self.failure, status
        else:
            assert stage.condition("Complete").get("status") == "True", status
            assert status["result"]["configMaps"], status
        created = [
            each.resource
            for each in requests(stage.control_plane.audit_log, stage.user)
            if each.verb == "create" and each.code == 201 and each.resource != "events"
        ]
        assert {name: created.count(name) for name in created} == self.created
        for component, count in self.pods.items():
            assert len(stage.kubelet.all(stage.namespace, component)) == count, component


def _measure(stage: Stage, pod: Pod, end: Callable[[], object] | None = None) -> None:
    """Measure one scenario as the operator looks on, and end."""
    if pod.index > 0:
        pod.bind()
        pod.start()
        return
    stage.loads.follow(pod)
    load = stage.load()
    load.show("Measuring", load.scenarios[0])
    stage.wait("Measuring")
    if end is not None:
        end()
        return
    load.judge(load.scenarios[0])
    load.end()


def measure_repeats(stage: Stage, pod: Pod) -> None:
    """Measure two repeats, each with a server of its own, and end."""
    stage.loads.follow(pod)
    load = stage.load()
    scenario = load.scenarios[0]
    load.show("Measuring", scenario)
    stage.wait("Measuring")
    load.judge(scenario)
    load.show("WaitingForRestart", repeat=2)
    stage.wait_for(lambda: load.targets, lambda: f"the second server: {stage.status()}")
    load.show("Measuring", scenario, repeat=2)
    stage.wait("ServerReady")
    load.judge(scenario)
    load.end()


def _repeated(stage: Stage) -> None:
    stage.play(SERVER, ready_server)
    stage.play(LOADGEN, lambda pod: measure_repeats(stage, pod))


def _launched(stage: Stage) -> None:
    stage.play(SERVER, ready_server)
    stage.play(LOADGEN, lambda pod: _measure(stage, pod))


def _external(stage: Stage) -> None:
    spec = {"selector": {"app": "mine"}, "ports": [{"port": 8001}]}
    service = {"metadata": {"name": "mine"}, "spec": spec}
    stage.api.create("Service", stage.namespace, service)
    _launched(stage)


def _gpu_pending(stage: Stage) -> None:
    """Find no GPU for the first pod: the run is queued again, and its second pod has one."""
    pods: list[str] = []

    def wait_for_gpu(pod: Pod) -> None:
        pods.append(pod.uid)
        if pod.uid == pods[0]:
            pod.unschedulable(_NO_GPU)
        else:
            ready_server(pod)

    _launched(stage)
    stage.play(SERVER, wait_for_gpu)


def _cancelled(stage: Stage) -> None:
    stage.play(SERVER, ready_server)
    stage.play(LOADGEN, lambda pod: _measure(stage, pod, lambda: stage.change(cancel=True)))


def _failing(stage: Stage) -> None:
    def crash(pod: Pod) -> None:
        pod.bind()
        pod.end(1, message="Segmentation fault")

    stage.play(SERVER, crash)


LAUNCHED = Course("launched", _launched)
COURSES = (
    LAUNCHED,
    Course(
        "external",
        _external,
        {
            "model": {"name": "resnet"},
            "server": {
                "runtime": "External",
                "external": {"service": {"name": "mine", "port": 8001}},
            },
        },
        created={"jobs": 1, "configmaps": 2},
        pods={SERVER: 0, LOADGEN: 1},
    ),
    Course(
        "fleet",
        _launched,
        {"load": {"workers": 2}},
        created={"jobs": 2, "configmaps": 2, "services": 1},
        pods={SERVER: 1, LOADGEN: 3},
    ),
    Course(
        "gpu-pending",
        _gpu_pending,
        {"server": {"runtime": "OnnxRuntime", "device": "GPU"}},
        # The server of each attempt; the load comes only once the server has its node.
        created={"jobs": 3, "configmaps": 2},
        pods={SERVER: 2, LOADGEN: 1},
    ),
    Course(
        "repeated",
        _repeated,
        {"validity": {**SHORT, "repeats": 2}},
        created={"jobs": 3, "configmaps": 2},
        pods={SERVER: 2, LOADGEN: 1},
    ),
    Course("cancelled", _cancelled, failure="Cancelled"),
    Course(
        "failing",
        _failing,
        failure="ServerCrashed",
        created={"jobs": 1},
        pods={SERVER: 1, LOADGEN: 0},
    ),
)
