"""A fleet is one Indexed Job: its pod 0 speaks for all, and finds its workers by a Service."""

import kubernetes_validate  # type: ignore[import-untyped] # it ships no types
import pytest

from inferometer_api.plan.cluster_objects import LOADGEN, RUN_UID_LABEL
from inferometer_api.plan.load_plan import LoadPlan
from inferometer_operator.manifests.load_job import load_job
from inferometer_operator.manifests.load_service import load_service
from support.cluster_objects import bound, condition, started
from support.condition_rows import a_cluster, over
from support.manifests import FULL, OWNER, PLAIN, load_pod, mounts, read
from support.pod_security import violations
from support.pretend_cluster import PretendCluster
from support.runs import Run, a_run, an_external_run

FLEET: Run = a_run(load={"workers": 2})
SECRETS: Run = an_external_run(
    load={
        "tls": {"caSecret": "authority", "clientSecret": "client"},
        "headersSecret": "token",
    }
)


def a_fleet() -> PretendCluster:
    """Return a cluster whose server is ready and whose Job is made."""
    return a_cluster({"load": {"workers": 2}}).settle().schedule().start_server()


def test_a_fleet_is_one_indexed_job() -> None:
    """Master and workers are pods of one command and one plan, none of which is made again."""
    for settings in (PLAIN, FULL):
        job = load_job(read(FLEET), OWNER, settings)
        for version in ("1.30", "1.34"):
            kubernetes_validate.validate(job, version, strict=True)
            kubernetes_validate.validate(load_service(read(FLEET), OWNER), version, strict=True)
        assert violations(job["spec"]["template"]["spec"]) == ()
    spec = job["spec"]
    assert (spec["completionMode"], spec["completions"], spec["parallelism"]) == ("Indexed", 3, 3)
    assert spec["backoffLimitPerIndex"] == 0
    assert "backoffLimit" not in spec
    alone = load_job(read(a_run()), OWNER, PLAIN)["spec"]
    assert (alone["backoffLimit"], alone["completions"]) == (0, 1)
    assert not {"completionMode", "backoffLimitPerIndex"} & alone.keys()
    assert not {"subdomain", "topologySpreadConstraints"} & alone["template"]["spec"].keys()


def test_workers_are_spread_and_hold_no_credentials_of_the_api() -> None:
    """Workers wish for a node each, apart from the server, and have no limit of CPU."""
    pod = load_pod(FLEET)
    (spread,) = pod["topologySpreadConstraints"]
    assert spread["whenUnsatisfiable"] == "ScheduleAnyway"
    assert spread["labelSelector"]["matchLabels"][RUN_UID_LABEL] == OWNER.uid
    assert spread["labelSelector"]["matchExpressions"][0]["values"] == ["0"]
    assert "podAntiAffinity" in pod["affinity"]
    assert pod["automountServiceAccountToken"] is False
    (container,) = pod["containers"]
    assert "cpu" not in container["resources"]["limits"]
    assert {each["containerPort"] for each in container["ports"]} == {8080, 5557}


def test_secrets_are_seen_by_the_load_generator_alone() -> None:
    """Each Secret is a read-only folder of the load container; of certificates only their keys."""
    pod = load_pod(SECRETS)
    (loader,) = pod["containers"]
    folder = "/etc/inferometer-credentials"
    assert mounts(loader) == {
        "/etc/inferometer": True,
        **{f"{folder}/{name}": True for name in ("ca", "client", "headers")},
    }
    found = {each["name"]: each["secret"] for each in pod["volumes"] if "secret" in each}
    assert {name: each["secretName"] for name, each in found.items()} == {
        "ca": "authority",
        "client": "client",
        "headers": "token",
    }
    assert [each["key"] for each in found["ca"]["items"]] == ["ca.crt"]
    assert [each["key"] for each in found["client"]["items"]] == ["tls.crt", "tls.key"]
    assert "items" not in found["headers"]
    assert all(each["defaultMode"] == 0o440 for each in found.values())
    assert violations(pod) == ()


def test_the_plan_holds_the_masters_address() -> None:
    """The Service is made before the Job, and the plan names the Job's pod 0 below it."""
    cluster = a_fleet()
    made = [write for write in cluster.writes if write.startswith("make ")]
    assert made == [
        "make Job/a-run-server",
        "make ConfigMap/a-run-load",
        "make Service/load-a-run",
        "make Job/a-run-load",
    ]
    held = cluster.children["ConfigMap/a-run-load"]
    plan = LoadPlan.model_validate_json(held["data"]["plan.json"])
    assert plan.fleet is not None
    assert (plan.fleet.host, plan.fleet.port) == ("a-run-load-0.load-a-run.team.svc", 5557)
    assert not plan.fleet.starts_workers
    assert plan.fleet.ready_deadline_seconds == plan.run.spec.server.ready_deadline_seconds


def test_a_run_of_one_process_has_no_service() -> None:
    """Without a fleet, none of its objects is created or read."""
    cluster = a_cluster().settle().schedule().start_server()
    assert not [write for write in cluster.writes if "Service/" in write]
    plan = LoadPlan.model_validate_json(
        cluster.children["ConfigMap/a-run-load"]["data"]["plan.json"]
    )
    assert plan.fleet is None


def test_a_run_that_takes_spans_has_a_service_for_them() -> None:
    """Servers find the receiver by the Service, which is made before the Job."""
    cluster = a_cluster({"load": {"tracing": {"sampleEvery": 10, "receiverPort": 4318}}})
    cluster.settle().schedule().start_server()
    made = [write for write in cluster.writes if write.startswith("make ")]
    assert made.index("make Service/load-a-run") < made.index("make Job/a-run-load")
    (port,) = cluster.children["Service/load-a-run"]["spec"]["ports"]
    assert (port["name"], port["port"], port["targetPort"]) == ("spans", 4318, 4318)
    pod = cluster.children["Job/a-run-load"]["spec"]["template"]["spec"]
    (loader,) = pod["containers"]
    assert {each["containerPort"]: each["name"] for each in loader["ports"]}[4318] == "spans"
    over(cluster.start_load().measure()).collect_garbage()
    assert cluster.says("Finished") == ("True", "Complete")
    assert "Service/load-a-run" not in cluster.children


def test_pod_0_reports_for_a_fleet() -> None:
    """Workers that run do not begin a run, and those that end do not end it."""
    cluster = a_fleet()
    for index in (1, 2):
        name = f"a-run-load-{index}"
        cluster.make_worker(index)
        cluster.pods[name] = started(bound(cluster.pods[name]), ready=True, at=cluster.now)
    assert cluster.settle().says("Measuring") == ("False", "LoadStarting")
    cluster.start_load().measure()
    assert cluster.says("Measuring") == ("True", "Measuring")
    del cluster.pods["a-run-load-1"]
    assert cluster.settle().says("Measuring") == ("True", "Measuring")
    over(cluster).collect_garbage()
    assert cluster.says("Finished") == ("True", "Complete")
    assert "Service/load-a-run" not in cluster.children


def test_a_worker_without_a_node_is_reported() -> None:
    """While pod 0 waits for its workers the run says why one does not come."""
    cluster = a_fleet().start_load()
    worker = cluster.make_worker(1)
    worker["status"]["conditions"] = [
        condition("PodScheduled", "False", reason="Unschedulable", message="0/1 nodes: no cpu.")
    ]
    assert cluster.settle().says("Measuring") == ("False", "Unschedulable")
    assert "the worker's pod" in cluster.message("Measuring")


@pytest.mark.parametrize("cleanup", ["suspend", "give up"])
def test_a_fleet_that_is_taken_back_leaves_nothing(cleanup: str) -> None:
    """A run that is suspended before it measures loses its Service, too."""
    cluster = a_fleet()
    if cleanup == "give up":
        cluster.run["spec"]["server"] = {"replicas": -1}
    else:
        cluster.run["spec"]["suspend"] = True
    cluster.settle().collect_garbage()
    assert not cluster.children.keys() & {"Service/load-a-run", "Job/a-run-load"}
    assert not [each for each in cluster.pods if LOADGEN in each]
