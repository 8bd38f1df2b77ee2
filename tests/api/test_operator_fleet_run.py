"""A fleet is one Indexed Job of a real controller, and its pod 0 alone reports."""

import threading
from collections.abc import Callable

from inferometer_api.plan.cluster_objects import LOADGEN
from support.fake_pod import Pod
from support.stage import Stage
from support.waiting import wait_for_event

WORKERS = 2


def test_a_failing_worker_leaves_the_run_to_finish(stage: Stage) -> None:
    """Kubernetes replaces no worker, and lets pod 0 finish its report."""
    lost = threading.Event()
    workers: list[Pod] = []

    def lead(pod: Pod) -> None:
        if pod.index == 0:
            stage.loads.follow(pod)
            return
        pod.bind()
        pod.start()
        workers.append(pod)
        wait_for_event(lost, "the loss of a worker")
        if pod.index == 1:
            pod.end(137, "OOMKilled")

    stage.play(LOADGEN, lead)
    stage.start_operator()
    stage.apply(load={"workers": WORKERS})
    load = stage.load()
    assert load.plan["fleet"]["host"] == f"a-run-load-0.load-a-run.{stage.namespace}.svc"
    service = stage.api.found("Service", stage.namespace, "load-a-run")
    assert service is not None
    assert service["spec"]["clusterIP"] == "None"
    stage.wait_for(lambda: len(workers) == WORKERS, "both workers")
    assert {pod.object["spec"]["subdomain"] for pod in workers} == {"load-a-run"}
    assert sorted(pod.object["spec"]["hostname"] for pod in workers) == [
        "a-run-load-1",
        "a-run-load-2",
    ]
    load.show("Measuring", "latency")
    stage.wait("Measuring")
    lost.set()
    stage.wait_for(_has_failed(stage), "the Job to see that a worker failed")
    assert not load.pod.deleted.is_set()
    load.judge("latency")
    load.end("Failed", "WorkerLost", "Worker 0 was lost.")
    status = stage.finished()
    assert stage.condition("Failed")["reason"] == "WorkerLost", status
    assert "Worker 0 was lost." in stage.condition("Failed")["message"]
    assert [each["name"] for each in status["scenarios"]] == ["latency"]
    assert len(stage.kubelet.all(stage.namespace, LOADGEN)) == WORKERS + 1
    stage.wait_for(
        lambda: stage.api.found("Service", stage.namespace, "load-a-run") is None,
        "the Service's end",
    )


def test_an_unschedulable_worker_is_reported(stage: Stage) -> None:
    """While its master waits for it, the run says which pod no node takes."""

    def lead(pod: Pod) -> None:
        if pod.index == 0:
            stage.loads.follow(pod)
        else:
            pod.unschedulable("0/1 nodes are available: insufficient cpu.")

    stage.play(LOADGEN, lead)
    stage.start_operator()
    stage.apply(load={"workers": WORKERS})
    stage.load()
    condition = stage.wait("Measuring", "Unschedulable", value="False")
    assert "insufficient cpu" in condition["message"]
    stage.change(cancel=True)
    stage.finished()


def _has_failed(stage: Stage) -> Callable[[], bool]:
    def seen() -> bool:
        job = stage.api.found("Job", stage.namespace, "a-run-load")
        return bool(job and (job.get("status") or {}).get("failed"))

    return seen
