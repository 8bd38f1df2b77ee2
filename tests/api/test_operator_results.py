"""A result is kept whatever passes, and a run ends whatever the API server refuses."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from inferometer_api.plan import cluster_objects
from inferometer_api.plan.exporting import ExportReport
from support.api_client import Object
from support.cluster.control_plane import ControlPlane
from support.fault_proxy import Fault, FaultProxy
from support.stage import Stage
from support.status_policy import allow_figures, refuse_figures

_LOGS_REFUSED = 7
"""Attempts to read a log that fail: the pauses between them take more than 15 s."""


@pytest.fixture
def proxy(api_server: ControlPlane, tmp_path: Path) -> Iterator[FaultProxy]:
    """Put a proxy between the operator and the API server."""
    (folder := tmp_path / "proxy").mkdir()
    made = FaultProxy(api_server, folder)
    yield made
    made.close()


class _Refuse:
    """A rule: requests that match meet a fault as long as the test says."""

    def __init__(self, fault: Fault, matches: Callable[[str, str], bool]) -> None:
        self._fault, self._matches = fault, matches
        self.met = 0
        self.on = True

    def __call__(self, method: str, path: str) -> Fault:
        """Return the fault of a request."""
        if not self._matches(method, path.partition("?")[0]):
            return "none"
        self.met += self.on
        return self._fault if self.on else "none"


def test_an_unreadable_log_is_read_when_it_can_be(stage: Stage, proxy: FaultProxy) -> None:
    """Meanwhile the run says so, the Job stays, and another run measures and keeps its result."""
    rule = _Refuse("broken", lambda _, path: path.endswith("/log") and "/first-load" in path)
    proxy.rule = rule
    stage.start_operator(through=proxy)
    stage.apply("first")
    stage.apply("second")
    awaited = stage.wait("Finished", "ResultPending", value="False", name="first")
    assert "cannot be read yet" in awaited["message"]
    assert stage.condition("Complete", "first")["status"] == "True"
    assert stage.finished("second")["result"]["configMaps"]
    stage.wait_for(lambda: rule.met >= _LOGS_REFUSED, lambda: f"the attempts: {stage.logs()}")
    assert "Job/first-load" in stage.children()
    assert stage.condition("Finished", "first")["reason"] == "ResultPending"
    rule.on = False
    assert stage.finished("first")["result"]["configMaps"]
    assert stage.condition("Complete", "first")["reason"] == "Measured"
    stage.wait_for(lambda: "Job/first-load" not in stage.children(), "the clean-up")


def test_a_result_without_its_pod_is_given_up_at_once(stage: Stage, proxy: FaultProxy) -> None:
    """The summary stays, and the condition says what is lost."""
    proxy.rule = _Refuse("broken", lambda _, path: path.endswith("/log"))
    stage.start_operator(through=proxy)
    stage.apply()
    stage.wait("Finished", "ResultPending", value="False")
    stage.load().pod.vanish()
    status = stage.finished()
    lost = stage.condition("Complete")
    assert (lost["status"], lost["reason"]) == ("True", "ResultLost")
    assert [each["name"] for each in status["scenarios"]] == ["latency"]


def test_a_result_that_a_quota_refuses_is_kept_when_there_is_room(stage: Stage) -> None:
    """The Job waits with it; the queue does not."""
    stage.play("loadgen", stage.loads.follow)
    stage.start_operator()
    stage.apply()
    load = stage.load()
    _no_more_config_maps(stage)
    load.judge("latency")
    load.end()
    awaited = stage.wait("Finished", "ResultPending", value="False")
    assert "exceeded quota" in awaited["message"]
    assert "Job/a-run-load" in stage.children()
    stage.control_plane.kubectl("-n", stage.namespace, "delete", "resourcequota", "full")
    status = stage.finished()
    (name,) = status["result"]["configMaps"]
    assert stage.run()["metadata"]["uid"][:8] in name


def test_a_result_is_exported_before_its_pod_goes(stage: Stage, proxy: FaultProxy) -> None:
    """A log that cannot be read, and an operator that is killed meanwhile, change nothing."""
    proxy.rule = _Refuse("broken", lambda _, path: path.endswith("/log"))
    claim: Object = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "kept", "labels": {cluster_objects.ALLOW_USE_LABEL: "true"}},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    stage.api.create("PersistentVolumeClaim", stage.namespace, claim)
    operator = stage.start_operator(through=proxy)
    stage.apply(retention={"export": {"uri": "pvc://kept/of/team"}})
    stage.wait("Finished", "ResultPending", value="False")
    operator.kill()
    stage.start_operator(through=proxy)
    assert "Job/a-run-load" in stage.children()
    assert stage.condition("Finished")["reason"] == "ResultPending"
    report = ExportReport(sha256="a" * 64, bytes=12)
    stage.load().pod.end_exporter(0, report.model_dump_json())
    result = stage.finished()["result"]
    folder = cluster_objects.export_name("a-run", stage.run()["metadata"]["uid"])
    assert result["exported"]["uri"] == f"pvc://kept/of/team/{folder}/result.json"
    assert stage.condition("Complete")["reason"] == "Measured"
    stage.wait_for(lambda: "Job/a-run-load" not in stage.children(), "the clean-up")


def _no_more_config_maps(stage: Stage) -> None:
    quota: Object = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "full"},
        "spec": {"hard": {"count/configmaps": "1"}},
    }
    stage.control_plane.kubectl("-n", stage.namespace, "apply", "-f", "-", stdin=json.dumps(quota))

    def counted() -> bool:
        found = stage.api.found("ResourceQuota", stage.namespace, "full") or {}
        return bool(found.get("status", {}).get("used"))

    stage.wait_for(counted, "the quota to count")


def test_a_retention_that_is_raised_at_the_last_moment_counts(
    stage: Stage, proxy: FaultProxy
) -> None:
    """The deletion on its way meets a run that has changed, and is not repeated."""
    raised: list[str] = []

    def rule(method: str, path: str) -> Fault:
        if method == "DELETE" and path.partition("?")[0].endswith("/benchmarkruns/a-run"):
            if not raised:
                stage.change(retention={"ttlSecondsAfterFinished": 3600})
            raised.append(path)
        return "none"

    proxy.rule = rule
    operator = stage.start_operator(through=proxy)
    stage.apply(retention={"ttlSecondsAfterFinished": 1})
    stage.wait_for(lambda: raised, lambda: f"the deletion: {stage.logs()}")
    operator.wait_for_log("conflict")
    stage.change(suspend=True)
    stage.wait_for(
        lambda: stage.status()["observedGeneration"] == stage.run()["metadata"]["generation"],
        "the next plan",
    )
    assert len(raised) == 1
    assert "deletionTimestamp" not in stage.run()["metadata"]


def test_a_run_whose_figures_a_policy_refuses_ends_with_the_least_status(stage: Stage) -> None:
    """It names its result, its end and the policy's words."""
    stage.apply("probe", suspend=True)
    name = refuse_figures(stage, "BenchmarkRun", "probe")
    stage.start_operator()
    stage.apply()
    status = stage.finished()
    told = stage.condition("Finished")
    assert told["reason"] == "StatusRefused"
    assert "no figures in a status" in told["message"]
    assert status["phase"] == "Complete"
    assert status["result"]["configMaps"]
    assert "display" not in status
    stage.wait_for(lambda: all("result" in each for each in stage.children()), "the clean-up")
    allow_figures(stage, name)


def test_a_run_whose_status_is_refused_for_good_is_cancelled_and_frees_its_slot(
    stage: Stage, proxy: FaultProxy
) -> None:
    """Its result is kept, its children go, and the next run measures."""
    stage.play("loadgen", stage.loads.measure_until_stopped)
    rule = _Refuse("refused", lambda _, path: path.endswith("/benchmarkruns/first/status"))
    rule.on = False
    proxy.rule = rule
    operator = stage.start_operator(through=proxy, maxConcurrentRuns=1)
    two = [{"name": "one", "singleStream": {}}, {"name": "two", "singleStream": {}}]
    stage.apply("first", scenarios=two)
    stage.wait("Measuring", name="first")
    stage.apply("second")
    rule.on = True
    stage.change("first", cancel=True)
    operator.wait_for_log("status_refused")
    stage.play("loadgen", stage.loads.measure)
    assert stage.finished("second")["result"]["configMaps"]
    left = [each for each in stage.children() if "/first" in each]
    assert all(each.startswith("ConfigMap/first-result") for each in left)
    assert left
    assert stage.condition("Failed", "first") == {}


def test_a_run_that_is_deleted_without_its_children_leaves_none_that_run(stage: Stage) -> None:
    """Its results stay, as the author wished; what others have labelled alike stays too."""
    stage.start_operator()
    stage.apply("kept", retention={"cleanup": "Never"})
    (part,) = stage.finished("kept")["result"]["configMaps"]
    stage.play("loadgen", stage.loads.measure_until_stopped)
    stage.apply("measuring")
    stage.wait("Measuring", name="measuring")
    uid = stage.run("measuring")["metadata"]["uid"]
    alike = cluster_objects.labels("measuring", uid, cluster_objects.LOADGEN)
    theirs = {"metadata": {"name": "theirs", "labels": alike}, "data": {}}
    stage.api.create("ConfigMap", stage.namespace, theirs)
    for name in ("kept", "measuring"):
        stage.control_plane.kubectl(
            "-n", stage.namespace, "delete", "bmr", name, "--cascade=orphan"
        )
    stage.wait_for(
        lambda: stage.children() == {f"ConfigMap/{part}", "ConfigMap/theirs"},
        lambda: f"the end of {stage.children()} {stage.logs()}",
    )
    found = stage.api.found("ConfigMap", stage.namespace, part)
    assert found is not None
    assert "ownerReferences" not in found["metadata"]
