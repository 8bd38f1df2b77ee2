"""Runs that find no nodes wait in the queue and are tried again; a ceiling refuses at once."""

import threading
from collections import Counter

import pytest

from inferometer_api.plan.cluster_objects import LOADGEN, SERVER
from support.api_client import Object
from support.digits import MANIFEST
from support.fake_kubelet import Script, ready_server
from support.fake_pod import Pod
from support.stage import Stage

_WORDS = "0/1 nodes are available: 1 node(s) didn't satisfy existing pods anti-affinity rules."


class _Scheduler:
    """Finds no node for the pods of some runs until their nodes are free."""

    def __init__(self, component: str, script: Script, *runs: str) -> None:
        self._component, self._script = component, script
        self.runs = set(runs)
        self.free = threading.Event()
        self.refused: Counter[str] = Counter()

    def lead(self, pod: Pod) -> None:
        """Refuse a pod, or lead it by the script."""
        if pod.run in self.runs and not self.free.is_set():
            self.refused[pod.run] += 1
            pod.unschedulable(_WORDS)
        else:
            self._script(pod)


def _waits(stage: Stage, name: str) -> Object:
    """Wait until a run has no pods and waits for nodes, and return its status."""
    accepted = stage.wait("Accepted", "WaitingForNodes", name=name)
    assert _WORDS.rstrip(".") in accepted["message"]
    stage.wait_for(
        lambda: "startTime" not in stage.status(name),
        lambda: f"the end of {stage.children()}: {stage.status(name)}\n{stage.logs()}",
    )
    status = stage.status(name)
    assert status["phase"] == "Queued"
    return status


def test_the_next_run_begins_and_its_end_lets_the_waiting_one_try_again(stage: Stage) -> None:
    """A run without nodes holds no slot; it completes later, though its operator is restarted."""
    scheduler = _Scheduler(SERVER, ready_server, "run-1")
    stage.play(SERVER, scheduler.lead)
    stage.play(LOADGEN, stage.loads.follow)
    operator = stage.start_operator(maxConcurrentRuns=1)
    stage.apply("run-1", activeDeadlineSeconds=60)
    stage.wait("ServerReady", "Unschedulable", value="False", name="run-1")
    stage.apply("run-2")
    stage.wait("Accepted", "Queued", name="run-2")
    _waits(stage, "run-1")
    next_load = stage.load("run-2")
    operator.kill()
    operator.start()
    operator.wait_ready()
    assert stage.status("run-1")["waitingForNodes"]["attempts"] == 1
    scheduler.free.set()
    next_load.end()
    stage.finished("run-2")
    stage.load("run-1").end()
    status = stage.finished("run-1")
    assert stage.condition("Complete", "run-1")["status"] == "True"
    assert status["startTime"] > status["waitingForNodes"]["since"]
    assert scheduler.refused["run-1"] == status["waitingForNodes"]["attempts"]
    assert sum(pod.run == "run-1" for pod in stage.kubelet.all(stage.namespace, LOADGEN)) == 1


def test_a_load_pod_without_a_node_takes_its_server_back(stage: Stage) -> None:
    """The run leaves nothing, is tried again after its pause, and measures once."""
    scheduler = _Scheduler(LOADGEN, stage.loads.measure, "a-run")
    stage.play(LOADGEN, scheduler.lead)
    stage.start_operator(maxConcurrentRuns=1)
    stage.apply()
    stage.wait("ServerReady", "Ready")
    _waits(stage, "a-run")
    assert not [each for each in stage.children() if "a-run" in each]
    scheduler.free.set()
    stage.finished()
    assert stage.condition("Complete")["status"] == "True"
    assert len(stage.kubelet.all(stage.namespace, SERVER)) == 2
    assert len(stage.kubelet.all(stage.namespace, LOADGEN)) == 2
    assert scheduler.refused["a-run"] == 1


def test_a_run_that_waits_can_be_suspended_and_deleted(stage: Stage) -> None:
    """It leaves nothing, and the slot is free."""
    stage.play(SERVER, _Scheduler(SERVER, ready_server, "a-run").lead)
    stage.start_operator(maxConcurrentRuns=1)
    stage.apply()
    _waits(stage, "a-run")
    stage.change(suspend=True)
    stage.wait("Accepted", "Suspended")
    stage.change(suspend=False)
    stage.wait("ServerReady", "Unschedulable", value="False")
    stage.api.delete("BenchmarkRun", stage.namespace, "a-run")
    stage.apply("next")
    stage.finished("next")
    assert not [each for each in stage.children() if "a-run" in each]


@pytest.mark.parametrize(
    ("ceilings", "spec", "says"),
    [
        ({"workers": 2}, {"load": {"workers": 3}}, "spec.load.workers: 3 is above"),
        ({"cpu": "1500m"}, {}, "request 2 CPUs together"),
    ],
)
def test_a_run_beyond_a_ceiling_is_refused_while_others_run(
    stage: Stage, ceilings: Object, spec: Object, says: str
) -> None:
    """It needs no turn for that."""
    stage.play(LOADGEN, stage.loads.follow)
    settings: Object = {"load": {"resources": {"cpu": "1", "memory": "1Gi"}}, "ceilings": ceilings}
    stage.start_operator(maxConcurrentRuns=1, **settings)
    if "cpu" not in ceilings:
        stage.apply("other")
        stage.load("other")
    stage.apply(**spec)
    accepted = stage.wait("Accepted", "CeilingExceeded", value="False")
    assert says in accepted["message"]
    stage.finished()
    assert not [each for each in stage.children() if "a-run" in each]


def _with_manifest(stage: Stage, name: str, cpus: int) -> None:
    """Create a run whose manifest needs so many CPUs, and the ConfigMap with the manifest."""
    text = MANIFEST.replace("{cpus: 1, memory: 64Mi}", f"{{cpus: {cpus}}}")
    labels = {"inferometer.dev/allow-use": "true"}
    config_map = {"metadata": {"name": name, "labels": labels}, "data": {"model.yaml": text}}
    stage.api.create("ConfigMap", stage.namespace, config_map)
    manifest = {"uri": f"configmap://{name}/model.yaml"}
    stage.apply(name, model={"uri": "zoo://classification/resnet50", "manifest": manifest})


def test_a_manifest_in_a_config_map_chooses_the_nodes_of_its_server(pool: Stage) -> None:
    """Those that are large enough; what no node satisfies is refused with the nearest one."""
    smaller, larger = f"{pool.namespace}-b", f"{pool.namespace}-a"
    pool.api.merge("Node", None, larger, {"status": {"capacity": {"cpu": "5000"}}}, "status")
    pool.start_operator(readNodes=True)
    _with_manifest(pool, "fits", 4000)
    pool.wait("Accepted", name="fits")
    pool.wait_for(lambda: pool.api.found("Job", pool.namespace, "fits-server"), pool.logs)
    made = pool.api.found("Job", pool.namespace, "fits-server") or {}
    affinity = made["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    (expression,) = term["matchExpressions"]
    assert (expression["key"], expression["operator"]) == ("kubernetes.io/hostname", "NotIn")
    assert smaller in expression["values"]
    assert larger not in expression["values"]
    _with_manifest(pool, "too-large", 6000)
    refused = pool.wait("Accepted", "TaskRefused", value="False", name="too-large")
    assert f"Nearest is {larger}: it needs 6000 CPUs, and this has 5000" in refused["message"]
    assert pool.api.found("Job", pool.namespace, "too-large-server") is None
