"""The objects of a run are what Kubernetes takes, and can do no harm whatever a run says."""

import base64
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped] # it ships no types
import pytest

from inferometer_api.plan.availability import unavailable
from inferometer_api.plan.cluster_objects import labels
from inferometer_api.plan.launch import load_plan
from inferometer_api.plan.load_plan import LoadPlan, PlannedServer
from inferometer_api.runtimes.descriptor import ServerContainer
from inferometer_api.runtimes.table import RUNTIMES
from inferometer_api.spec.resolve import is_launched
from inferometer_api.spec.run import BenchmarkRun
from inferometer_api.spec.server import Resources
from inferometer_operator.manifests.config_maps import plan_config_map, result_config_map
from inferometer_operator.manifests.load_job import load_job
from inferometer_operator.manifests.owner import Manifest, Owner
from inferometer_operator.manifests.server_job import server_job
from inferometer_operator.settings import MetricsSettings, Settings
from support.manifests import FULL, IMAGES, OWNER, PLAIN, after, load_pod, read, server_pod
from support.pod_security import containers, violations
from support.run_table import VALID
from support.runs import Run, a_run


def every_object() -> list[Manifest]:
    """Return each different object of the table's valid runs, under both settings."""
    found = {}
    for row in VALID:
        run = read(row.run)
        if unavailable(run, place="Cluster"):
            continue
        for settings in (PLAIN, FULL):
            for made in (
                *((server_job(run, OWNER, settings),) if is_launched(run.spec) else ()),
                load_job(run, OWNER, settings),
            ):
                found[json.dumps(made)] = made
    return list(found.values())


def test_kubernetes_takes_every_object() -> None:
    """Every object is one of Kubernetes 1.30 and of 1.34, without a field that they lack."""
    objects = every_object()
    assert len(objects) > 10
    for version in ("1.30", "1.34"):
        for made in (*objects, _a_result_part(b"a"), _a_plan_map(read(a_run()))):
            kubernetes_validate.validate(made, version, strict=True)


def test_every_pod_is_restricted() -> None:
    """No pod breaks the pod security standard, or holds more than its work needs."""
    for made in every_object():
        pod = made["spec"]["template"]["spec"]
        assert violations(pod) == ()
        assert pod["automountServiceAccountToken"] is False
        assert pod["enableServiceLinks"] is False
        assert not {"serviceAccountName", "serviceAccount", "nodeName", "hostUsers"} & set(pod)
        for each in containers(pod):
            assert each["securityContext"]["readOnlyRootFilesystem"] is True
            # An image of the admin's may have a command of its own.
            assert each.get("command", ["python3"])[0] in {"python3", "tritonserver"}


@pytest.mark.parametrize("fixed", [True, False])
@pytest.mark.parametrize("pod_of", [server_pod, load_pod])
def test_a_policy_can_assign_the_user(
    pod_of: Callable[[Run, Settings], Manifest], *, fixed: bool
) -> None:
    """Pods run as user 10001, or leave user and groups to their namespace; never as root."""
    pod = pod_of(a_run(), PLAIN.model_copy(update={"fixed_user": fixed}))
    names = ("fsGroup", "runAsGroup", "runAsUser")
    contexts = [pod["securityContext"], *(each["securityContext"] for each in containers(pod))]
    assert {context.get(name) for name in names for context in contexts} == (
        {10001, None} if fixed else {None}
    )
    assert violations(pod) == ()


def test_the_checker_reports_forbidden_privileges() -> None:
    """The checker of this file reports each privilege that a pod should not have."""
    pod = server_pod(a_run())
    added: tuple[tuple[str, Any], ...] = (
        ("hostNetwork", True),
        ("hostPID", True),
        ("volumes", [{"name": "root", "hostPath": {"path": "/"}}]),
        ("securityContext", {"runAsNonRoot": False}),
        ("securityContext", {"runAsUser": 0}),
        ("securityContext", {"seccompProfile": {"type": "Unconfined"}}),
    )
    for field, value in added:
        assert violations({**pod, field: value}), field
    harmless = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    assert not violations({**pod, "containers": [{"name": "a", "securityContext": harmless}]})
    for context in (
        {},
        {**harmless, "capabilities": {"drop": ["ALL"], "add": ["SYS_ADMIN"]}},
        {**harmless, "privileged": True},
        {**harmless, "runAsUser": 0},
        {**harmless, "procMount": "Unmasked"},
    ):
        container = {"name": "a", "securityContext": context}
        assert violations({**pod, "containers": [container]}), context


def test_the_run_owns_its_objects() -> None:
    """Each object is deleted with its run, carries its labels, and has no finalizer."""
    run = read(a_run())
    made = {
        "server": server_job(run, OWNER, PLAIN),
        "loadgen": load_job(run, OWNER, PLAIN),
        "result": _a_result_part(b"a"),
    }
    for component, each in (*made.items(), ("loadgen", _a_plan_map(run))):
        metadata = each["metadata"]
        assert metadata["namespace"] == "team"
        assert metadata["labels"] == labels("a-run", OWNER.uid, component)
        assert metadata["ownerReferences"] == [
            {
                "apiVersion": "inferometer.dev/v1alpha1",
                "kind": "BenchmarkRun",
                "name": "a-run",
                "uid": OWNER.uid,
                "controller": True,
            }
        ]
        if "spec" in each:
            assert each["spec"]["template"]["metadata"]["labels"] == metadata["labels"]


def test_no_server_is_restarted() -> None:
    """One pod for each replica, and the first that ends is the end of the Job."""
    spec = server_job(read(a_run(server={"replicas": 3})), OWNER, PLAIN)["spec"]
    assert (spec["completionMode"], spec["completions"], spec["parallelism"]) == ("Indexed", 3, 3)
    assert (spec["backoffLimit"], spec["podReplacementPolicy"]) == (0, "Failed")
    assert spec["template"]["spec"]["restartPolicy"] == "Never"


def test_kubernetes_ends_the_pods_of_a_run_without_an_operator() -> None:
    """Ten minutes after the run's deadline, so that an operator ends them first."""
    run = a_run(activeDeadlineSeconds=120)
    for make in (server_job, load_job):
        assert make(read(run), OWNER, PLAIN)["spec"]["activeDeadlineSeconds"] == 720


@pytest.mark.parametrize("pod_of", [server_pod, load_pod])
def test_no_pod_shares_a_node_with_another_run(pod_of: Callable[[Run], Manifest]) -> None:
    """Its node has no pod of another run, of any namespace; other pods may be there."""
    affinity = pod_of(a_run())["affinity"]["podAntiAffinity"]
    (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["topologyKey"] == "kubernetes.io/hostname"
    assert term["namespaceSelector"] == {}
    for component in ("server", "loadgen"):
        assert _matches(term["labelSelector"], labels("other", "another-uid", component))
        assert not _matches(term["labelSelector"], labels("a-run", OWNER.uid, component))
    assert not _matches(term["labelSelector"], {"app.kubernetes.io/component": "server"})
    assert not _matches(term["labelSelector"], {})


def _matches(selector: Manifest, found: dict[str, str]) -> bool:
    """Return whether a selector matches labels, as Kubernetes defines it."""
    assert selector.keys() == {"matchExpressions"}
    return all(
        {
            "In": found.get(each["key"]) in each.get("values", ()),
            "NotIn": found.get(each["key"]) not in each.get("values", ()),
            "Exists": each["key"] in found,
        }[each["operator"]]
        for each in selector["matchExpressions"]
    )


def test_server_pods_are_guaranteed() -> None:
    """Every container requests what it may use; the GPU is the server's alone, the image both's."""
    run = a_run(
        server={
            "device": "GPU",
            "gpu": {"resource": "nvidia.com/mig-1g.10gb"},
            "resources": {"cpu": 2, "memory": "3Gi"},
        }
    )
    pod = server_pod(run)
    (fetch,), (server,) = pod["initContainers"], pod["containers"]
    plain = {"cpu": "2", "memory": "3Gi"}
    assert fetch["resources"] == {"requests": plain, "limits": plain}
    with_gpu = {**plain, "nvidia.com/mig-1g.10gb": "1"}
    assert server["resources"] == {"requests": with_gpu, "limits": with_gpu}
    assert fetch["image"] == server["image"] == IMAGES.serving_gpu


def test_the_instrument_is_not_throttled() -> None:
    """The load pod requests CPU and has no limit of it; its memory is bounded."""
    pod = load_pod(a_run(load={"inputs": {"file": {"uri": "configmap://a/b.npz"}}}))
    for each in containers(pod):
        assert each["resources"]["requests"]["cpu"] == "1"
        assert each["resources"]["limits"] == {"memory": each["resources"]["requests"]["memory"]}


def test_a_measurement_is_never_repeated() -> None:
    """The Job creates one pod, once, and no second one while the first still ends."""
    spec = load_job(read(a_run()), OWNER, PLAIN)["spec"]
    assert spec["backoffLimit"] == 0
    assert (spec["completions"], spec["parallelism"]) == (1, 1)
    assert spec["podReplacementPolicy"] == "Failed"
    assert spec["template"]["spec"]["restartPolicy"] == "Never"


def test_a_ready_server_is_left_alone() -> None:
    """The kubelet probes until the server is ready, longer than the run waits, and never again."""
    (server,) = server_pod(a_run(server={"readyDeadlineSeconds": 7}))["containers"]
    probe = server["startupProbe"]
    assert probe["httpGet"] == {"path": "/v2/health/ready", "port": 8000}
    assert probe["periodSeconds"] == 1
    assert probe["failureThreshold"] > 7
    assert not {"livenessProbe", "readinessProbe", "lifecycle"} & set(server)


def test_prometheus_discovers_the_pods_metrics() -> None:
    """By the name of a port, and by annotations unless the admin wants none."""
    unannotated = PLAIN.model_copy(update={"metrics": MetricsSettings(scrape_annotations=False)})
    for make, port in ((server_job, 8000), (load_job, 8080)):
        template = make(read(a_run(load={"protocol": "GRPC"})), OWNER, PLAIN)["spec"]["template"]
        assert template["metadata"]["annotations"] == {
            "prometheus.io/scrape": "true",
            "prometheus.io/port": str(port),
            "prometheus.io/path": "/metrics",
        }
        (container,) = template["spec"]["containers"]
        ports = {each["name"]: each["containerPort"] for each in container["ports"]}
        assert ports["http"] == port
        bare = make(read(a_run()), OWNER, unannotated)["spec"]["template"]["metadata"]
        assert "annotations" not in bare


def test_a_lost_node_is_detected_soon() -> None:
    """No pod stays bound for Kubernetes' five minutes to a node that does not answer."""
    for pod in (server_pod(a_run()), load_pod(a_run())):
        soon = {
            each["key"]: each["tolerationSeconds"]
            for each in pod["tolerations"]
            if each.get("effect") == "NoExecute"
        }
        assert soon == {
            "node.kubernetes.io/not-ready": 15,
            "node.kubernetes.io/unreachable": 15,
        }


def test_pods_are_scheduled_by_run_and_admin_settings() -> None:
    """Servers follow the run's placement, with a GPU the admin's too; the load the admin's."""
    toleration = {"key": "own", "value": "v", "effect": "NoSchedule"}
    placement = {"nodeSelector": {"a/b": "c"}, "tolerations": [toleration]}
    pod = server_pod(a_run(server={"device": "GPU", "placement": placement}), FULL)
    assert pod["nodeSelector"] == {"a/b": "c"}
    assert pod["tolerations"][2:] == [
        {**toleration, "operator": "Equal"},
        {"key": "gpu", "operator": "Exists"},
    ]
    assert pod["runtimeClassName"] == "nvidia"
    assert "runtimeClassName" not in server_pod(a_run(), FULL)
    load = load_pod(a_run(server={"device": "GPU", "placement": placement}), FULL)
    assert load["nodeSelector"] == {"pool": "load"}
    assert load["tolerations"][2:] == [{"key": "load", "operator": "Exists"}]
    for each in (pod, load):
        assert each["priorityClassName"] == "benchmarks"
        assert each["imagePullSecrets"] == [{"name": "registry"}]
        assert {one["imagePullPolicy"] for one in containers(each)} == {"Always"}


def test_the_load_keeps_away_from_the_server() -> None:
    """Another node is wished for, unless a claim may bind the load to the server's."""
    (wish,) = load_pod(a_run())["affinity"]["podAntiAffinity"][
        "preferredDuringSchedulingIgnoredDuringExecution"
    ]
    assert wish["podAffinityTerm"]["labelSelector"]["matchLabels"] == {
        "inferometer.dev/run-uid": OWNER.uid,
        "app.kubernetes.io/component": "server",
    }
    on_claim = a_run(load={"inputs": {"file": {"uri": "pvc://c/i.npz"}}})
    assert len(load_pod(on_claim)["affinity"]["podAntiAffinity"]) == 1


def test_the_load_generator_finds_its_plan() -> None:
    """The plan is a file of the load pod, and reads back as it was written."""
    run = read(a_run())
    made = _a_plan_map(run)
    pod = load_pod(a_run())
    (volume,) = [each for each in pod["volumes"] if each["name"] == "plan"]
    (item,) = volume["configMap"]["items"]
    assert volume["configMap"]["name"] == made["metadata"]["name"]
    (loader,) = pod["containers"]
    assert after("--plan", loader["command"]) == f"/etc/inferometer/{item['path']}"
    assert LoadPlan.model_validate_json(made["data"][item["key"]]).run == run
    assert {each["name"] for each in loader["env"]} >= {"NODE_NAME", "POD_NAME"}


def test_a_result_is_kept_in_order() -> None:
    """Each part is a ConfigMap that says how many there are."""
    made = [_a_result_part(part, index) for index, part in enumerate((b"one", b"two"))]
    names = [f"a-run-result-{OWNER.uid[:8]}-{part}" for part in (0, 1)]
    assert [each["metadata"]["name"] for each in made] == names
    assert {each["metadata"]["annotations"]["inferometer.dev/parts"] for each in made} == {"2"}
    parts = [base64.b64decode(each["binaryData"]["result.json.gz"]) for each in made]
    assert parts == [b"one", b"two"]


@pytest.mark.parametrize("name", ["a.b.c", "a" * 200])
def test_every_name_of_a_run_gives_names_of_objects(name: str) -> None:
    """A run may be called what no label or Job may be: its children have names all the same."""
    owner = Owner(name=name, namespace="team", uid=OWNER.uid)
    run = read(a_run())
    for made in (server_job(run, owner, PLAIN), load_job(run, owner, PLAIN)):
        assert len(made["metadata"]["name"]) <= 57
        assert "." not in made["metadata"]["name"]
        assert made["metadata"]["ownerReferences"][0]["name"] == name


def _a_result_part(part: bytes, index: int = 0) -> Manifest:
    return result_config_map(part, OWNER, index=index, count=2, sha256="0" * 64)


def _a_plan_map(run: BenchmarkRun) -> Manifest:
    plan = load_plan(run, place="Cluster", servers=[PlannedServer(url="http://10.0.0.1:8000")])
    return plan_config_map(plan, OWNER)


def test_a_sidecar_of_a_runtime_is_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """A further container of a descriptor joins the pod, with its image, folder and resources."""
    found = RUNTIMES["OnnxRuntime"]
    assert found.launch is not None
    sidecar = ServerContainer(
        name="proxy",
        image="proxy",
        command=("proxy",),
        env={"MODE": "a"},
        volumes={"sockets": "/sockets"},
        resources=Resources(cpu="1", memory="64Mi"),
    )
    usual = found.launch.containers
    launch = replace(found.launch, containers=lambda run, start: (*usual(run, start), sidecar))
    table = {"OnnxRuntime": replace(found, launch=launch)}
    monkeypatch.setattr("inferometer_api.runtimes.table.RUNTIMES", table)
    images = IMAGES.model_copy(update={"servers": {"proxy": "r/proxy:1"}})
    settings = PLAIN.model_copy(update={"images": images})
    pod = server_job(read(a_run()), OWNER, settings)["spec"]["template"]["spec"]
    server, proxy = pod["containers"]
    assert (server["name"], proxy["name"], proxy["image"]) == ("server", "proxy", "r/proxy:1")
    assert "ports" not in proxy
    assert {"name": "MODE", "value": "a"} in proxy["env"]
    assert {"name": "sockets", "mountPath": "/sockets", "readOnly": False} in proxy["volumeMounts"]
    assert proxy["resources"]["limits"] == {"cpu": "1", "memory": "64Mi"}
    assert "sockets" in {volume["name"] for volume in pod["volumes"]}
