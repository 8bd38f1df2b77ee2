"""A run on a real API server goes from `kubectl apply` to its result."""

import base64
import hashlib
import json

from inferometer_api.results.gzip_members import decompress
from inferometer_api.results.result import ResultDocument
from support.cluster.audit import requests
from support.stage import SHORT, Stage

_THREE = [
    {"name": "latency", "singleStream": {}},
    {"name": "traffic", "server": {"targetQps": 20, "latencyBoundMicroseconds": 900_000}},
    {"name": "throughput", "batch": {"batchSizes": [1, 2]}},
]


def test_a_run_is_carried_out_to_its_result(stage: Stage) -> None:
    """Conditions, columns, events, result and clean-up are right, and writes are few."""
    stage.play("loadgen", stage.loads.follow)
    stage.start_operator()
    stage.apply(scenarios=_THREE, server={"replicas": 2})
    load = stage.load()
    assert len(load.plan["servers"]) == 2
    assert {each["pod"] for each in load.plan["servers"]} == {
        pod.name for pod in stage.kubelet.all(stage.namespace, "server")
    }
    load.show("Measuring", "latency")
    stage.wait("Measuring")
    stage.wait("ServerReady")
    assert stage.status()["phase"] == "Measuring"
    _check_columns(stage, "Measuring", "latency")
    for name in load.scenarios:
        load.judge(name)
    document = load.end()

    stage.wait("Complete")
    status = stage.finished()
    assert stage.condition("Valid")["status"] == "True"
    assert status["phase"] == "Complete"
    assert [each["name"] for each in status["scenarios"]] == ["latency", "traffic", "throughput"]
    assert status["completionTime"] >= status["startTime"]
    _check_result(stage, status, document)
    _check_columns(stage, "Complete", "VALID")
    stage.wait_for(
        lambda: all(each.startswith("ConfigMap/a-run-result") for each in stage.children()),
        "only the result to be left",
    )
    description = stage.control_plane.kubectl("-n", stage.namespace, "describe", "bmr", "a-run")
    assert "inferometer-operator" in description.partition("Events:")[2]
    _check_writes(stage)


def _check_columns(stage: Stage, *words: str) -> None:
    def description() -> str:
        return stage.control_plane.kubectl("-n", stage.namespace, "get", "bmr", "a-run")

    stage.wait_for(lambda: all(word in description() for word in words), description)


def _check_result(stage: Stage, status: dict[str, object], sent: ResultDocument) -> None:
    stored = status["result"]
    assert isinstance(stored, dict)
    maps = [stage.api.found("ConfigMap", stage.namespace, name) for name in stored["configMaps"]]
    parts = [
        base64.b64decode(each["binaryData"]["result.json.gz"]) for each in maps if each is not None
    ]
    text = decompress(b"".join(parts))
    assert hashlib.sha256(text).hexdigest() == stored["sha256"]
    document = ResultDocument.model_validate_json(text)
    assert document.scenarios == sent.scenarios
    assert document.run_id == stage.run()["metadata"]["uid"]


def _check_writes(stage: Stage) -> None:
    audited = list(requests(stage.control_plane.audit_log, stage.user))
    assert [each for each in audited if each.code >= 400 and each.writes] == []
    assert [each for each in audited if each.code == 403] == []
    writes = [each for each in audited if each.writes]
    assert len(writes) <= 40, writes


def test_a_run_that_took_no_time_is_complete_too(stage: Stage) -> None:
    """A load pod may have ended before anybody looked at it."""
    stage.start_operator()
    stage.apply()
    status = stage.finished()
    assert stage.condition("Complete")["status"] == "True", status
    assert [each["name"] for each in status["scenarios"]] == ["latency"]


def test_a_finished_run_is_deleted_when_its_time_is_over(stage: Stage) -> None:
    """With everything that belongs to it."""
    stage.start_operator()
    stage.apply(retention={"ttlSecondsAfterFinished": 1})
    stage.wait_for(
        lambda: stage.api.found("BenchmarkRun", stage.namespace, "a-run") is None,
        lambda: f"the run's end: {json.dumps(stage.status())} {stage.logs()}",
    )
    stage.wait_for(lambda: not stage.children(), lambda: f"the end of {stage.children()}")


def test_what_is_never_cleaned_up_is_left_until_the_run_is_deleted(stage: Stage) -> None:
    """`cleanup: Never` keeps the pods for a look; deletion of the run takes them."""
    stage.start_operator()
    stage.apply(retention={"cleanup": "Never"})
    stage.finished()
    assert {"Job/a-run-server", "Job/a-run-load"} <= stage.children()
    stage.api.delete("BenchmarkRun", stage.namespace, "a-run")
    stage.wait_for(lambda: not stage.children(), lambda: f"the end of {stage.children()}")


def test_a_run_against_a_service_starts_no_server(stage: Stage) -> None:
    """An External server is measured where it is."""
    spec = {"selector": {"app": "mine"}, "ports": [{"port": 8001}]}
    service = {"metadata": {"name": "mine"}, "spec": spec}
    stage.api.create("Service", stage.namespace, service)
    stage.start_operator()
    stage.apply(
        model={"name": "resnet"},
        server={"runtime": "External", "external": {"service": {"name": "mine", "port": 8001}}},
        validity=SHORT,
    )
    stage.finished()
    assert stage.condition("Complete")["status"] == "True"
    assert stage.kubelet.all(stage.namespace, "server") == []
    (server,) = stage.load().plan["servers"]
    assert server["url"].startswith("http://mine.")
    assert server["url"].endswith(":8001")


def test_a_run_of_a_deleted_ones_name_is_measured_too(stage: Stage) -> None:
    """What the first one has left goes on being deleted for a moment, and has its names."""
    stage.start_operator()
    for _ in range(2):
        stage.apply(retention={"cleanup": "Never"})
        stage.finished()
        assert stage.condition("Complete")["status"] == "True", stage.status()
        assert "Job/a-run-server" in stage.children()
        stage.api.delete("BenchmarkRun", stage.namespace, "a-run")
