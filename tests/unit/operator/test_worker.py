"""A worker survives errors of its own and of the cluster."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from typing_extensions import override

from inferometer_api.status.run_status import Display, RunStatus
from inferometer_operator.cluster.errors import ApiError, ApiUnreachableError, api_error
from inferometer_operator.reconcile.conditions import read_status
from inferometer_operator.reconcile.observed import DownloadedResult, Observed
from inferometer_operator.reconcile.plan import Plan
from inferometer_operator.wiring import result_download
from inferometer_operator.wiring.abort import aborted_status
from inferometer_operator.wiring.health import ALIVE_SECONDS, HEARD_SECONDS, Health
from inferometer_operator.wiring.plan_executor import Refusals
from support.played_cluster import BEGUN, NOW, PlayedCluster, a_worker, attend, no_pauses, worked
from support.result_logs import downloaded
from support.results import a_result

pytestmark = pytest.mark.usefixtures(no_pauses.__name__)


def _nothing(*_: Any) -> Plan:
    return Plan(RunStatus())


def test_a_run_at_which_the_operator_always_fails_is_failed() -> None:
    """It does not hang for ever, and the message names the fault."""
    cluster = PlayedCluster()

    def fails(*_: Any) -> Plan:
        raise ZeroDivisionError("three by nought")

    worker, _ = a_worker(cluster, fails)
    worked(worker, lambda: bool(cluster.written))
    (status,) = cluster.written
    conditions_by_type = {each.type: each for each in status.conditions}
    assert conditions_by_type["Failed"].reason == "OperatorFailed"
    assert "ZeroDivisionError: three by nought" in conditions_by_type["Failed"].message
    assert conditions_by_type["Finished"].status == "True"
    assert cluster.reads > 5
    assert conditions_by_type["Valid"].reason == "NotComplete"
    assert cluster.removed == [
        ("Job", "a-load", "u-Job/a-load"),
        ("Job", "a-server", "u-Job/a-server"),
        ("InferenceService", "kserve-a", "u-InferenceService/kserve-a"),
        ("ConfigMap", "a-load", "u-ConfigMap/a-load"),
        ("ConfigMap", "a-begun", "u-ConfigMap/a-begun"),
        ("Service", "load-a", "u-Service/load-a"),
        ("Workload", "a-workload", "u-Workload/a-workload"),
    ]


def test_a_fault_at_one_place_is_one_fault_whatever_its_words() -> None:
    """An address or a time in its text, or an API server that fails in between, changes nothing."""
    cluster = PlayedCluster()
    calls: list[int] = []

    def fails(*_: Any) -> Plan:
        calls.append(1)
        cluster.faults = [ApiUnreachableError("cut")] if len(calls) < 6 else []
        raise KeyError(len(calls))

    worker, _ = a_worker(cluster, fails)
    worked(worker, lambda: bool(cluster.written))
    assert len(calls) == 6


def test_a_fault_that_passes_is_forgotten() -> None:
    """A few failures end no run."""
    cluster = PlayedCluster()
    calls: list[int] = []

    def fails(*_: Any) -> Plan:
        calls.append(1)
        if len(calls) % 4:
            raise ZeroDivisionError(len(calls))
        return Plan(RunStatus(), look_again_seconds=0.001)

    worker, _ = a_worker(cluster, fails)
    worked(worker, lambda: len(calls) > 20)
    assert cluster.written == []


def test_a_cluster_that_does_not_answer_fails_no_run() -> None:
    """The worker retries without limit."""
    cluster = PlayedCluster()
    decided: list[int] = []
    cluster.faults = [ApiUnreachableError("cut"), ApiError(500, "", "boom")] * 4

    def decide(*_: Any) -> Plan:
        decided.append(1)
        return _nothing()

    worker, _ = a_worker(cluster, decide)
    worked(worker, lambda: bool(decided))
    assert decided
    assert cluster.written == []


@pytest.mark.parametrize("namesake", [False, True])
def test_a_run_that_is_gone_is_forgotten_once_its_pods_are(*, namesake: bool) -> None:
    """A namesake made later is another run."""
    cluster = PlayedCluster()
    worker, queue = a_worker(cluster, _nothing)
    assert cluster.run is not None
    begun = {**cluster.run, "status": {"startTime": "2026-01-31T12:00:00Z"}}
    queue.update(begun)
    cluster.pods_left = 3
    cluster.run = {"metadata": {**begun["metadata"], "uid": "other"}} if namesake else None
    cluster.faults = [ApiUnreachableError("cut")]
    asyncio.run(attend(worker, cluster.news))
    assert cluster.pods_left <= 0
    assert worker.is_gone


@pytest.mark.parametrize("end", ["given up", "deleted", "held by a finalizer"])
def test_a_run_that_is_over_holds_no_result(monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    """However it ends: others wait for their own to be read."""
    cluster = PlayedCluster()
    cluster.observed_pods = ({"metadata": {"name": "a-load-x"}},)
    cluster.pods_left = 1000
    assert cluster.run is not None
    cluster.run["status"] = {"startTime": BEGUN}
    held: list[bool] = []

    async def collected(*_: Any) -> DownloadedResult:
        return downloaded(a_result())

    def decide(run: Any, observed: Observed, *_: Any) -> Plan:
        if observed.downloaded is None:
            return Plan(read_status(run), download="a-load-x")
        held.append(cluster.room.locked())
        if end == "given up":
            raise ZeroDivisionError
        if end == "deleted":
            worker.hear_deletion()
        else:
            deleting = {"resourceVersion": "5", "deletionTimestamp": BEGUN}
            worker.hear({**run, "metadata": {**run["metadata"], **deleting}})
        return Plan(read_status(run), look_again_seconds=0.001)

    monkeypatch.setattr(result_download, "download_result", collected)
    worker, _ = a_worker(cluster, decide)
    worked(worker, lambda: bool(held) and not cluster.room.locked() and cluster.pods_left > 0)
    assert all(held)


def test_a_worker_sleeps_until_something_happens() -> None:
    """No time, no event: no request. A version that it knows already is no event."""
    cluster = PlayedCluster()
    worker, _ = a_worker(cluster, _nothing)
    assert cluster.run is not None
    assert asyncio.run(worker.work()) is None
    assert (cluster.reads, cluster.looks) == (0, 1)
    assert not worker.hear(cluster.run)
    newer = {**cluster.run["metadata"], "resourceVersion": "10"}
    assert worker.hear({**cluster.run, "metadata": newer})
    assert not worker.hear(cluster.run)
    assert asyncio.run(worker.work()) is None
    assert (cluster.reads, cluster.looks) == (0, 2)


def test_a_plan_goes_by_the_run_that_it_was_made_for() -> None:
    """An event that comes meanwhile does not let an older plan be written over it."""
    cluster = PlayedCluster()
    versions: list[str] = []

    def decide(run: Any, *_: Any) -> Plan:
        versions.append(run["metadata"]["resourceVersion"])
        if len(versions) == 1:
            assert cluster.run is not None
            worker.hear({**run, "metadata": {**run["metadata"], "resourceVersion": "5"}})
        return Plan(RunStatus(phase="Pending"))

    async def noted(run: Any, _: Plan) -> Any:
        written.append(run["metadata"]["resourceVersion"])
        return run

    written: list[str] = []
    cluster.update_status = noted  # type: ignore[method-assign,assignment]  # plays it
    worker, _ = a_worker(cluster, decide)
    assert asyncio.run(worker.work()) == 0.0
    assert asyncio.run(worker.work()) is None
    assert versions == written == ["1", "5"]


def test_a_run_that_measures_for_long_writes_its_progress_three_times() -> None:
    """Its figures differ at each look; what else changes is written at once, with them."""
    cluster = PlayedCluster()
    seen = [-1]

    def decide(*_: Any) -> Plan:
        now = min(99, seen[-1] + 1)
        seen.append(now)
        return Plan(
            RunStatus(
                start_time=BEGUN,
                nodes=["a", "b"] if now >= 55 else ["a"],
                progress_percent=now,
                display=Display(qps=f"{now}.0"),
            ),
            look_again_seconds=0.001,
        )

    worker, _ = a_worker(cluster, decide)
    worked(worker, lambda: seen[-1] == 99)
    shown = [each.progress_percent for each in cluster.written]
    assert shown == [0, 25, 50, 55, 80]


def test_refusals_are_tried_again_ever_more_rarely() -> None:
    """Five minutes of a full quota cost 14 attempts, and only a new message counts as news."""
    refusals = Refusals()
    error = ApiError(403, "Forbidden", "exceeded quota")
    attempts, news = 0, 0
    for second in range(300):
        now = datetime.fromtimestamp(second, UTC)
        if refusals.due("Job/a", now):
            attempts += 1
            news += refusals.add("Job/a", error, now)
    assert (attempts, news) == (14, 1)
    assert refusals.by_child["Job/a"].since == datetime.fromtimestamp(0, UTC)
    assert refusals.next_seconds(now) == 3  # after 272 s the next attempt is at 302 s
    assert refusals.add("Job/a", ApiError(403, "", "another"), now)
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
def test_the_retry_delay_is_read_from_an_answer(
    headers: dict[str, str], body: Any, seconds: float | None
) -> None:
    """In the header, or in the body; a page of a proxy says nothing."""
    error = api_error(429, body, headers, what="GET /x", text="<html>slow</html>")
    assert error.retry_after_seconds == seconds
    assert str(error).startswith("GET /x: ")


def test_what_was_found_before_stays_in_a_run_that_is_given_up() -> None:
    """Reported scenarios and conditions are kept."""
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
    status = aborted_status(run, ValueError("x"), NOW)
    assert status.start_time == "2026-01-31T11:00:00Z"
    assert status.completion_time == "2026-01-31T12:00:00.000Z"
    assert [each.type for each in status.conditions] == ["Accepted", "Failed", "Valid", "Finished"]


@pytest.mark.parametrize("end", ["Complete", "Failed"])
def test_the_outcome_stays_if_only_the_cleanup_fails(end: str) -> None:
    """A complete run that is given up is Finished, and still Complete."""
    condition = {"type": end, "status": "True", "reason": "Cancelled", "lastTransitionTime": BEGUN}
    run = {"metadata": {}, "status": {"startTime": BEGUN, "conditions": [condition]}}
    conditions = aborted_status(run, ValueError("x"), NOW).conditions
    assert [(each.type, each.reason) for each in conditions] == [
        (end, "Cancelled"),
        ("Finished", end),
    ]


def test_an_operator_that_is_deaf_is_not_ready_and_one_that_hangs_not_alive() -> None:
    """A standby is ready; a leader must hear every watch."""
    now = [0.0]
    health = Health(lambda: now[0])
    assert health.ready()[0]
    health.require_watches("Pod", "Job")
    assert health.ready() == (False, "Leads; watches last heard: Pod: not yet, Job: not yet.")
    health.record_watch("Pod")
    health.record_watch("Job")
    assert health.ready()[0]
    now[0] = HEARD_SECONDS - 1
    health.record_watch("Pod")
    now[0] = HEARD_SECONDS + 1
    assert health.ready() == (False, "Leads; watches last heard: Pod: 2 s ago, Job: 331 s ago.")
    assert not health.alive()[0]
    now[0] = ALIVE_SECONDS - 1
    assert health.alive()[0]


class _Refusing(PlayedCluster):
    """Takes no status, and notes what is to be made."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[str] = []

    @override
    async def update_status(self, run: Any, plan: Plan) -> dict[str, Any]:
        raise ApiError(422, "Invalid", "no")

    @override
    async def create_children(self, *args: Any) -> bool:
        self.made.extend(child["metadata"]["name"] for child in args[1].create)
        return False


def test_a_worker_makes_no_load_while_no_status_is_taken() -> None:
    """An operator that starts later would not know of it."""
    cluster = _Refusing()
    assert cluster.run is not None
    cluster.run["status"] = {"startTime": BEGUN}
    children = tuple({"kind": "Job", "metadata": {"name": f"a-{of}"}} for of in ("server", "load"))

    def decide(run: Any, *_: Any) -> Plan:
        return Plan(read_status(run).model_copy(update={"phase": "Starting"}), create=children)

    worker, _ = a_worker(cluster, decide)
    worked(worker, lambda: bool(cluster.made))
    assert set(cluster.made) == {"a-server"}


def test_an_aborted_run_whose_status_is_refused_leaves_a_trace_of_its_load() -> None:
    """The next operator, which may make a plan for it, measures nothing a second time."""
    cluster = _Refusing()
    assert cluster.run is not None
    cluster.run["status"] = {"startTime": BEGUN}
    cluster.absent = {"a-begun"}

    def fails(*_: Any) -> Plan:
        raise ZeroDivisionError

    worker, _ = a_worker(cluster, fails)
    worked(worker, lambda: bool(cluster.removed))
    assert set(cluster.made) == {"a-begun"}
    assert ("Job", "a-server", "u-Job/a-server") in cluster.removed
    assert not [each for each in cluster.removed if each[1] == "a-load" and each[0] == "Job"]
