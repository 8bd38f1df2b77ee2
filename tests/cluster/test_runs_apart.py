"""The scheduler keeps runs apart: on one node they take turns, also those of two operators."""

import functools
import threading
from collections.abc import Iterator

import pytest

from inferometer_api.plan.cluster_objects import RUN_LABEL, RUN_UID_LABEL
from inferometer_operator.manifests.pod_spec import HOST
from support.chart import Json
from support.cluster.cluster import Cluster
from support.node_runs import (
    SLOW_SECONDS,
    condition,
    holds,
    make_run,
    status,
    wait_for,
    wait_for_reason,
)
from support.operator_installed import operator_installed
from support.waiting import wait_until

_LOAD = {"resources": {"cpu": "50m", "memory": "256Mi"}}
_LONG = {"warmUpSeconds": 0, "minDurationSeconds": 75, "minQueries": 1}
"""Longer than the others need to find out that they have no node."""
_REPEATS = {"warmUpSeconds": 0, "minDurationSeconds": 15, "minQueries": 1, "repeats": 2}
"""The first repeat ends while a run that begins during it still waits for the node."""


@pytest.fixture(scope="module")
def namespaces(cluster: Cluster) -> Iterator[tuple[str, str]]:
    """Install two operators that know nothing of each other."""
    with (
        operator_installed(cluster, "apart-one", {"load": _LOAD}) as one,
        operator_installed(cluster, "apart-two", {"load": _LOAD}) as two,
    ):
        yield one, two


class _Watcher:
    """Notes whenever a node has live pods of more than one run."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._ended = threading.Event()
        self.looks = 0
        self.met: list[str] = []
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Look no more."""
        self._ended.set()
        self._thread.join(SLOW_SECONDS)

    def _watch(self) -> None:
        while not self._ended.wait(0.5):
            self._look()

    def _look(self) -> None:
        found = self._cluster.get("pods", "--all-namespaces", "--selector", RUN_UID_LABEL)
        runs_by_node: dict[str, set[str]] = {}
        for pod in found["items"]:
            if node := pod["spec"].get("nodeName"):
                over = pod["status"].get("phase") in {"Succeeded", "Failed"}
                runs = set() if over else {pod["metadata"]["labels"][RUN_UID_LABEL]}
                runs_by_node.setdefault(node, set()).update(runs)
        self.looks += 1
        self.met += [f"{node}: {runs}" for node, runs in runs_by_node.items() if len(runs) > 1]


def test_runs_on_one_node_follow_each_other(cluster: Cluster, namespaces: tuple[str, str]) -> None:
    """While one measures, those of both operators wait for its node; then each completes."""
    one, two = namespaces
    watcher = _Watcher(cluster)
    try:
        make_run(cluster, one, "first", validity=_LONG)
        wait_for(cluster, one, "first", "Measuring")
        waiting = ((one, "second"), (two, "other"))
        for namespace, name in waiting:
            make_run(cluster, namespace, name)
        for namespace, name in waiting:
            _waits_for_the_node(cluster, namespace, name)
        assert holds(cluster, one, "first", "Measuring")
        for namespace, name in ((one, "first"), *waiting):
            wait_for(cluster, namespace, name, "Complete")
            wait_for(cluster, namespace, name, "Finished")
    finally:
        watcher.close()
    assert watcher.looks > 30
    assert watcher.met == []


def test_a_run_that_was_admitted_before_does_not_take_the_node_of_a_next_server(
    two_nodes: Cluster,
) -> None:
    """Its pods wait for that node when the server is to be replaced: it goes back to the queue."""
    first, second = ({HOST: name} for name in two_nodes.nodes)
    values = {"operator": {"nodeSelector": first}, "load": _LOAD | {"nodeSelector": first}}
    server = {
        "resources": {"cpu": "250m", "memory": "512Mi"},
        "placement": {"nodeSelector": second},
    }
    with operator_installed(two_nodes, "repeats", values) as namespace:
        make = functools.partial(make_run, two_nodes, namespace, server=server)
        make("repeats", validity=_REPEATS)
        wait_for(two_nodes, namespace, "repeats", "Measuring")
        make("other")
        wait_until(
            lambda: len(_pods(two_nodes, namespace, "other")) > 0,
            "the pods of the other run",
            deadline_seconds=SLOW_SECONDS,
        )
        taken: list[str] = []

        def is_complete() -> bool:
            pods = _pods(two_nodes, namespace, "other")
            if holds(two_nodes, namespace, "repeats", "Complete"):
                return True
            taken.extend(pod["metadata"]["name"] for pod in pods if pod["spec"].get("nodeName"))
            return holds(two_nodes, namespace, "repeats", "Finished")

        wait_until(is_complete, "the end of the repeats", deadline_seconds=SLOW_SECONDS)
        assert holds(two_nodes, namespace, "repeats", "Complete")
        assert len(status(two_nodes, namespace, "repeats")["scenarios"]) == 2
        wait_for(two_nodes, namespace, "other", "Complete")
    assert taken == []


def _pods(cluster: Cluster, namespace: str, run: str) -> list[Json]:
    found = cluster.get("pods", "--namespace", namespace, "--selector", f"{RUN_LABEL}={run}")
    pods: list[Json] = found["items"]
    return pods


def _waits_for_the_node(cluster: Cluster, namespace: str, run: str) -> None:
    wait_for_reason(cluster, namespace, run, "Accepted", "WaitingForNodes")
    accepted = condition(cluster, namespace, run, "Accepted")
    assert accepted["status"] == "True"
    assert "anti-affinity" in accepted["message"], accepted
    assert status(cluster, namespace, run)["phase"] == "Queued"
