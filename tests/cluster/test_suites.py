"""A suite on a real node: two models over two protocols, with an operator that is replaced."""

import json
from collections.abc import Iterator

import pytest

from inferometer_api.suite.plan_suite import plan_suite
from support.chart import Json
from support.cluster.cluster import Cluster
from support.node_runs import SLOW_SECONDS
from support.operator_installed import operator_installed
from support.suites import parsed, two_by_two
from support.waiting import wait_until

_LOAD = {"resources": {"cpu": "50m", "memory": "256Mi"}}


@pytest.fixture
def served(cluster: Cluster) -> Iterator[str]:
    """Install an operator that may read nodes, and yield the namespace that it serves."""
    with operator_installed(cluster, "suites", {"load": _LOAD, "readNodes": True}) as namespace:
        yield namespace


def test_a_suite_goes_on_when_its_operator_is_replaced(cluster: Cluster, served: str) -> None:
    """Each of the four cells is measured once, on the node that it selects."""
    suite = two_by_two()
    cluster.kubectl("create", "--namespace", served, "-f", "-", stdin=json.dumps(suite))

    def status() -> Json:
        found: Json = cluster.get("bms", "two-by-two", "--namespace", served).get("status", {})
        return found

    def wait_for(true: str, of: str) -> None:
        wait_until(
            lambda: true in str(status().get(of)),
            f"{true} in {of} of the suite: {json.dumps(status())}",
            deadline_seconds=SLOW_SECONDS,
            poll_seconds=0.5,
        )

    wait_for("a", "states")
    selector = "app.kubernetes.io/component=operator"
    cluster.kubectl("delete", "pod", "--namespace", served, "--selector", selector, "--wait=false")
    wait_for("Complete", "phase")
    found = status()
    (node,) = found["systems"]
    assert set(found["states"]) <= {"V", "I"}
    runs = cluster.get("bmr", "--namespace", served)["items"]
    cells = {run.cell.key for run in plan_suite(parsed(suite)).runs}
    assert {each["metadata"]["labels"]["inferometer.dev/suite-cell"] for each in runs} == cells
    assert len(runs) == 4
    assert {tuple(each["status"]["nodes"]) for each in runs} == {(node,)}
    cluster.kubectl("delete", "bms", "two-by-two", "--namespace", served)
    wait_until(
        lambda: cluster.get("bmr", "--namespace", served)["items"] == [],
        "the deletion of the suite's runs",
        deadline_seconds=SLOW_SECONDS,
    )
