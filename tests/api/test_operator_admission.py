"""The chart's admission policy bounds what a stolen token of the operator can do."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from inferometer_operator.manifests.config_maps import result_config_map
from inferometer_operator.manifests.load_job import load_job
from inferometer_operator.manifests.load_service import load_service
from inferometer_operator.manifests.owner import Owner
from inferometer_operator.manifests.server_job import server_job
from support.admission import changed, refusal
from support.api_client import AnswerError, Api, Object
from support.manifests import PLAIN, read
from support.runs import a_run
from support.stage import Stage

UID = "0c9e8f3a-1111-4222-8333-444455556666"
OURS = {"app.kubernetes.io/managed-by": "inferometer-operator", "inferometer.dev/run-uid": UID}
POD = ("spec", "template", "spec")
FIRST = (*POD, "containers", 0)
FETCHER = (*POD, "initContainers", 0)

JOBS: dict[str, tuple[tuple[tuple[str | int, ...], Any], ...]] = {
    "its labels": (
        (("metadata", "labels", "app.kubernetes.io/managed-by"), "someone"),
        (("metadata", "labels", "inferometer.dev/run-uid"), None),
    ),
    "one owner": (
        (("metadata", "ownerReferences"), []),
        (("metadata", "ownerReferences", 0, "kind"), "ConfigMap"),
        (("metadata", "ownerReferences", 0, "apiVersion"), "batch/v1"),
        (("metadata", "ownerReferences", 0, "uid"), "another"),
    ),
    "activeDeadlineSeconds": ((("spec", "activeDeadlineSeconds"), None),),
    "labels of their run": (
        (("spec", "template", "metadata", "labels", "inferometer.dev/run-uid"), "another"),
    ),
    "no service account": (
        ((*POD, "serviceAccountName"), "inferometer-operator"),
        ((*POD, "automountServiceAccountToken"), True),
        ((*POD, "automountServiceAccountToken"), None),
    ),
    "no node by its name": (
        ((*POD, "nodeName"), "control-plane"),
        ((*POD, "priorityClassName"), "system-node-critical"),
        ((*POD, "runtimeClassName"), "unconfined"),
    ),
    "no namespace with their node": (
        ((*POD, "hostNetwork"), True),
        ((*POD, "hostPID"), True),
        ((*POD, "hostIPC"), True),
    ),
    "not run as root": (
        ((*POD, "securityContext", "runAsNonRoot"), False),
        ((*POD, "securityContext", "seccompProfile"), {"type": "Unconfined"}),
        ((*POD, "securityContext", "sysctls"), [{"name": "kernel.msgmax", "value": "1"}]),
        ((*POD, "securityContext", "seLinuxOptions"), {"type": "spc_t"}),
        ((*POD, "securityContext", "appArmorProfile"), {"type": "Unconfined"}),
        ((*POD, "securityContext"), None),
    ),
    "Volumes of": (
        ((*POD, "volumes", 0), {"name": "tmp", "hostPath": {"path": "/"}}),
        ((*POD, "volumes", 0), {"name": "tmp", "secret": {"secretName": "keys"}}),
        (
            (*POD, "volumes", 0),
            {
                "name": "tmp",
                "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]},
            },
        ),
        (
            (*POD, "volumes", 0),
            {"name": "tmp", "csi": {"driver": "example.com", "readOnly": True}},
        ),
    ),
    "Variables of": (
        ((*FIRST, "envFrom"), [{"secretRef": {"name": "keys"}}]),
        (
            (*FETCHER, "env", 0),
            {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "a"}}},
        ),
    ),
    "no privileges": (
        ((*FIRST, "securityContext"), None),
        ((*FIRST, "securityContext"), {"privileged": True}),
        ((*FIRST, "securityContext", "allowPrivilegeEscalation"), None),
        ((*FIRST, "securityContext", "capabilities", "add"), ["NET_ADMIN"]),
        ((*FETCHER, "securityContext", "capabilities"), {"drop": ["CHOWN"]}),
        ((*FIRST, "securityContext", "runAsUser"), 0),
        ((*FIRST, "securityContext", "runAsNonRoot"), False),
        ((*FETCHER, "securityContext", "seccompProfile"), {"type": "Unconfined"}),
        ((*FIRST, "securityContext", "procMount"), "Default"),
        ((*FIRST, "ports", 0, "hostPort"), 8000),
    ),
    "The kubelet calls nothing": (
        ((*FIRST, "lifecycle"), {"postStart": {"exec": {"command": ["true"]}}}),
        ((*FIRST, "livenessProbe"), {"exec": {"command": ["true"]}}),
        ((*FIRST, "startupProbe", "httpGet", "host"), "127.0.0.1"),
    ),
}
"""Changes to a server's Job, by the words with which each is refused."""

SERVICES: dict[str, tuple[tuple[tuple[str | int, ...], Any], ...]] = {
    "its labels": ((("metadata", "labels"), None),),
    "one owner": ((("metadata", "ownerReferences"), None),),
    "only headless Services": (
        (("spec", "clusterIP"), None),
        (("spec", "selector"), None),
        (("spec", "selector"), {"app": "database"}),
        (("spec", "externalIPs"), ["192.0.2.1"]),
        (("spec",), {"type": "NodePort", "ports": [{"port": 80}]}),
        (("spec",), {"type": "ExternalName", "externalName": "example.com"}),
    ),
}
CONFIG_MAPS: dict[str, tuple[tuple[tuple[str | int, ...], Any], ...]] = {
    "its labels": ((("metadata", "labels", "inferometer.dev/run-uid"), None),),
    "one owner": ((("metadata", "ownerReferences"), None),),
}


@pytest.fixture
def thief(stage: Stage) -> Iterator[Api]:
    """Return a client with the token of the operator's account, whose policy holds."""
    with Api(stage.control_plane, stage.operator_token()) as api:
        stage.wait_for(lambda: refusal(api, "ConfigMap", stage.namespace, {}), "the policy to hold")
        yield api


def test_the_operators_token_creates_only_children_of_runs(stage: Stage, thief: Api) -> None:
    """Each field that gives more rights, and each object without a run, is refused."""
    owner = Owner("a-run", stage.namespace, UID)
    run = read(a_run(server={"replicas": 2}, load={"workers": 2}))
    service = load_service(run, owner)
    assert service is not None
    result = result_config_map(b"result", owner, index=0, count=1, sha256="0" * 64)
    for kind, made, changes in (
        ("Job", server_job(run, owner, PLAIN), JOBS),
        ("Job", load_job(run, owner, PLAIN), {}),
        ("Service", service, SERVICES),
        ("ConfigMap", result, CONFIG_MAPS),
    ):
        assert refusal(thief, kind, stage.namespace, made) == ""
        for words, paths in changes.items():
            for path, value in paths:
                refused = refusal(thief, kind, stage.namespace, changed(made, path, value))
                assert words in refused, (path, value, refused)
                assert "ValidatingAdmissionPolicy" in refused


def test_the_operators_token_reports_only_runs_and_holds_only_its_lease(
    stage: Stage, thief: Api
) -> None:
    """Events are about BenchmarkRuns, and no other Lease is created."""
    event = {
        "metadata": {"name": "tried", "namespace": stage.namespace},
        "involvedObject": {
            "apiVersion": "v1", "kind": "Node", "name": "a", "namespace": stage.namespace,
        },
        "reason": "NodeNotReady",
    }  # fmt: skip
    assert "events of BenchmarkRuns" in refusal(thief, "Event", stage.namespace, event)
    lease = {"metadata": {"name": "another"}, "spec": {}}
    assert "only its own Lease" in refusal(thief, "Lease", stage.namespace, lease)
    lease = {"metadata": {"name": "inferometer-operator"}, "spec": {}}
    assert refusal(thief, "Lease", stage.namespace, lease) == ""


@pytest.mark.parametrize("kind", ["ConfigMap", "Service", "Job"])
def test_the_operators_token_deletes_only_children_of_runs(
    stage: Stage, thief: Api, kind: str
) -> None:
    """An object without the operator's labels stays; one that has them goes."""
    specs: dict[str, Callable[[], Object]] = {
        "ConfigMap": dict,
        "Service": lambda: {"spec": {"ports": [{"port": 80}]}},
        "Job": lambda: {
            "spec": {
                "suspend": True,
                "template": {
                    "spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a"}]}
                },
            }
        },
    }
    for name, labels in (("foreign", {}), ("ours", OURS)):
        body = {"metadata": {"name": name, "labels": labels}, **specs[kind]()}
        stage.api.create(kind, stage.namespace, body)
    with pytest.raises(AnswerError, match="only objects with its labels"):
        thief.delete(kind, stage.namespace, "foreign")
    assert stage.api.found(kind, stage.namespace, "foreign")
    thief.delete(kind, stage.namespace, "ours", propagationPolicy="Background")
    stage.wait_for(
        lambda: stage.api.found(kind, stage.namespace, "ours") is None, "the end of ours"
    )


def test_secrets_are_mounted_only_if_runs_may_name_them(stage: Stage) -> None:
    """With allowSecrets the operator's pods may have Secrets, and still no token."""
    owner = Owner("a-run", stage.namespace, UID)
    token = stage.operator_token(secrets=True)
    run = read(a_run(load={"headersSecret": "headers"}))
    made = load_job(run, owner, PLAIN)
    with Api(stage.control_plane, token) as api:
        stage.wait_for(lambda: refusal(api, "ConfigMap", stage.namespace, {}), "the policy to hold")
        assert refusal(api, "Job", stage.namespace, made) == ""
        assert "no token" in refusal(
            api,
            "Job",
            stage.namespace,
            changed(made, (*POD, "automountServiceAccountToken"), True),
        )


@pytest.mark.parametrize("secrets", [False, True], ids=["no secrets", "secrets"])
def test_models_are_mounted_from_the_nodes_cache_only_if_runs_may_use_it(
    stage: Stage, *, secrets: bool
) -> None:
    """No other driver's volume is mounted, and no Secret is handed to it without allowSecrets."""
    owner = Owner("a-run", stage.namespace, UID)
    model = {"uri": "s3://models/m.onnx", "sha256": "ab" * 32, "cache": "Node"}
    public = {**model, "uri": "https://models/m.onnx"}
    made = server_job(read(a_run(model=public)), owner, PLAIN)
    private = server_job(read(a_run(model={**model, "credentialsSecret": "keys"})), owner, PLAIN)
    volumes = made["spec"]["template"]["spec"]["volumes"]
    (index,) = (each for each, volume in enumerate(volumes) if "csi" in volume)
    token = stage.operator_token(secrets=secrets, model_cache=True)
    with Api(stage.control_plane, token) as api:
        stage.wait_for(lambda: refusal(api, "ConfigMap", stage.namespace, {}), "the policy to hold")
        assert refusal(api, "Job", stage.namespace, made) == ""
        assert ("Volumes of" in refusal(api, "Job", stage.namespace, private)) != secrets
        other = changed(made, (*POD, "volumes", index, "csi", "driver"), "example.com")
        assert "Volumes of" in refusal(api, "Job", stage.namespace, other)


def test_no_model_is_mounted_from_a_cache_that_runs_may_not_use(stage: Stage, thief: Api) -> None:
    """The setting modelCache.enabled is off by default."""
    model = {"uri": "https://models/m.onnx", "sha256": "ab" * 32, "cache": "Node"}
    made = server_job(read(a_run(model=model)), Owner("a-run", stage.namespace, UID), PLAIN)
    assert "Volumes of" in refusal(thief, "Job", stage.namespace, made)
