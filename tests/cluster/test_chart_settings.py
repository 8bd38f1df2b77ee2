"""Settings of the chart that only real nodes can show: users that a policy assigns, a token."""

import json
import sys
from base64 import b64encode
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from inferometer_api.plan.cluster_objects import COMPONENT_LABEL, LOADGEN, RUN_LABEL, SERVER
from support import user_webhook
from support.chart import Json
from support.cluster.cluster import Cluster
from support.node_runs import SLOW_SECONDS, make_run, wait_for
from support.operator_installed import operator_installed
from support.signed_tls import signed_certificate
from support.waiting import wait_until

USER_ID, PORT = 1000710000, 29444
PREFIX = "settings"
TOKEN = "t0ken-of-the-metrics"  # noqa: S105 - of this test alone
_LOAD = {"resources": {"cpu": "50m", "memory": "256Mi"}}
_REQUEST = """
import sys, urllib.error, urllib.request
url, *tokens = sys.argv[1:]
for token in tokens:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        answer = urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=60)
        print(answer.status, b"inferometer_operator_" in answer.read())
    except urllib.error.HTTPError as error:
        print(error.code, b"inferometer_operator_" in error.read())
"""


@pytest.fixture(scope="module")
def users(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let a webhook give each pod of the test's namespace a user, and refuse those with one."""
    tls = signed_certificate(tmp_path_factory.mktemp("webhook"))
    words = [sys.executable, Path(user_webhook.__file__), tls.certificate, tls.key, PORT, USER_ID]
    process = cluster.start_in_control_plane("user-webhook", [str(word) for word in words])
    wait_until(lambda: "serving" in process.log.read_text(), "The webhook", [process])
    hook = {
        "name": "user.inferometer.test",
        "clientConfig": {
            "url": f"https://{user_webhook.HOST}:{PORT}/",
            "caBundle": b64encode(tls.authority.read_bytes()).decode(),
        },
        "rules": [
            {
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "operations": ["CREATE"],
                "resources": ["pods"],
            }
        ],
        "matchConditions": [
            {"name": "here", "expression": f"request.namespace.startsWith('{PREFIX}-')"}
        ],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    configuration = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "user"},
        "webhooks": [hook],
    }
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(configuration))
    yield
    cluster.kubectl("delete", "mutatingwebhookconfiguration", "user")
    process.kill()


@pytest.fixture(scope="module")
def namespace(cluster: Cluster, users: None) -> Iterator[str]:
    """Install an operator that leaves users to the policy, and whose metrics need a token."""
    values = {
        "fixedUser": False,
        "load": _LOAD,
        "metrics": {"tokenSecret": {"name": "metrics", "key": "bearer"}},
    }
    with operator_installed(cluster, PREFIX, values, partial(_create_token, cluster)) as name:
        yield name


def _create_token(cluster: Cluster, namespace: str) -> None:
    words = ("create", "secret", "generic", "metrics", f"--from-literal=bearer={TOKEN}")
    cluster.kubectl(*words, "--namespace", namespace)


def _pods(cluster: Cluster, namespace: str, selector: str) -> list[Json]:
    found = cluster.get("pods", "--namespace", namespace, "--selector", selector)
    pods: list[Json] = found["items"]
    return pods


def _user(cluster: Cluster, namespace: str, pod: str) -> list[int]:
    script = "import os; print(os.getuid(), os.getgid())"
    words = ("exec", "--namespace", namespace, pod, "--", "python3", "-c", script)
    return [int(word) for word in cluster.kubectl(*words).split()]


def test_pods_run_as_the_user_that_a_policy_assigns(cluster: Cluster, namespace: str) -> None:
    """Operator, server and load generator have it, without a group but 0; the run completes."""
    validity = {"warmUpSeconds": 0, "minDurationSeconds": 15, "minQueries": 10}
    make_run(cluster, namespace, "any-user", validity=validity)
    wait_for(cluster, namespace, "any-user", "Measuring")
    run = f"{RUN_LABEL}=any-user,{COMPONENT_LABEL}="
    selectors = (f"{run}{SERVER}", f"{run}{LOADGEN}", f"{COMPONENT_LABEL}=operator")
    for selector in selectors:
        (pod,) = _pods(cluster, namespace, selector)
        assert _user(cluster, namespace, pod["metadata"]["name"]) == [USER_ID, 0], selector
    wait_for(cluster, namespace, "any-user", "Complete")
    wait_for(cluster, namespace, "any-user", "Finished")


def test_the_operators_metrics_need_the_token_of_the_secret(
    cluster: Cluster, namespace: str
) -> None:
    """A client of the pod network without it is refused; the probes need none."""
    (pod,) = _pods(cluster, namespace, f"{COMPONENT_LABEL}=operator")
    url = f"http://{pod['status']['podIP']}:8080/metrics"
    words = [sys.executable, "-c", _REQUEST, url, "", "another", TOKEN]
    process = cluster.start_in_control_plane("metrics-client", words)
    wait_until(
        lambda: len(process.log.read_text().splitlines()) == 3,
        "The answers about metrics",
        deadline_seconds=SLOW_SECONDS,
    )
    answers = process.log.read_text().splitlines()
    assert answers == ["401 False", "401 False", "200 True"]
    statuses = pod["status"]["containerStatuses"]
    assert [each["ready"] for each in statuses] == [True]
