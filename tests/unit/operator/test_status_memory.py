"""A run goes on and ends whatever the API server says of its status."""

import asyncio
from typing import Any, cast

import pytest
from structlog.testing import capture_logs
from typing_extensions import override

from inferometer_api.status.run_status import NodeWait, RunStatus
from inferometer_operator.cluster.errors import ApiError
from inferometer_operator.manifests.owner import Owner
from inferometer_operator.reconcile.conditions import find_condition, read_status
from inferometer_operator.reconcile.observed import Json
from inferometer_operator.reconcile.plan import Plan
from inferometer_operator.wiring.plan_executor import PlanExecutor
from inferometer_operator.wiring.status_memory import StatusMemory
from support.cluster_objects import bound, server_pod
from support.condition_rows import complete, measuring
from support.pretend_cluster import PretendCluster

_POLICY = ApiError(422, "Invalid", "benchmarkruns a-run is forbidden: no figures here.")
_TIME = "2026-01-31T12:00:00.000Z"


class _Api:
    """An API server that refuses some statuses of one run."""

    def __init__(self, cluster: PretendCluster, error: ApiError | None = None) -> None:
        self.now = 0.0
        self.error = error
        self.takes_least = False
        self.written: list[RunStatus] = []
        self.tries = 0
        self.memory = StatusMemory(cluster.run, clock=lambda: self.now)

    async def update_status(self, run: Json, plan: Plan) -> Json:
        """Write, or refuse."""
        self.tries += 1
        least = "StatusRefused" in str(plan.status)
        if self.error is not None and not (least and self.takes_least):
            raise self.error
        self.written.append(plan.status)
        return {**run, "status": plan.status.model_dump(mode="json", exclude_none=True)}

    def write(self, status: RunStatus) -> RunStatus:
        """Write a plan's status; return the one that the run goes on with."""
        executor = cast("PlanExecutor", self)
        with capture_logs() as self.logs:
            return read_status(asyncio.run(self.memory.write(executor, Plan(status))))


def _status(cluster: PretendCluster, **change: Any) -> RunStatus:
    return read_status(cluster.run).model_copy(update=change)


@pytest.mark.parametrize("code", [400, 403, 413, 422])
def test_a_refused_status_is_replaced_by_the_least_and_remembered(code: int) -> None:
    """With the server's words; the run goes on with the whole."""
    cluster = measuring()
    api = _Api(cluster, ApiError(code, "", "no figures here."))
    api.takes_least = True
    status = _status(cluster, progress_percent=60)
    assert api.write(status) == status
    (least,) = api.written
    accepted = find_condition(least, "Accepted")
    assert accepted is not None
    assert accepted.reason == "StatusRefused"
    assert "no figures here." in accepted.message
    assert (least.phase, least.start_time) == ("Measuring", status.start_time)
    assert least.scenarios == []
    assert find_condition(least, "Measuring") is not None
    assert [each["event"] for each in api.logs] == ["status_refused"]
    assert read_status(api.memory.recall(cluster.run)) == status


def test_the_least_status_says_whose_the_run_is_and_how_it_waits() -> None:
    """Another operator would work on it too; a restarted one would forget its pause."""
    cluster = measuring()
    api = _Api(cluster, _POLICY)
    api.takes_least = True
    wait = NodeWait(attempts=3, since=_TIME, retry_time=_TIME)
    api.write(_status(cluster, operator="team/lease", waiting_for_nodes=wait))
    (least,) = api.written
    assert (least.operator, least.waiting_for_nodes) == ("team/lease", wait)


def test_the_end_is_written_at_once_and_the_rest_slowly() -> None:
    """Progress is not written again and again; the place of the result is."""
    cluster = complete()
    api = _Api(cluster, _POLICY)
    api.takes_least = True
    before = measuring()
    api.write(_status(before))
    tries = api.tries
    for percent in range(10, 90, 10):
        api.now += 5
        api.write(_status(before, progress_percent=percent))
    assert api.tries == tries
    api.write(_status(cluster))
    assert api.written[-1].phase == "Complete"
    assert api.written[-1].result == _status(cluster).result
    tries = api.tries
    api.now += api.memory.next_seconds or 0.0
    api.write(_status(cluster))
    assert api.tries > tries
    api.error = None
    api.now += 60
    status = _status(cluster)
    assert api.write(status) == status == api.written[-1]
    assert api.memory.next_seconds is None


def test_a_run_of_which_nothing_can_be_written_goes_on_from_memory() -> None:
    """To its end; the operator tries again once a minute."""
    api = _Api(measuring(), _POLICY)
    end = _status(complete())
    assert api.write(end) == end
    assert api.written == []
    assert api.memory.is_refused
    assert api.memory.next_seconds == 60


def test_a_run_does_not_begin_in_memory() -> None:
    """The next operator would begin it a second time."""
    cluster = PretendCluster()
    api = _Api(cluster, _POLICY)
    begun = _status(measuring())
    with pytest.raises(ApiError):
        api.write(begun)
    assert not api.memory.is_refused
    api.takes_least = True
    assert api.write(begun) == begun


@pytest.mark.parametrize(
    "error",
    [
        ApiError(409, "Conflict", "changed"),
        ApiError(429, "", "later"),
        ApiError(503, "", "later"),
        ApiError(401, "", "who?"),
        ApiError(404, "", "gone"),
        ApiError(403, "", "later", retry_after_seconds=1),
    ],
    ids=lambda error: str(error.code),
)
def test_what_may_pass_is_no_refusal(error: ApiError) -> None:
    """The worker retries it."""
    api = _Api(measuring(), error)
    for _ in range(5):
        with pytest.raises(ApiError):
            api.write(_status(complete()))
        api.now += 100


def test_an_internal_error_that_lasts_is_a_refusal() -> None:
    """A webhook that does not answer, for example."""
    api = _Api(measuring(), ApiError(500, "InternalError", "failed calling webhook"))
    end = _status(complete())
    with pytest.raises(ApiError):
        api.write(end)
    api.now += 61
    assert api.write(end) == end


class _Remembered(PretendCluster):
    """A cluster whose operator writes each status by a memory."""

    def __init__(self) -> None:
        super().__init__()
        self.api = _Api(self)
        self.settle().settle()
        self.pods["a-run-server-1"] = bound(server_pod(self.run), "node1", "10.88.0.1")

    @override
    def decided(self) -> Plan:
        plan = super().decided()
        self.api.write(plan.status)
        self.run = dict(self.api.memory.recalled())
        owner = Owner("a-run", "team", self.run["metadata"]["uid"])
        return self.api.memory.guarded(plan, owner, self.observed().children)

    @property
    def record(self) -> str:
        """The key of the record that the load's Job was created."""
        return "ConfigMap/a-run-begun"

    @override
    def write_status(self, plan: Plan) -> None:
        """Leave it as it was written."""

    def restart(self) -> None:
        """Let another operator go on from what is stored; all is taken again."""
        self.api.error = None
        self.run = dict(self.api.memory.stored)
        self.api.memory = StatusMemory(self.run, clock=lambda: self.api.now)
        self.restart_operator()
        for _ in range(4):
            self.settle().collect_garbage()


def test_no_load_is_made_while_no_status_is_taken() -> None:
    """It is made as soon as one is."""
    cluster = _Remembered()
    cluster.api.error = _POLICY
    cluster.settle().settle()
    assert cluster.jobs_made == 0
    cluster.api.error = None
    cluster.api.now += 61
    cluster.settle()
    assert cluster.jobs_made == 1


def test_a_run_that_ended_in_memory_is_not_measured_again() -> None:
    """Nothing is taken from the moment its load was made: its Job is left for the next operator."""
    cluster = _Remembered()
    cluster.step()
    assert cluster.jobs_made == 1
    cluster.api.error = _POLICY
    cluster.settle().start_server().start_load().measure().end_load()
    for _ in range(3):
        cluster.later(200).collect_garbage()
    assert cluster.says("Finished") == ("True", "Complete")
    assert find_condition(read_status(cluster.api.memory.stored), "Measuring") is None
    assert cluster.server not in cluster.children
    cluster.restart()
    assert cluster.says("Finished") == ("True", "Complete")
    assert cluster.jobs_made == cluster.made[cluster.server] == 1
    assert cluster.load not in cluster.children
    assert cluster.record not in cluster.children


@pytest.mark.parametrize("when", ["while it measures", "after its end in memory"])
def test_a_load_that_another_client_deletes_is_not_created_again(when: str) -> None:
    """Nothing is taken from the moment its Job was made: a record of it is left for the next."""
    cluster = _Remembered()
    cluster.step()
    cluster.api.error = _POLICY
    cluster.settle().start_server().start_load().measure()
    if when != "while it measures":
        cluster.end_load()
        for _ in range(3):
            cluster.later(200).collect_garbage()
        assert cluster.says("Finished") == ("True", "Complete")
    assert find_condition(read_status(cluster.api.memory.stored), "Measuring") is None
    cluster.children.pop(cluster.load)
    cluster.pods = {name: pod for name, pod in cluster.pods.items() if "loadgen" not in name}
    cluster.restart()
    assert cluster.jobs_made == 1
    gone = "LoadPodLost" if when == "while it measures" else "ServerDeleted"
    assert cluster.says("Failed") == ("True", gone)
    assert cluster.record not in cluster.children


def test_no_record_is_made_while_statuses_are_taken() -> None:
    """A run costs no write more."""
    cluster = _Remembered()
    cluster.settle().start_server().start_load().measure().end_load()
    assert cluster.made[cluster.record] == 0
