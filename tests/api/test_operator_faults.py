"""Faults end a run, or hold it up, as the real API server and its controllers report them."""

import json

import pytest

from support.api_client import Object
from support.fake_pod import Pod
from support.stage import Stage


def test_what_heals_in_time_is_forgotten(stage: Stage) -> None:
    """An image that is there at the second attempt ends no run."""

    def late(pod: Pod) -> None:
        pod.bind()
        pod.waiting("ErrImagePull", 'failed to pull "registry.test/serving:1": not found')
        stage.wait("ServerReady", "ImageNotPulled", value="False")
        pod.start()

    stage.play("server", late)
    stage.start_operator()
    stage.apply()
    stage.finished()
    assert stage.condition("Complete")["status"] == "True"


def test_a_server_that_ends_under_load_ends_the_run(stage: Stage) -> None:
    """What was measured until then is downloaded and kept."""
    two = [{"name": "first", "singleStream": {}}, {"name": "second", "singleStream": {}}]
    stage.play("loadgen", stage.loads.measure_until_stopped)
    stage.start_operator()
    stage.apply(scenarios=two)
    stage.wait("Measuring")
    stage.pod("server").end(139, message="segmentation fault")
    reported = stage.wait("Failed", "ServerEnded")
    assert "segmentation fault" in reported["message"]
    status = stage.finished()
    assert [each["name"] for each in status["scenarios"]] == ["first"]
    assert status["result"]["configMaps"]


def test_a_load_pod_that_is_lost_is_never_replaced(stage: Stage) -> None:
    """The run is Failed; the measurement is not begun again."""
    stage.play("loadgen", stage.loads.follow)
    stage.start_operator()
    stage.apply()
    load = stage.load()
    load.show("Measuring", "latency")
    stage.wait("Measuring")
    load.pod.delete()
    stage.wait("Failed", "LoadPodLost")
    stage.finished()
    assert len(stage.kubelet.all(stage.namespace, "loadgen")) == 1


def test_a_load_pod_that_is_evicted_ends_the_run(stage: Stage) -> None:
    """The message repeats the node's own words."""
    stage.play("loadgen", stage.loads.follow)
    stage.start_operator()
    stage.apply()
    load = stage.load()
    load.show("Measuring", "latency")
    stage.wait("Measuring")
    load.close()
    load.pod.evict("The node was low on resource: ephemeral-storage.")
    reported = stage.wait("Failed", "Evicted")
    assert "ephemeral-storage" in reported["message"]
    stage.finished()


def test_a_result_with_a_gap_is_reported_and_its_summary_kept(stage: Stage) -> None:
    """The run is Complete with the reason ResultIncomplete, and judged."""
    stage.play("loadgen", stage.loads.follow)
    stage.start_operator()
    stage.apply()
    load = stage.load()
    load.judge("latency")
    load.end(change=lambda lines: [*lines[:1], *lines[2:]])
    stage.wait("Complete", "ResultIncomplete")
    status = stage.finished()
    assert stage.condition("Valid")["status"] == "True"
    assert [each["name"] for each in status["scenarios"]] == ["latency"]
    assert not status.get("result", {}).get("configMaps")


def test_a_run_that_this_version_cannot_do_is_refused_at_once(stage: Stage) -> None:
    """It is never tried again, and needs no turn."""
    stage.start_operator()
    stage.apply(model={"uri": "file:model.onnx"})
    reported = stage.wait("Failed", "NotAvailable")
    assert "file:" in reported["message"]
    stage.finished()
    assert stage.condition("Accepted")["status"] == "False"
    assert stage.children() == set()


@pytest.mark.parametrize(
    ("kind", "name"),
    [("Job", "a-run-server"), ("Job", "a-run-load"), ("ConfigMap", "a-run-load")],
)
def test_a_foreign_object_of_a_childs_name_is_left_alone(
    stage: Stage, kind: str, name: str
) -> None:
    """It is never adopted and never deleted; the run is Failed with NameClash."""
    before = stage.api.create(kind, stage.namespace, _foreign(kind, name))
    stage.start_operator()
    stage.apply()
    reported = stage.wait("Failed", "NameClash")
    assert name in reported["message"]
    stage.finished()
    after = stage.api.found(kind, stage.namespace, name)
    assert after is not None
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert "deletionTimestamp" not in after["metadata"]
    assert after["metadata"].get("labels") == before["metadata"].get("labels")


def _foreign(kind: str, name: str) -> Object:
    container = {"name": "c", "image": "registry.test/other:1"}
    template = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    specs: dict[str, Object] = {
        "Job": {"spec": {"suspend": True, "template": template}},
        "ConfigMap": {"data": {"plan.json": "{}"}},
    }
    return {"metadata": {"name": name}, **specs[kind]}


_QUOTA = {"kind": "ResourceQuota", "spec": {"hard": {"pods": "0"}}}
_NO_JOBS = {"kind": "ResourceQuota", "spec": {"hard": {"count/jobs.batch": "0"}}}
_LIMITS = {
    "kind": "LimitRange",
    "spec": {"limits": [{"type": "Container", "max": {"cpu": "100m", "memory": "64Mi"}}]},
}


@pytest.mark.parametrize(
    ("barrier", "reason"),
    [(_QUOTA, "QuotaExceeded"), (_NO_JOBS, "QuotaExceeded"), (_LIMITS, "LimitRangeRefused")],
    ids=["pods", "jobs", "limits"],
)
def test_a_quota_or_limit_of_the_namespace_is_reported(
    stage: Stage, barrier: Object, reason: str
) -> None:
    """By the real controllers' words; the run goes on when there is room after all."""
    named = {"apiVersion": "v1", "metadata": {"name": "barrier"}, **barrier}
    kubectl = stage.control_plane.kubectl
    kubectl("-n", stage.namespace, "apply", "-f", "-", stdin=json.dumps(named))
    if barrier["kind"] == "ResourceQuota":
        stage.wait_for(
            lambda: (
                (stage.api.found("ResourceQuota", stage.namespace, "barrier") or {})
                .get("status", {})
                .get("hard")
            ),
            "the quota",
        )
    stage.start_operator()
    stage.apply(server={"readyDeadlineSeconds": 120})
    reported = stage.wait("ServerReady", reason, value="False")
    assert "barrier" in reported["message"] or "per Container" in reported["message"]
    kubectl("-n", stage.namespace, "delete", str(barrier["kind"]), "barrier")
    stage.finished()
    assert stage.condition("Complete")["status"] == "True"


def test_a_policy_that_refuses_pods_is_reported(stage: Stage) -> None:
    """In the policy's own words."""
    name = f"no-pods-{stage.namespace}"
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE"],
                        "resources": ["pods"],
                    }
                ]
            },
            "validations": [{"expression": "false", "message": "no pods on a Saturday"}],
        },
    }
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {
            "policyName": name,
            "validationActions": ["Deny"],
            "matchResources": {
                "namespaceSelector": {
                    "matchLabels": {"kubernetes.io/metadata.name": stage.namespace}
                }
            },
        },
    }
    _applied(stage, policy, binding)
    stage.wait_for(lambda: _refuses_pods(stage), "the policy to hold")
    stage.start_operator()
    stage.apply(server={"readyDeadlineSeconds": 120})
    reported = stage.wait("ServerReady", "AdmissionRefused", value="False")
    assert "no pods on a Saturday" in reported["message"]
    stage.change(cancel=True)
    stage.finished()
    stage.control_plane.kubectl(
        "delete", "validatingadmissionpolicybinding,validatingadmissionpolicy", name
    )


def test_a_silent_webhook_is_reported(stage: Stage) -> None:
    """And the run goes on once it is gone."""
    name = f"silent-{stage.namespace}"
    webhook = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [
            {
                "name": "silent.inferometer.test",
                "clientConfig": {"url": "https://127.0.0.1:1/"},
                "rules": [
                    {
                        "apiGroups": ["batch"],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE"],
                        "resources": ["jobs"],
                    }
                ],
                "namespaceSelector": {
                    "matchLabels": {"kubernetes.io/metadata.name": stage.namespace}
                },
                "failurePolicy": "Fail",
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            }
        ],
    }
    _applied(stage, webhook)
    stage.start_operator()
    stage.apply(server={"readyDeadlineSeconds": 120})
    reported = stage.wait("ServerReady", "AdmissionRefused", value="False")
    assert "silent.inferometer.test" in reported["message"]
    stage.control_plane.kubectl("delete", "validatingwebhookconfiguration", name)
    stage.finished()
    assert stage.condition("Complete")["status"] == "True"


def _applied(stage: Stage, *objects: Object) -> None:
    listed = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
    stage.control_plane.kubectl("apply", "-f", "-", stdin=json.dumps(listed))


def _refuses_pods(stage: Stage) -> bool:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "probe"},
        "spec": {
            "securityContext": {
                "runAsNonRoot": True,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    "name": "c",
                    "image": "registry.test/other:1",
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "capabilities": {"drop": ["ALL"]},
                    },
                }
            ],
        },
    }
    try:
        stage.control_plane.kubectl(
            "-n", stage.namespace, "create", "--dry-run=server", "-f", "-", stdin=json.dumps(pod)
        )
    except RuntimeError as error:
        return "no pods on a Saturday" in str(error)
    return False


def test_a_deleted_server_pod_ends_the_run(stage: Stage) -> None:
    """A replaced server is another server."""
    stage.play("loadgen", stage.loads.measure_until_stopped)
    stage.start_operator()
    stage.apply()
    stage.wait("Measuring")
    stage.pod("server").delete()
    reported = stage.wait("Failed")
    # Seen while its container ends, or when it is gone.
    assert reported["reason"] in {"ServerEnded", "ServerReplaced"}
    stage.finished()
