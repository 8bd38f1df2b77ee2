"""A result is exported before its load pod is deleted, and a copy is always kept or reported."""

import json
from typing import Any

import pytest

from inferometer_api.plan.cluster_objects import EXPORTER, LOADGEN
from inferometer_api.plan.exporting import ExportReport
from inferometer_operator.manifests.load_job import load_job
from inferometer_operator.reconcile.observed import DownloadedResult, ObjectReference
from inferometer_operator.reconcile.queue_position import queued_run
from inferometer_operator.reconcile.references import run_references
from support.cluster_objects import terminated, waiting, with_exporter
from support.condition_rows import EXPORT, UNREAD, VALID, changed, exporting, over
from support.manifests import OWNER, PLAIN, after, load_pod, read
from support.runs import a_run

_HOUR = 3600
_FOLDER = "s3://kept/of/team/a-run-0c9e8f3a"
_EXPORTED = ExportReport(sha256="a" * 64, bytes=12)
_REFERENCE = {"uri": f"{_FOLDER}/result.json", "sha256": "a" * 64, "bytes": 12}
_ON_CLAIM = {"retention": {"export": {"uri": "pvc://kept/of%20team/"}}}
_TOO_LARGE = DownloadedResult(None, "It has 9 MB.", "ResultTooLarge")


def _by_name(pod: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in pod["containers"]}


def test_only_the_exporter_has_the_keys_of_the_store() -> None:
    """And reads the folder that the load generator writes."""
    pod = load_pod(a_run(**EXPORT))
    loader, exporter = pod["containers"]
    assert (loader["name"], exporter["name"]) == (LOADGEN, EXPORTER)
    keys = [each["valueFrom"]["secretKeyRef"] for each in exporter["env"]]
    assert {each["name"] for each in keys} == {"keys"}
    assert "keys" not in json.dumps([loader, pod["volumes"]])
    assert exporter["volumeMounts"] == [
        {"name": "results", "mountPath": "/results", "readOnly": True}
    ]
    written = next(each for each in loader["volumeMounts"] if each["name"] == "results")
    assert written["readOnly"] is False
    assert after("--results", loader["command"]) == "/results"
    assert after("--target", exporter["command"]) == _FOLDER
    assert exporter["image"] == "r/serving:1"


def test_only_the_exporter_mounts_the_claim() -> None:
    """It may write there."""
    pod = load_pod(a_run(**_ON_CLAIM))
    containers = _by_name(pod)
    mounted = {each["mountPath"]: each["readOnly"] for each in containers[EXPORTER]["volumeMounts"]}
    assert mounted == {"/results": True, "/targets/claims/kept": False}
    volume = next(each for each in pod["volumes"] if each["name"] == "export")
    assert volume["persistentVolumeClaim"] == {"claimName": "kept"}
    assert "export" not in {each["name"] for each in containers[LOADGEN]["volumeMounts"]}
    assert containers[EXPORTER]["env"] == []
    assert (
        after("--target", containers[EXPORTER]["command"]) == "pvc://kept/of%20team/a-run-0c9e8f3a"
    )


def test_a_pod_without_an_export_has_no_exporter() -> None:
    """And no folder for it."""
    pod = load_pod(a_run())
    assert list(_by_name(pod)) == [LOADGEN]
    assert "results" not in {each["name"] for each in pod["volumes"]}
    assert "--results" not in pod["containers"][0]["command"]


def test_kubernetes_leaves_an_exporter_its_time() -> None:
    """The Job would take the log with it."""
    run = a_run(activeDeadlineSeconds=120, **EXPORT)
    assert load_job(read(run), OWNER, PLAIN)["spec"]["activeDeadlineSeconds"] == 4320
    exporter = _by_name(load_pod(run))[EXPORTER]
    assert after("--give-up-seconds", exporter["command"]) == "3720"


def test_an_export_names_its_objects() -> None:
    """The Secret needs the label of its purpose."""
    path = "spec.retention.export"
    secret = ObjectReference("Secret", "keys", f"{path}.credentialsSecret", use="export")
    assert run_references(read(a_run(**EXPORT))) == (secret,)
    claim = ObjectReference("PersistentVolumeClaim", "kept", f"{path}.uri")
    assert run_references(read(a_run(**_ON_CLAIM))) == (claim,)


def test_the_children_stay_until_the_result_is_exported() -> None:
    """Meanwhile it is kept, and the queue goes on; an operator that starts does the same."""
    cluster = over(exporting())
    assert cluster.says("Complete") == ("True", "Measured")
    assert cluster.says("Valid") == ("True", "AllValid")
    assert cluster.says("Finished") == ("False", "ResultPending")
    assert "kubectl logs a-run-loadgen-1 -n team -c exporter" in cluster.message("Finished")
    assert queued_run(cluster.run).state == "collecting"
    cluster.restart_operator()
    for _ in range(3):
        cluster.later(1000)
        assert cluster.status()["result"]["configMaps"] == ["a-run-result-0c9e8f3a-0"]
        assert cluster.load in cluster.children
    cluster.end_exporter(0, _EXPORTED)
    assert cluster.status()["result"]["exported"] == _REFERENCE
    assert cluster.status()["result"]["configMaps"] == ["a-run-result-0c9e8f3a-0"]
    assert cluster.says("Complete") == ("True", "Measured")
    assert f"exported to {_FOLDER}/result.json" in cluster.message("Complete")
    assert cluster.load not in cluster.children
    assert cluster.collect_garbage().says("Finished") == ("True", "Complete")


def test_an_exported_result_needs_no_other_copy() -> None:
    """One that cannot be read, kept or carried by the log is complete once it is exported."""
    unread = exporting().end_load(document=UNREAD)
    large = exporting()
    large.document_bytes = 9_000_000
    large.end_load(document=_TOO_LARGE)
    refused = exporting()
    refused.refusals["ConfigMap/a-run-result-0c9e8f3a-0"] = (403, "exceeded quota: things")
    over(refused)
    for cluster in (unread, large, refused):
        assert cluster.says("Finished") == ("False", "ResultPending")
        cluster.later(100).end_exporter(0, _EXPORTED)
        assert cluster.status()["result"] == {"bytes": 0, "configMaps": [], "exported": _REFERENCE}
        assert cluster.says("Complete") == ("True", "Measured")
        assert cluster.load not in cluster.children
        assert cluster.collect_garbage().says("Finished") == ("True", "Complete")


@pytest.mark.parametrize("report", [ExportReport(error="No such bucket."), None])
def test_a_result_that_is_not_exported_is_kept(report: ExportReport | None) -> None:
    """The condition says why, in the exporter's words if it has any."""
    cluster = over(exporting()).end_exporter(2, report)
    assert cluster.says("Complete") == ("True", "ExportFailed")
    words = "No such bucket." if report else "its exporter ended with code 2 (Error)."
    assert f"not exported to {_FOLDER}: {words}" in cluster.message("Complete")
    assert cluster.status()["result"]["configMaps"] == ["a-run-result-0c9e8f3a-0"]
    assert "exported" not in cluster.status()["result"]
    assert cluster.collect_garbage().says("Finished") == ("True", "Complete")


def test_an_export_is_given_up_an_hour_after_the_deadline() -> None:
    """Its pod goes then."""
    cluster = over(exporting()).later(2 * _HOUR - 1)
    assert cluster.load in cluster.children
    cluster.later(1)
    assert cluster.says("Complete") == ("True", "ExportFailed")
    assert cluster.load not in cluster.children


def test_a_result_that_is_neither_kept_nor_exported_is_lost() -> None:
    """With both reasons."""
    cluster = exporting()
    cluster.document_bytes = 9_000_000
    cluster.end_load(document=_TOO_LARGE).end_exporter(2, ExportReport(error="No such bucket."))
    assert cluster.says("Complete") == ("True", "ResultTooLarge")
    assert "It has 9 MB." in cluster.message("Complete")
    assert "No such bucket." in cluster.message("Complete")
    assert "result" not in cluster.status()
    unread = exporting().end_load(document=UNREAD).later(2 * _HOUR)
    assert unread.says("Complete") == ("True", "ResultLost")


def test_the_end_of_the_exporter_is_not_that_of_the_load_generator() -> None:
    """Whatever becomes of it, the measurement goes on."""
    for state in (
        terminated(2, "{}"),
        terminated(137, reason="OOMKilled"),
        waiting("ImagePullBackOff", "no such image"),
    ):
        cluster = exporting()
        pod = cluster.pods["a-run-loadgen-1"]
        pod = with_exporter(pod, state)
        pod["status"]["phase"] = "Running"
        cluster.pods["a-run-loadgen-1"] = pod
        cluster.later(3000)
        assert cluster.says("Measuring") == ("True", "Measuring"), state
        assert cluster.says("Failed") is None


def test_a_crashed_load_generator_does_not_wait_for_its_exporter() -> None:
    """There is nothing to export."""
    cluster = exporting()
    cluster.end_load(137, document=DownloadedResult(None, "No document."), reason="OOMKilled")
    assert cluster.says("Failed") == ("True", "OutOfMemory")
    assert cluster.load not in cluster.children


def test_a_cancelled_run_is_exported_too() -> None:
    """With what it had measured."""
    cluster = changed(exporting(), cancel=True).end_load(143, document=VALID)
    assert cluster.says("Finished") == ("False", "ResultPending")
    assert cluster.load in cluster.children
    cluster.later(10).end_exporter(0, _EXPORTED)
    assert cluster.status()["result"]["exported"] == _REFERENCE
    assert cluster.says("Failed") == ("True", "Cancelled")
    assert cluster.collect_garbage().says("Finished") == ("True", "Failed")


def test_a_pod_that_is_gone_ends_the_export() -> None:
    """The result is kept already."""
    cluster = over(exporting())
    del cluster.pods["a-run-loadgen-1"]
    cluster.later(1)
    assert cluster.says("Complete") == ("True", "ExportFailed")
    assert "the load pod is gone" in cluster.message("Complete")


def test_an_exporter_that_does_not_start_is_reported() -> None:
    """With the kubelet's reason."""
    cluster = over(exporting())
    pod = with_exporter(cluster.pods["a-run-loadgen-1"], waiting("ImagePullBackOff"))
    pod["status"]["phase"] = "Running"
    cluster.pods["a-run-loadgen-1"] = pod
    cluster.later(10)
    assert "its exporter waits (ImagePullBackOff)" in cluster.message("Finished")
