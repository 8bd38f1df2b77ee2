"""A run ends right when the operator, or the API server, dies at any moment."""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Literal

import pytest

from inferometer_api.plan.cluster_objects import LOADGEN, SERVER
from support.cluster.audit import requests
from support.cluster.control_plane import ControlPlane
from support.fake_kubelet import FakeKubelet, ready_server
from support.fake_pod import Pod
from support.fault_proxy import Fault, FaultProxy, FirstWriteOf
from support.operator_process import OperatorProcess
from support.stage import Stage, a_stage

_TWO = [{"name": "first", "singleStream": {}}, {"name": "second", "singleStream": {}}]
_Phase = Literal["queued", "starting", "serving", "preparing", "measuring", "ended", "finished"]


@pytest.mark.parametrize("phase", ["queued", "starting", "measuring", "ended"])
def test_an_operator_that_is_killed_goes_on_where_the_cluster_stands(
    stage: Stage, phase: _Phase
) -> None:
    """Killed in this phase and started again, it makes no child twice and measures once."""
    world = _World(stage)
    operator = stage.start_operator()
    if phase == "queued":
        stage.apply("other")
        stage.load("other")
    stage.apply(scenarios=_TWO)
    world.lead_to(phase)
    operator.kill()
    if phase == "queued":
        stage.load("other").end()
    world.go_on_from(phase)
    operator.start()
    world.lead_to_the_end(phase)
    status = stage.finished()
    assert stage.condition("Complete")["status"] == "True", status
    assert [each["name"] for each in status["scenarios"]] == ["first", "second"]
    assert status["result"]["configMaps"]
    _made_once(stage)


class _World:
    """Leads servers and load generators, with or without an operator."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        stage.play(SERVER, self._server)
        stage.play(LOADGEN, stage.loads.follow)
        self._held = False

    def lead_to(self, phase: _Phase) -> None:
        """Wait until the run is in a phase."""
        stage = self._stage
        match phase:
            case "queued":
                stage.wait("Accepted", "Queued")
            case "starting":
                stage.wait("Accepted", "Accepted")
            case "serving":
                stage.pod(LOADGEN)
            case "preparing":
                stage.load()
            case "measuring":
                self._measure()
                stage.wait("Measuring")
            case "ended" | "finished":
                self._measure()
                stage.wait("Measuring")
                self._end()
                stage.wait("Complete" if phase == "ended" else "Finished")

    def go_on_from(self, phase: _Phase) -> None:
        """Let the cluster go on while there is no operator."""
        if phase == "measuring":
            self._end()

    def lead_to_the_end(self, phase: _Phase) -> None:
        """Do what is left, with the operator that was started again."""
        if phase in {"queued", "starting", "serving", "preparing"}:
            self._measure()
            self._stage.wait("Measuring")
            self._end()

    def _server(self, pod: Pod) -> None:
        ready_server(pod)

    def _measure(self) -> None:
        load = self._stage.load()
        load.judge("first")
        load.show("Measuring", "second")

    def _end(self) -> None:
        load = self._stage.load()
        load.judge("second")
        load.end()


def _made_once(stage: Stage) -> None:
    made = [
        (each.resource, each.name)
        for each in requests(stage.control_plane.audit_log, stage.user)
        if each.verb == "create" and each.code == 201 and each.resource != "events"
    ]
    runs = len(stage.api.all("BenchmarkRun", stage.namespace))
    for component in (SERVER, LOADGEN):
        assert len(stage.kubelet.all(stage.namespace, component)) == runs
    # The answer to a request of a killed operator may be lost, but none is made twice.
    assert [each for each, count in Counter(made).items() if count > 1] == []
    jobs = [name for resource, name in made if resource == "jobs"]
    assert all(jobs)
    assert len(jobs) <= 2 * runs


def test_a_second_operator_takes_over(stage: Stage) -> None:
    """One leads; when it dies the other one finishes its run, and neither measures twice."""
    lease = ("--lease-seconds", "60")
    world = _World(stage)
    first = stage.start_operator(*lease)
    second = stage.begin_operator(*lease)
    second.wait_for_log("health_served")
    assert second.health("/readyz") == (
        200,
        "Standby: another operator leads, or none yet.\n",
    )
    stage.apply(scenarios=_TWO)
    world.lead_to("measuring")
    assert not second.log_events("lease_acquired")
    first.kill()
    spec = {"leaseDurationSeconds": 1}  # not to wait for all of the 60
    stage.api.merge("Lease", stage.namespace, "inferometer-operator", {"spec": spec})
    second.wait_ready()
    world.go_on_from("measuring")
    stage.finished()
    assert stage.condition("Complete")["status"] == "True"
    _made_once(stage)
    # One that ends by itself lets the next one lead at once.
    first.start()
    first.wait_for_log("health_served", 2)
    assert second.ask_to_end() == 0
    first.wait_for_log("lease_acquired", 2)
    assert first.ask_to_end() == 0


def test_an_operator_without_its_lease_ends(stage: Stage) -> None:
    """Another one may lead by then."""
    operator = stage.start_operator("--lease-seconds", "60")
    spec = {"holderIdentity": "someone-else", "leaseDurationSeconds": 60}
    stage.api.merge("Lease", stage.namespace, "inferometer-operator", {"spec": spec})
    stage.wait_for(lambda: operator.exit_code is not None, "the operator's end")
    assert operator.exit_code == 1
    assert "Another operator holds the Lease" in operator.log.read_text()


def test_an_api_server_that_is_gone_for_a_while_harms_no_run(stage: Stage) -> None:
    """The run goes on when it is back; nothing is made twice."""
    world = _World(stage)
    operator = stage.start_operator()
    stage.apply(scenarios=_TWO)
    world.lead_to("measuring")
    stage.control_plane.kill()
    operator.wait_for_log("watch_broken")
    stage.control_plane.restart()
    world.go_on_from("measuring")
    stage.finished()
    assert stage.condition("Complete")["status"] == "True"
    assert operator.exit_code is None
    _made_once(stage)


@pytest.fixture
def faulty_stages(
    api_server: ControlPlane, kubelet: FakeKubelet, tmp_path: Path
) -> Iterator[dict[Fault, tuple[Stage, FirstWriteOf, OperatorProcess]]]:
    """Start one operator for each fault, each behind a proxy that makes its first writes fail."""
    faults: tuple[Fault, ...] = ("busy", "broken", "conflict", "lost", "cut")
    with ExitStack() as stack:
        started: dict[Fault, tuple[Stage, FirstWriteOf, OperatorProcess]] = {}
        for fault in faults:
            (folder := tmp_path / fault).mkdir()
            proxy = FaultProxy(api_server, folder)
            stack.callback(proxy.close)
            stage = stack.enter_context(a_stage(api_server, kubelet, folder))
            proxy.rule = rule = FirstWriteOf(fault)
            started[fault] = (stage, rule, stage.begin_operator(through=proxy))
            stage.apply(scenarios=_TWO)
        yield started


def test_every_first_write_may_fail(
    faulty_stages: dict[Fault, tuple[Stage, FirstWriteOf, OperatorProcess]],
) -> None:
    """The run completes, each child is created once, and rejected requests are counted."""
    for fault, (stage, rule, operator) in faulty_stages.items():
        _check_faulty_run(stage, rule, operator)
        if fault == "broken":
            errors = f'inferometer_operator_api_errors_total{{code="500"}} {len(rule.met)}.0'
            assert errors in operator.health("/metrics")[1]


def _check_faulty_run(stage: Stage, rule: FirstWriteOf, operator: OperatorProcess) -> None:
    status = stage.finished()
    assert stage.condition("Complete")["status"] == "True", status
    assert status["result"]["configMaps"], status
    _made_once(stage)
    assert {method for method, _ in rule.met} == {"POST", "PATCH", "DELETE"}
    assert operator.exit_code is None
    stage.wait_for(
        lambda: all("result" in each for each in stage.children()),
        lambda: f"the end of {stage.children()}: {stage.status()}\n{stage.logs()}",
    )
