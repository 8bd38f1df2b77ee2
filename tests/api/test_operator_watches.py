"""A run ends right whatever its watches and the API server's answers do for minutes."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from inferometer_api.plan.cluster_objects import LOADGEN, SERVER
from inferometer_operator.command import FAILED
from support.cluster.audit import requests
from support.fault_proxy import Fault, FaultProxy
from support.operator_process import OperatorProcess
from support.stage import Stage
from support.watch_faults import DeafWatches, ErrorEvents, StaleEvents

_WRITES = ("POST", "PUT", "PATCH", "DELETE")


@pytest.fixture
def proxy(stage: Stage, tmp_path: Path) -> Iterator[FaultProxy]:
    """Put a proxy between an operator and its API server."""
    proxy = FaultProxy(stage.control_plane, tmp_path)
    yield proxy
    proxy.close()


def test_errors_in_watches_harm_no_run(stage: Stage, proxy: FaultProxy) -> None:
    """Each watch ends with an error event after each of its events: 500, 403, 429 and 410."""
    proxy.watch = faults = ErrorEvents((500, 403, 429, 410))
    _measure(stage, stage.begin_operator(through=proxy))
    assert faults.sent >= 8


def test_stale_events_harm_no_run(stage: Stage, proxy: FaultProxy) -> None:
    """After each event its object comes again as it was at first, as one that was added too."""
    proxy.watch = faults = StaleEvents()
    operator = stage.begin_operator(through=proxy)
    _measure(stage, operator)
    _measure(stage, operator, "next")
    assert faults.sent >= 20


def test_watches_that_fall_silent_are_opened_again(stage: Stage, proxy: FaultProxy) -> None:
    """All connections stay open without a byte: after 90 s the operator hears again."""
    operator = stage.start_operator(through=proxy)
    proxy.watch = deaf = DeafWatches(proxy.opened)
    stage.apply()
    _end(stage, operator)
    assert deaf.silenced >= 4


def test_a_storm_of_429_is_waited_for(stage: Stage, proxy: FaultProxy) -> None:
    """Retry-After is honoured: few requests come meanwhile, and the run goes on."""
    operator = _measuring(stage, proxy)
    storm = _For(20.0, "busy")
    proxy.rule = storm
    stage.load().judge("latency")
    stage.load().end()
    stage.wait_for(lambda: storm.is_over, "the end of the storm")
    _end(stage, operator)
    # Five watches, a run and its poll, each at most once in a second of Retry-After.
    assert storm.met <= 20 * 7, storm.met


@pytest.mark.parametrize(
    ("fault", "methods"),
    [
        ("broken", ("GET", *_WRITES)),
        ("full", _WRITES),
        ("hang", ("GET",)),
    ],
    ids=["minutes-of-5xx", "etcd-out-of-space", "all-reads-hang"],
)
def test_minutes_of_faults_are_outlived(
    stage: Stage, proxy: FaultProxy, fault: Fault, methods: tuple[str, ...]
) -> None:
    """Two minutes from its measurement to after its end: its result is kept all the same."""
    operator = _measuring(stage, proxy)
    proxy.rule = outage = _For(120.0, fault, methods)
    stage.load().judge("latency")
    stage.load().end()
    stage.wait_for(lambda: outage.is_over, "the end of the outage")
    assert outage.met > 0
    _end(stage, operator)


def test_a_leader_that_ends_in_minutes_of_5xx_is_restarted_without_harm(
    stage: Stage, proxy: FaultProxy
) -> None:
    """It cannot renew its Lease, and ends. It is started again, and its run keeps its result."""
    operator = _measuring(stage, proxy, "--lease-seconds", "15")
    proxy.rule = outage = _For(60.0, "broken")
    stage.wait_for(lambda: operator.exit_code is not None, "the end of the leader")
    assert not outage.is_over
    assert operator.exit_code == FAILED
    assert "could not be renewed" in operator.log.read_text()
    stage.load().judge("latency")
    stage.load().end()
    # As a kubelet does: it waits for the Lease until requests succeed.
    operator.start()
    stage.wait_for(lambda: outage.is_over, "the end of the outage")
    _end(stage, operator)
    assert operator.log_events("lease_request_failed")
    assert len(operator.log_events("lease_acquired")) == 2


class _For:
    """A rule: requests by some methods meet a fault for so long."""

    def __init__(
        self, seconds: float, fault: Fault, methods: tuple[str, ...] = ("GET", *_WRITES)
    ) -> None:
        self._fault = fault
        self._methods = methods
        self._over = threading.Event()
        self.met = 0
        timer = threading.Timer(seconds, self._over.set)
        timer.daemon = True
        timer.start()

    @property
    def is_over(self) -> bool:
        """Return whether requests pass again."""
        return self._over.is_set()

    def __call__(self, method: str, _: str) -> Fault:
        """Return the fault of a request."""
        if self.is_over or method not in self._methods:
            return "none"
        self.met += 1
        return self._fault


def _measuring(stage: Stage, proxy: FaultProxy, *words: str) -> OperatorProcess:
    """Start an operator and a run, and let it measure."""
    stage.play(LOADGEN, stage.loads.follow)
    operator = stage.start_operator(*words, through=proxy)
    stage.apply()
    stage.load().show("Measuring", "latency")
    stage.wait("Measuring")
    return operator


def _measure(stage: Stage, operator: OperatorProcess, name: str = "a-run") -> None:
    stage.apply(name)
    _end(stage, operator, name)


def _end(stage: Stage, operator: OperatorProcess, name: str = "a-run") -> None:
    """Wait for the end of a run, and check that everything was done once."""
    status = stage.finished(name)
    assert stage.condition("Complete", name)["status"] == "True", status
    assert status["result"]["configMaps"], status
    assert operator.exit_code is None
    stage.wait_for(lambda: all("result" in each for each in stage.children()), "the clean-up")
    runs = len(stage.api.all("BenchmarkRun", stage.namespace))
    made = [
        each
        for each in requests(stage.control_plane.audit_log, stage.user)
        if (each.verb, each.code, each.resource) == ("create", 201, "jobs")
    ]
    assert len(made) == 2 * runs
    for component in (SERVER, LOADGEN):
        assert len(stage.kubelet.all(stage.namespace, component)) == runs
