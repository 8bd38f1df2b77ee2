"""A run that began keeps its slot; one that fails to begin passes it on."""

from dataclasses import replace
from typing import Any

import pytest
from typing_extensions import override

from inferometer_api.plan.load_report import LoadReport
from inferometer_api.plan.reports import ProgressReport
from inferometer_api.status.run_status import RunStatus
from inferometer_operator.cluster.errors import ApiError, ApiUnreachableError
from inferometer_operator.reconcile.conditions import read_status
from inferometer_operator.reconcile.observed import Observed
from inferometer_operator.reconcile.plan import Plan
from inferometer_operator.wiring.run_queue import RunQueue
from support.cluster_objects import a_pod, bound, server_pod
from support.played_cluster import BEGUN, PlayedCluster, a_worker, no_pauses, worked

pytestmark = pytest.mark.usefixtures(no_pauses.__name__)


def test_a_run_that_is_let_go_while_it_is_taken_back_begins_again() -> None:
    """Nothing but the operator's own write happens after its last pod is gone."""
    cluster = PlayedCluster()
    assert cluster.run is not None
    begun = RunStatus(phase="Suspended", start_time=BEGUN)
    cluster.run["status"] = begun.model_dump(mode="json", exclude_none=True)
    cluster.run["spec"] = {"suspend": True}
    looks: list[int] = []

    def decide(run: Any, *_: Any) -> Plan:
        status = read_status(run)
        if status.start_time is None:
            return Plan(RunStatus(phase="Starting", start_time=BEGUN))
        if status.phase != "Suspended":
            return Plan(status)
        looks.append(1)
        # Its pods take three looks to go; it is let go after the first.
        assert cluster.run is not None
        cluster.run["spec"] = {"suspend": False}
        if len(looks) < 3:
            return Plan(status, look_again_seconds=0.001)
        return Plan(status.model_copy(update={"start_time": None}))

    worker, _ = a_worker(cluster, decide)
    cluster.written_by = worker
    worked(worker, lambda: len(cluster.written) == 2, cluster)
    assert cluster.written[-1].phase == "Starting"


class _Failing(PlayedCluster):
    """Fails for this run when it is observed, or when its begin is written."""

    def __init__(self, *, at: str, error: Exception) -> None:
        super().__init__()
        self._at, self._error = at, error

    @override
    async def observe(self, run: Any, turn: Any, polled: Any) -> Observed:
        if self._at == "observe":
            raise self._error
        return await super().observe(run, turn, polled)

    @override
    async def update_status(self, run: dict[str, Any], plan: Plan) -> dict[str, Any]:
        if self._at == "lost":
            await super().update_status(run, plan)
        if self._at != "observe":
            raise self._error
        return await super().update_status(run, plan)


def _begins(*_: Any) -> Plan:
    return Plan(RunStatus(start_time=BEGUN))


@pytest.mark.parametrize("at", ["observe", "write"])
@pytest.mark.parametrize("error", [ApiError(500, "", "boom"), ZeroDivisionError("own")])
def test_a_run_that_cannot_begin_does_not_block_the_queue(at: str, error: Exception) -> None:
    """The next one, though younger, has its turn, and the failing one waits for it."""
    woken: list[str] = []
    cluster = _Failing(at=at, error=error)
    worker, queue = a_worker(cluster, _begins, lambda uid, _: woken.append(uid))
    _other(queue)
    assert queue.position("u").admitted
    assert not queue.position("b").admitted
    # At the moment when it has failed: it tries again soon.

    def passed_on() -> bool:
        queue.wake_moved()
        return "b" in woken and queue.position("b").admitted

    worked(worker, passed_on)


def _other(queue: RunQueue) -> None:
    metadata = {"uid": "b", "name": "b", "namespace": "ns", "creationTimestamp": BEGUN}
    queue.update({"metadata": metadata})


@pytest.mark.parametrize(
    ("at", "error"),
    [("lost", ApiUnreachableError("cut")), ("write", ApiError(409, "Conflict", "changed"))],
)
def test_a_run_that_may_have_begun_or_only_changed_keeps_its_turn(
    at: str, error: Exception
) -> None:
    """An answer that is lost says nothing; who wrote a label to a run costs it no place."""
    cluster = _Failing(at=at, error=error)
    worker, queue = a_worker(cluster, _begins)
    _other(queue)
    admitted: list[bool] = []

    def looked_often() -> bool:
        if cluster.reads > 0:
            admitted.append(queue.position("b").admitted)
        return cluster.reads > 4

    worked(worker, looked_often)
    assert not any(admitted)


class _Restarting(PlayedCluster):
    """A run whose load generator awaits the server of the second repeat."""

    @override
    async def observe(self, run: Any, turn: Any, polled: Any) -> Observed:
        progress = ProgressReport(stage="WaitingForRestart", repeat=2, repeat_count=2)
        found = await super().observe(run, turn, polled)
        return replace(found, report=LoadReport(progress=progress))


def test_a_run_that_awaits_its_server_knows_whether_others_wait_for_nodes() -> None:
    """From the pods that their workers have seen: a load pod, and a node for each."""
    cluster = _Restarting()
    assert cluster.run is not None
    cluster.run["status"] = {"startTime": BEGUN}
    awaited: list[bool] = []

    def decide(_run: Any, observed: Observed, *_: Any) -> Plan:
        awaited.append(observed.queue_position.others_await_nodes)
        return Plan(RunStatus(start_time=BEGUN), look_again_seconds=0.001)

    worker, queue = a_worker(cluster, decide)
    other = PlayedCluster()
    other.run = {
        "metadata": {"name": "b", "namespace": "ns", "uid": "b", "resourceVersion": "1"},
        "status": {"startTime": BEGUN},
    }
    begun = Plan(RunStatus(start_time=BEGUN), look_again_seconds=0.001)
    neighbour, _ = a_worker(other, lambda *_: begun, queue=queue)
    pod = a_pod(other.run, "loadgen")
    for pods, expected in (
        ((), True),
        ((pod,), True),
        ((bound(pod), server_pod(other.run)), True),
        ((bound(pod), bound(server_pod(other.run))), False),
    ):
        other.observed_pods, other.looks = pods, 0
        worked(neighbour, lambda: other.looks > 1)
        awaited.clear()
        worked(worker, lambda: len(awaited) > 0)
        assert awaited[-1] is expected, pods


def test_a_slot_is_kept_while_it_is_unknown_whether_the_run_has_begun() -> None:
    """Two runs side by side would be worse than a pause."""
    cluster = _Failing(at="write", error=ApiUnreachableError("cut"))
    admitted: list[bool] = []

    def all_fails(*_: Any) -> Plan:
        cluster.faults = [ApiUnreachableError("cut")] * 1000
        return _begins()

    worker, queue = a_worker(cluster, all_fails)
    _other(queue)

    def looked_often() -> bool:
        if cluster.reads > 1:
            admitted.append(queue.position("b").admitted)
        return cluster.reads > 4

    worked(worker, looked_often)
    assert admitted
    assert not any(admitted)


def test_a_run_that_a_finalizer_holds_is_ended_and_its_turn_is_free() -> None:
    """Its children are deleted; once its pods are gone the next begins."""
    cluster = PlayedCluster()
    assert cluster.run is not None
    cluster.run["metadata"]["deletionTimestamp"] = BEGUN
    cluster.run["status"] = {"startTime": BEGUN}
    cluster.pods_left = 5
    worker, queue = a_worker(cluster, _begins)
    _other(queue)
    assert not queue.position("b").admitted
    worked(worker, lambda: queue.position("b").admitted)
    assert cluster.pods_left <= 0
    kinds = [each[0] for each in cluster.removed]
    assert kinds == [
        *("Job", "Job", "InferenceService", "ConfigMap", "ConfigMap", "Service", "Workload"),
    ]
    assert cluster.written == []


def test_what_is_left_of_a_run_is_remembered_when_it_changes() -> None:
    """A write to a run that a finalizer holds gives it no slot."""
    queue = RunQueue(1, lambda *_: None)
    run = {
        "metadata": {"uid": "u", "name": "a", "deletionTimestamp": BEGUN},
        "status": {"startTime": BEGUN},
    }
    queue.update(run)
    _other(queue)
    queue.deactivate("u")
    queue.update(run)
    assert queue.position("b").admitted


def test_a_stop_request_is_repeated_until_it_is_accepted() -> None:
    """Until it says that it will, and not after that."""
    cluster = PlayedCluster()
    cluster.answers = [False, False, True]
    looks: list[int] = []

    def stops(*_: Any) -> Plan:
        looks.append(1)
        # The plan itself looks again much later.
        again = 60.0 if cluster.asked_to_stop < 2 else 0.001
        return Plan(RunStatus(), stop="a-load-x", look_again_seconds=again)

    worker, _ = a_worker(cluster, stops)
    worked(worker, lambda: len(looks) > 6)
    assert cluster.asked_to_stop == 3
