"""What does a worker do when its decision, or the cluster, fails?"""

import asyncio
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from structlog.testing import capture_logs

from inferometer_api.status import RunStatus
from inferometer_operator.cluster.errors import RefusedError, UnreachableError, refusal
from inferometer_operator.reconcile.observed import Observed
from inferometer_operator.reconcile.plan import Plan, Target
from inferometer_operator.settings import Settings
from inferometer_operator.wiring import worker as worker_module
from inferometer_operator.wiring.acting import Refusals
from inferometer_operator.wiring.giving_up import given_up
from inferometer_operator.wiring.health import ALIVE_SECONDS, HEARD_SECONDS, Health
from inferometer_operator.wiring.roster import Roster
from inferometer_operator.wiring.worker import Edges, Worker

_NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
_SETTINGS = Settings.model_validate({"images": {"serving": "a", "servingGpu": "b", "loadgen": "c"}})


class _Cluster:
    """Plays reader, writer, observer and actor for one run."""

    def __init__(self) -> None:
        self.run: dict[str, Any] | None = {
            "metadata": {"name": "a", "namespace": "ns", "uid": "u", "resourceVersion": "1"}
        }
        self.reads = 0
        self.written: list[RunStatus] = []
        self.faults: list[Exception] = []
        self.pods_left = 0
        self.removed: list[tuple[str, str, str]] = []

    async def found(self, *_: str) -> dict[str, Any] | None:
        self.reads += 1
        if self.faults:
            raise self.faults.pop(0)
        return self.run

    async def child(self, kind: str, _namespace: str, name: str, uid: str) -> dict[str, Any]:
        return {"kind": kind, "metadata": {"name": name, "uid": f"{uid}-{kind}"}}

    async def delete(self, _: str, target: Target) -> None:
        self.removed.append((target.kind, target.name, target.uid))

    async def pods(self, *_: str) -> tuple[dict[str, Any], ...]:
        self.pods_left -= 1
        return ({},) * max(0, self.pods_left)

    async def observe(self, _run: Any, turn: Any, _polled: Any) -> Observed:
        return Observed(turn=turn)

    async def status(self, run: dict[str, Any], status: RunStatus) -> dict[str, Any]:
        self.written.append(status)
        self.run = {**run, "status": status.model_dump(mode="json", exclude_none=True)}
        return self.run

    async def told(self, run: dict[str, Any], _plan: Plan) -> dict[str, Any]:
        return run

    async def made(self, *_: Any) -> bool:
        return False

    async def deleted(self, *_: Any) -> None:
        """Delete nothing."""


def _worker(cluster: _Cluster, decide: Callable[..., Plan]) -> tuple[Worker, Roster]:
    edges = Edges(
        decide=decide,
        settings=_SETTINGS,
        reader=cluster,  # type: ignore[arg-type]  # plays it
        writer=cluster,  # type: ignore[arg-type]  # plays it
        observer=cluster,  # type: ignore[arg-type]  # plays it
        actor=cluster,  # type: ignore[arg-type]  # plays it
        now=lambda: _NOW,
    )
    roster = Roster(1, lambda _: None)
    assert cluster.run is not None
    roster.see(cluster.run)
    return Worker(edges, roster, cluster.run), roster


def _nothing(*_: Any) -> Plan:
    return Plan(RunStatus())


async def _until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not true():  # noqa: ASYNC110 - what is waited for has no event of its own
            await asyncio.sleep(0.001)


def _worked(worker: Worker, true: Callable[[], bool]) -> None:
    async def work() -> None:
        task = asyncio.create_task(worker.run())
        await _until(lambda: true() or task.done())
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(work())


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Wait for nothing, and keep what is logged."""
    for name in ("_FIRST_PAUSE_SECONDS", "_GATHER_SECONDS"):
        monkeypatch.setattr(worker_module, name, 0.001)
    with capture_logs():
        yield


def test_a_run_at_which_the_operator_always_fails_is_failed() -> None:
    """It does not hang for ever, and the message names the fault."""
    cluster = _Cluster()

    def fails(*_: Any) -> Plan:
        raise ZeroDivisionError("three by nought")

    worker, _ = _worker(cluster, fails)
    _worked(worker, lambda: bool(cluster.written))
    (status,) = cluster.written
    told = {each.type: each for each in status.conditions}
    assert told["Failed"].reason == "OperatorFailed"
    assert "ZeroDivisionError: three by nought" in told["Failed"].message
    assert told["Finished"].status == "True"
    assert cluster.reads > 5
    assert cluster.removed == [
        ("Deployment", "a-server", "u-Deployment"),
        ("Job", "a-load", "u-Job"),
    ]


def test_a_fault_that_passes_is_forgotten() -> None:
    """A few failures end no run."""
    cluster = _Cluster()
    calls: list[int] = []

    def fails(*_: Any) -> Plan:
        calls.append(1)
        if len(calls) % 4:
            raise ZeroDivisionError(len(calls))
        return Plan(RunStatus(), look_again_seconds=0.001)

    worker, _ = _worker(cluster, fails)
    _worked(worker, lambda: len(calls) > 20)
    assert cluster.written == []


def test_a_cluster_that_does_not_answer_fails_no_run() -> None:
    """However often: the operator asks again."""
    cluster = _Cluster()
    decided: list[int] = []
    cluster.faults = [UnreachableError("cut"), RefusedError(500, "", "boom")] * 4

    def decide(*_: Any) -> Plan:
        decided.append(1)
        return _nothing()

    worker, _ = _worker(cluster, decide)
    _worked(worker, lambda: bool(decided))
    assert decided
    assert cluster.written == []


@pytest.mark.parametrize("namesake", [False, True])
def test_a_run_that_is_gone_is_forgotten_once_its_pods_are(*, namesake: bool) -> None:
    """A namesake made later is another run."""
    cluster = _Cluster()
    worker, roster = _worker(cluster, _nothing)
    assert cluster.run is not None
    begun = {**cluster.run, "status": {"startTime": "2026-01-31T12:00:00Z"}}
    roster.see(begun)
    cluster.pods_left = 3
    cluster.run = {"metadata": {**begun["metadata"], "uid": "other"}} if namesake else None
    asyncio.run(worker.run())
    assert cluster.pods_left <= 0
    assert not roster.holds("u")


def test_a_worker_sleeps_until_something_happens() -> None:
    """No time, no event: no request. A version that it knows already is no event."""
    cluster = _Cluster()
    worker, _ = _worker(cluster, _nothing)

    async def work() -> tuple[int, int]:
        task = asyncio.create_task(worker.run())
        await _until(lambda: cluster.reads == 1)
        assert cluster.run is not None
        worker.run_changed(cluster.run)
        for _ in range(20):
            await asyncio.sleep(0.001)
        before = cluster.reads
        worker.wake()
        await _until(lambda: cluster.reads > before)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return before, cluster.reads

    assert asyncio.run(work()) == (1, 2)


def test_refusals_are_tried_again_ever_more_rarely() -> None:
    """Five minutes of a full quota cost 14 attempts; only news are told."""
    refusals = Refusals()
    error = RefusedError(403, "Forbidden", "exceeded quota")
    attempts, news = 0, 0
    for second in range(300):
        now = datetime.fromtimestamp(second, UTC)
        if refusals.due("Job/a", now):
            attempts += 1
            news += refusals.add("Job/a", error, now)
    assert (attempts, news) == (14, 1)
    assert refusals.told["Job/a"].since == datetime.fromtimestamp(0, UTC)
    assert refusals.next_seconds(now) == pytest.approx(30, abs=30)
    assert refusals.add("Job/a", RefusedError(403, "", "another"), now)
    refusals.drop("Job/a")
    assert refusals.due("Job/a", now)
    assert refusals.next_seconds(now) is None


@pytest.mark.parametrize(
    ("headers", "body", "seconds"),
    [
        ({"Retry-After": "7"}, None, 7.0),
        ({}, {"details": {"retryAfterSeconds": 3}}, 3.0),
        ({"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}, {}, None),
        ({}, ["odd"], None),
    ],
)
def test_when_to_ask_again_is_read_from_an_answer(
    headers: dict[str, str], body: Any, seconds: float | None
) -> None:
    """In the header, or in the body; a page of a proxy says nothing."""
    error = refusal(429, body, headers, what="GET /x", text="<html>slow</html>")
    assert error.retry_after_seconds == seconds
    assert str(error).startswith("GET /x: ")


def test_what_was_found_before_stays_in_a_run_that_is_given_up() -> None:
    """Scenarios and conditions that are told are kept."""
    condition = {
        "type": "Accepted",
        "status": "True",
        "reason": "Accepted",
        "lastTransitionTime": "2026-01-31T11:00:00Z",
    }
    run = {
        "metadata": {"generation": 2},
        "status": {"startTime": "2026-01-31T11:00:00Z", "conditions": [condition]},
    }
    status = given_up(run, ValueError("x"), _NOW)
    assert status.start_time == "2026-01-31T11:00:00Z"
    assert status.completion_time == "2026-01-31T12:00:00Z"
    assert [each.type for each in status.conditions] == ["Accepted", "Failed", "Finished"]


def test_an_operator_that_is_deaf_is_not_ready_and_one_that_hangs_not_alive() -> None:
    """Whoever stands by is ready to lead; a leader must hear every watch."""
    now = [0.0]
    health = Health(lambda: now[0])
    assert health.ready()[0]
    health.lead("Pod", "Job")
    assert health.ready() == (False, "Leads; watches last heard: Pod: not yet, Job: not yet.")
    health.heard("Pod")
    health.heard("Job")
    assert health.ready()[0]
    now[0] = HEARD_SECONDS - 1
    health.heard("Pod")
    now[0] = HEARD_SECONDS + 1
    assert health.ready() == (False, "Leads; watches last heard: Pod: 2 s ago, Job: 331 s ago.")
    assert not health.alive()[0]
    now[0] = ALIVE_SECONDS - 1
    assert health.alive()[0]
