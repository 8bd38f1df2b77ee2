"""Kueue admits runs as one unit, and its eviction ends them; the test plays Kueue."""

from collections.abc import Iterator
from typing import Any

import pytest

from inferometer_api.plan import rights
from support.api_client import Api
from support.cluster.audit import requests
from support.definitions import create_definitions, remove_definitions
from support.kueue_module import needed_definitions
from support.kueue_objects import QUEUED_RUN_LABELS, admitted, evicted, inadmissible
from support.stage import Stage

_ENABLED: dict[str, Any] = {"kueue": {"enabled": True}}
_GROUP = "kueue.x-k8s.io"
_PRIORITY = {"kueue.x-k8s.io/priority-class": "urgent"}


@pytest.fixture(scope="module")
def kueue(api: Api) -> Iterator[None]:
    """Install Kueue's definitions, and what an admin creates for its queues."""
    create_definitions(api, needed_definitions())
    for kind, name, body in (
        ("ResourceFlavor", "measured", {"spec": {"nodeLabels": {"pool": "measured"}}}),
        ("WorkloadPriorityClass", "urgent", {"value": 100}),
    ):
        api.create(kind, None, _object(kind, name, **body))
    yield
    remove_definitions(api, needed_definitions())


def _object(kind: str, name: str, **body: Any) -> dict[str, Any]:
    version = "kueue.x-k8s.io/v1beta2"
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **body}


def _workload(stage: Stage, run: str = "a-run") -> dict[str, Any] | None:
    return stage.api.found("Workload", stage.namespace, f"{run}-workload")


def _play(stage: Stage, status: dict[str, Any], run: str = "a-run") -> None:
    """Let Kueue write the status of a run's Workload, once that exists."""
    stage.wait_for(lambda: _workload(stage, run), "the Workload")
    name = f"{run}-workload"
    stage.api.merge("Workload", stage.namespace, name, {"status": status}, "status")


def _apply(stage: Stage, run: str = "a-run", **spec: Any) -> None:
    labels = QUEUED_RUN_LABELS | spec.pop("labels", {})
    body = stage.a_run(run, **spec)
    body["metadata"]["labels"] = labels
    stage.api.create("BenchmarkRun", stage.namespace, body)


def _of_flavor() -> dict[str, Any]:
    return admitted({"server": "measured", "load": "measured"})


def test_a_run_is_held_only_by_a_kueue_that_is_there(stage: Stage) -> None:
    """Without its API the label has no effect; an operator that runs notices when it is there."""
    stage.start_operator(**_ENABLED)
    _apply(stage)
    stage.finished()
    assert "Kueue is not installed" in stage.condition("Accepted")["message"]
    create_definitions(stage.api, needed_definitions())
    try:
        # The operator looks for Kueue every ten seconds.
        stage.wait_for(lambda: _listed_workloads(stage), "the operator's list of Workloads")
        _apply(stage, "later")
        stage.wait("Accepted", "AdmissionPending", name="later")
    finally:
        remove_definitions(stage.api, needed_definitions())
    # Nothing is held once Kueue is gone.
    stage.finished("later")


def _listed_workloads(stage: Stage) -> bool:
    found = requests(stage.control_plane.audit_log, stage.user)
    return any(each.resource == "workloads" and each.code == 200 for each in found)


@pytest.mark.usefixtures("kueue")
def test_an_admitted_run_begins_and_gives_its_quota_back(stage: Stage) -> None:
    """Also if the operator was away when Kueue admitted it; it uses its rights and no others."""
    operator = stage.start_operator(**_ENABLED)
    foreign = _object("Workload", "clash-workload", spec={"podSets": [_a_pod_set()]})
    stage.api.create("Workload", stage.namespace, foreign)
    _apply(stage, "clash")
    stage.wait("Failed", "NameClash", name="clash")
    _apply(stage, labels=_PRIORITY, retention={"cleanup": "Never"})
    stage.wait("Accepted", "AdmissionPending")
    # The status is written first.
    stage.wait_for(lambda: _workload(stage), "the Workload")
    held = _workload(stage)
    assert held is not None
    assert (held["spec"]["queueName"], held["spec"]["priority"]) == ("team-queue", 100)
    assert [each["name"] for each in held["spec"]["podSets"]] == ["server", "load"]
    assert not any(each.startswith("Job/") for each in stage.children())
    operator.kill()
    _play(stage, _of_flavor())
    operator.start()
    stage.finished()
    assert stage.condition("Accepted")["reason"] == "Admitted"
    job = stage.api.found("Job", stage.namespace, "a-run-server")
    assert job is not None
    assert job["spec"]["template"]["spec"]["nodeSelector"] == {"pool": "measured"}
    stage.wait_for(lambda: _is_finished(stage), "the end of the Workload")
    _apply(stage, "cleaned")
    _play(stage, _of_flavor(), "cleaned")
    stage.finished("cleaned")
    stage.wait_for(lambda: _workload(stage, "cleaned") is None, "the deletion of the Workload")
    assert _used(stage) == {
        (right.resource, verb)
        for right in (*rights.KUEUE, *rights.KUEUE_CLUSTER)
        for verb in right.verbs
    }


@pytest.mark.usefixtures("kueue")
def test_a_preempted_run_ends_and_frees_its_quota(stage: Stage) -> None:
    """It fails as Preempted with Kueue's words; its Workload goes after its pods."""
    stage.play("loadgen", stage.loads.measure_until_stopped)
    stage.start_operator(**_ENABLED)
    _apply(stage, scenarios=[{"name": name, "singleStream": {}} for name in ("first", "second")])
    _play(stage, _of_flavor())
    stage.wait("Measuring")
    _play(stage, evicted("Preempted", "Preempted to accommodate a workload (UID: 1)"))
    failed = stage.wait("Failed", "Preempted")
    assert "Preempted to accommodate a workload (UID: 1)." in failed["message"]
    status = stage.finished()
    assert [each["name"] for each in status["scenarios"]] == ["first"]
    assert status["result"]["configMaps"]
    stage.wait_for(lambda: _workload(stage) is None, "the deletion of the Workload")


@pytest.mark.usefixtures("kueue")
def test_a_run_that_waits_for_kueue_takes_no_slot(stage: Stage) -> None:
    """An unknown queue is a condition, and the next run begins meanwhile."""
    stage.start_operator(**_ENABLED)
    _apply(stage)
    _play(stage, inadmissible("LocalQueue team-queue doesn't exist"))
    message = stage.wait("Accepted", "Inadmissible")["message"]
    assert "LocalQueue team-queue doesn't exist" in message
    stage.apply("other")
    stage.finished("other")
    assert "startTime" not in stage.status()
    stage.change(cancel=True)
    stage.finished()
    stage.wait_for(lambda: _workload(stage) is None, "the deletion of the Workload")


def _a_pod_set() -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "a", "image": "a"}]}}
    return {"name": "main", "count": 1, "template": template}


def _is_finished(stage: Stage) -> bool:
    held = _workload(stage)
    conditions = ((held or {}).get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Finished" and each["status"] == "True" for each in conditions)


def _used(stage: Stage) -> set[tuple[str, str]]:
    found = [
        each for each in requests(stage.control_plane.audit_log, stage.user) if each.group == _GROUP
    ]
    assert [each for each in found if each.code == 403] == []
    return {(each.resource, each.verb) for each in found}
