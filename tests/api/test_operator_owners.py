"""An operator for one namespace and one for all of them never both work on a run."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from inferometer_api.plan.cluster_objects import LEASE, LOADGEN, SERVER
from support.cluster.audit import requests
from support.cluster.control_plane import ControlPlane
from support.cluster.namespaces import fresh_namespace
from support.operator_process import ACCOUNT, OperatorProcess
from support.stage import Stage
from support.two_operators import cluster_wide_operator

_WORDS = ("--lease-seconds", "3")


@pytest.fixture
def home(api_server: ControlPlane) -> Iterator[str]:
    """Make the namespace of the cluster-wide operator."""
    with fresh_namespace(api_server, "home") as name:
        yield name


@pytest.fixture
def everywhere(stage: Stage, home: str, tmp_path: Path) -> Iterator[OperatorProcess]:
    """Start the cluster-wide operator, before there is one for the stage's namespace."""
    operator = cluster_wide_operator(stage, home, tmp_path, *_WORDS)
    operator.wait_ready()
    yield operator
    operator.close()


def test_each_run_has_one_operator(stage: Stage, home: str, everywhere: OperatorProcess) -> None:
    """Each keeps its own run, reports the other's, and takes it over when that one is gone."""
    local, cluster_wide = f"{stage.namespace}/{LEASE}", f"{home}/{LEASE}"
    stage.play(LOADGEN, stage.loads.follow)
    stage.apply("first")
    stage.load("first").show("Measuring", "latency")
    stage.wait("Measuring", name="first")
    assert stage.status("first")["operator"] == cluster_wide

    # The namespace gets an operator of its own: it leaves the run that is going on.
    ours = stage.start_operator(*_WORDS)
    _wait_until_left(stage, ours, "first", cluster_wide)
    # New runs are its own, and the cluster-wide one leaves them to it.
    # It may take some seconds to see that there is a new operator: until then it is held.
    stage.apply("second", suspend=True)
    _wait_until_left(stage, everywhere, "second", local)
    stage.change("second", suspend=False)
    stage.load("second").show("Measuring", "latency")
    stage.wait("Measuring", name="second")
    assert stage.status("second")["operator"] == local
    _end(stage, "first")
    assert stage.status("first")["operator"] == cluster_wide

    # It goes, and the other one ends its run.
    ours.kill()
    _end(stage, "second")
    assert stage.status("second")["operator"] == cluster_wide
    assert everywhere.log_events("run_taken_over")
    _each_made_once(stage, home)


def _wait_until_left(stage: Stage, by: OperatorProcess, run: str, other: str) -> None:
    stage.wait_for(
        lambda: [each for each in by.log_events("run_left") if each["run"] == run],
        lambda: f"run_left in {by.log.read_text()[-3000:]}",
    )
    assert [each["operator"] for each in by.log_events("run_left") if each["run"] == run] == [other]
    stage.wait_for(lambda: "LeftToOtherOperator" in stage.events(run), "the event")


def _end(stage: Stage, name: str) -> None:
    load = stage.load(name)
    load.judge("latency")
    load.end()
    stage.finished(name)
    assert stage.condition("Complete", name)["status"] == "True"


def _each_made_once(stage: Stage, home: str) -> None:
    for component in (SERVER, LOADGEN):
        assert len(stage.kubelet.all(stage.namespace, component)) == 2
    users = (stage.user, f"system:serviceaccount:{home}:{ACCOUNT}")
    made = [
        each
        for user in users
        for each in requests(stage.control_plane.audit_log, user)
        if (each.verb, each.code, each.resource) == ("create", 201, "jobs")
    ]
    assert len(made) == 4
