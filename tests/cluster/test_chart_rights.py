"""The operator uses exactly the rights that the chart grants it."""

import json

from inferometer_api.plan.cluster_objects import server_name
from support.chart import Json
from support.cluster.audit import requests
from support.cluster.cluster import Cluster
from support.node_runs import condition, make_run, wait_for
from support.operator_installed import operator_installed
from support.suites import two_by_two
from support.waiting import wait_until

VALUES: Json = {
    "allowSecrets": True,
    "maxConcurrentRuns": 4,
    "operator": {"replicas": 2},
    "readNodes": True,
}
ACCOUNT = "inferometer-operator"
Right = tuple[str, str, str]
"""Group, resource, verb."""
RARE: set[Right] = {
    ("apps", "deployments", "delete"),
    ("apps", "deployments", "get"),
    ("batch", "jobs", "get"),
    ("", "events", "list"),
    ("inferometer.dev", "benchmarksuites", "get"),
    ("inferometer.dev", "benchmarksuites", "delete"),
    ("inferometer.dev", "nodebenchmarks", "get"),
}
"""Used only after an upgrade, a fault or several executions of a schedule, which
tests/api/test_operator_process.py and tests/api/test_suite_faults.py bring about."""


def granted(cluster: Cluster, namespace: str) -> set[Right]:
    """Return the rights that Roles and ClusterRoles grant the operator's account."""
    subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace}
    bindings = cluster.get("rolebindings,clusterrolebindings", "--all-namespaces")["items"]
    found: set[Right] = set()
    for binding in bindings:
        if subject in binding.get("subjects", []):
            where = ("--namespace", namespace) if binding["roleRef"]["kind"] == "Role" else ()
            role = cluster.get(binding["roleRef"]["kind"], binding["roleRef"]["name"], *where)
            found |= {
                (group, resource, verb)
                for rule in role["rules"]
                for group in rule["apiGroups"]
                for resource in rule["resources"]
                for verb in rule["verbs"]
            }
    return found


def used(cluster: Cluster, namespace: str) -> set[Right]:
    """Return the rights that the operator used according to the audit log, none refused."""
    user = f"system:serviceaccount:{namespace}:{ACCOUNT}"
    logged = list(requests(cluster.audit_log, user))
    assert [each for each in logged if each.code == 403] == []
    assert {each.namespace for each in logged if each.resource != "nodes"} == {namespace}
    return {(each.group, each.resource, each.verb) for each in logged}


def missing_things(cluster: Cluster, namespace: str) -> None:
    """Create runs that refer to missing objects, so that the operator looks for each kind."""
    make_run(cluster, namespace, "no-claim", model={"uri": "pvc://absent/model.onnx"})
    make_run(
        cluster,
        namespace,
        "no-map",
        load={"inputs": {"file": {"uri": "configmap://absent/inputs.npz"}}},
    )
    make_run(
        cluster,
        namespace,
        "no-secret",
        model={"uri": "s3://bucket/model.onnx", "credentialsSecret": "absent"},
    )
    for run in ("no-claim", "no-map", "no-secret"):
        wait_for(cluster, namespace, run, "Finished")
        assert condition(cluster, namespace, run, "Accepted")["reason"] == "NotFound", run
    cluster.kubectl("create", "service", "clusterip", "no-pods", "--tcp=8000", "-n", namespace)
    external = {"external": {"service": {"name": "no-pods", "port": 8000}}, "runtime": "External"}
    make_run(
        cluster,
        namespace,
        "no-pods",
        model={"name": "absent"},
        server=external | {"readyDeadlineSeconds": 1},
    )
    wait_for(cluster, namespace, "no-pods", "Failed")


def create(cluster: Cluster, namespace: str, thing: Json) -> None:
    """Create an object."""
    cluster.kubectl("create", "--namespace", namespace, "-f", "-", stdin=json.dumps(thing))


def cancel_a_schedule(cluster: Cluster, namespace: str) -> None:
    """Cancel a suite with a schedule while a run of its first execution goes on."""
    suite = two_by_two()
    suite["spec"]["schedule"] = {"cron": "* * * * *"}
    name = suite["metadata"]["name"]
    create(cluster, namespace, suite)
    wait_until(
        lambda: f"benchmarkrun.inferometer.dev/{name}-" in _names(cluster, namespace, "bmr"),
        "the first run of the execution that starts at the next full minute",
        deadline_seconds=180.0,
    )
    patch = '{"spec": {"cancel": true}}'
    cluster.kubectl("patch", "bms", name, "-n", namespace, "--type=merge", "--patch", patch)
    words = ("--all", "--namespace", namespace, "--for=condition=Finished", "--timeout=120s")
    cluster.kubectl("wait", "bms", *words)


def _names(cluster: Cluster, namespace: str, kind: str) -> str:
    return cluster.kubectl("get", kind, "-n", namespace, "-o", "name")


def measure_the_node(cluster: Cluster, namespace: str) -> None:
    """Have a NodeBenchmark measured and removed at its end."""
    benchmark = {
        "apiVersion": "inferometer.dev/v1alpha1",
        "kind": "NodeBenchmark",
        "metadata": {"name": "timers"},
        "spec": {"only": ["timer"], "maxSeconds": 60, "ttlSecondsAfterFinished": 0},
    }
    create(cluster, namespace, benchmark)
    words = ("nbm/timers", "--namespace", namespace, "--for=delete", "--timeout=240s")
    cluster.kubectl("wait", *words)


def test_used_rights_are_the_granted_ones(cluster: Cluster) -> None:
    """Runs, a suite and a NodeBenchmark use all granted rights and no others."""
    with operator_installed(cluster, "rights", VALUES) as namespace:
        foreign = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "clash-load"},
        }
        create(cluster, namespace, foreign)
        make_run(cluster, namespace, "clash")
        missing_things(cluster, namespace)
        wait_for(cluster, namespace, "clash", "Failed")
        assert condition(cluster, namespace, "clash", "Failed")["reason"] == "NameClash"
        make_run(cluster, namespace, "stopped")
        wait_until(
            lambda: server_name("stopped") in cluster.kubectl("get", "jobs", "-n", namespace),
            "The server of the run that is cancelled",
        )
        cluster.kubectl(
            "patch", "bmr", "stopped", "--namespace", namespace, "--type=merge",
            "--patch", '{"spec": {"cancel": true}}',
        )  # fmt: skip
        wait_for(cluster, namespace, "stopped", "Finished")
        make_run(cluster, namespace, "fleet", load={"workers": 2})
        wait_for(cluster, namespace, "fleet", "Finished")
        make_run(cluster, namespace, "short-lived", retention={"ttlSecondsAfterFinished": 0})
        cluster.kubectl(
            "wait", "bmr/short-lived", "--namespace", namespace, "--for=delete", "--timeout=120s"
        )
        cancel_a_schedule(cluster, namespace)
        measure_the_node(cluster, namespace)
        assert used(cluster, namespace) | RARE == granted(cluster, namespace)
