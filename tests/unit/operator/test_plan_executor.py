"""Children are created once, late writes are rejected, and one run at a time holds its result."""

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from typing_extensions import override

from inferometer_api.plan.cluster_objects import labels
from inferometer_api.status.run_status import RunStatus
from inferometer_operator.cluster.connection import ApiConnection
from inferometer_operator.cluster.errors import ApiError
from inferometer_operator.cluster.loadgen_client import LoadgenClient
from inferometer_operator.cluster.reader import Reader
from inferometer_operator.cluster.writer import Writer
from inferometer_operator.reconcile.observed import DownloadedResult, Json
from inferometer_operator.reconcile.plan import DeletionTarget, Plan
from inferometer_operator.wiring import result_download
from inferometer_operator.wiring.plan_executor import PlanExecutor, Refusals
from inferometer_operator.wiring.result_download import ResultDownload
from support.played_cluster import no_pauses
from support.result_logs import downloaded
from support.results import a_result

pytestmark = pytest.mark.usefixtures(no_pauses.__name__)

_NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
_RUN: dict[str, Any] = {
    "apiVersion": "inferometer.dev/v1alpha1",
    "kind": "BenchmarkRun",
    "metadata": {"name": "a", "namespace": "ns", "uid": "u", "resourceVersion": "7"},
}
_JOB: dict[str, Any] = {"kind": "Job", "metadata": {"name": "a-load", "namespace": "ns"}}
_TAKEN = ApiError(409, "AlreadyExists", "jobs a-load already exists")


class _Connection(ApiConnection):
    """Answers a POST with a fault, a GET with an object."""

    def __init__(self, fault: ApiError | None, metadata: Json | None) -> None:
        self._fault, self._metadata = fault, metadata
        self.bodies: list[Any] = []

    @override
    async def request(
        self, method: str, path: str, *, query: Mapping[str, str] | None = None, **more: Any
    ) -> Any:
        del path, query
        self.bodies.append(more.get("body"))
        if method == "GET":
            if self._metadata is None:
                raise ApiError(404, "NotFound", "gone")
            return {"metadata": self._metadata}
        if self._fault is not None:
            raise self._fault
        return more.get("body")


def _made(connection: _Connection, refusals: Refusals) -> bool:
    actor = PlanExecutor(
        Reader(connection), Writer(connection, "x"), cast("LoadgenClient", None), lambda: _NOW
    )
    return asyncio.run(actor.create_children(_RUN, Plan(RunStatus(), create=(_JOB,)), refusals))


def _owner(uid: str) -> dict[str, Any]:
    return {"uid": uid, "controller": True, "kind": "BenchmarkRun", "name": "a"}


@pytest.mark.parametrize(
    "holder", [{"name": "a-load", "ownerReferences": [_owner("dead")]}, None], ids=["dead", "gone"]
)
def test_a_taken_name_is_reported_with_its_holder_and_retried_soon(holder: Json | None) -> None:
    """A deleted namesake's child goes in a moment."""
    refusals = Refusals()
    assert _made(_Connection(_TAKEN, holder), refusals)
    assert refusals.by_child["Job/a-load"].holder == holder
    assert refusals.next_seconds(_NOW) == 1.0
    assert not _made(_Connection(_TAKEN, holder), refusals)


@pytest.mark.parametrize("holder", [None, {"uid": "another"}, {"uid": "job"}])
def test_a_conflict_at_a_deletion_is_no_deletion(holder: Json | None) -> None:
    """A child that is still there is deleted again; one that is gone, or another's, is left."""
    writer = Writer(_Connection(ApiError(409, "Conflict", "was modified"), holder), "x")
    job = {**_JOB, "metadata": {**_JOB["metadata"], "uid": "job", "resourceVersion": "1"}}
    job["metadata"] |= {"ownerReferences": [_owner("u")], "labels": labels("a", "u", "loadgen")}
    writer.children.put("Job", job)
    deletion = writer.delete("ns", DeletionTarget("Job", "a-load", "job"))
    if holder == {"uid": "job"}:
        with pytest.raises(ApiError):
            asyncio.run(deletion)
    else:
        asyncio.run(deletion)
    kept = writer.children.get("Job", "ns", "a-load", "u")
    assert (kept is not None) == (holder == {"uid": "job"})


@pytest.mark.parametrize(
    ("fault", "holder"),
    [(None, None), (_TAKEN, {"name": "a-load", "ownerReferences": [_owner("u")]})],
)
def test_a_child_that_was_made_is_worth_a_look_at_once(
    fault: ApiError | None, holder: Json | None
) -> None:
    """Also one that was made before, whose answer was lost."""
    refusals = Refusals()
    assert _made(_Connection(fault, holder), refusals)
    assert not refusals.by_child


def test_a_status_is_written_to_the_run_as_it_was_read_or_not_at_all() -> None:
    """What an old leader wrote and comes late must undo nothing."""
    connection = _Connection(None, None)
    asyncio.run(Writer(connection, "x").apply_status(_RUN, RunStatus()))
    assert connection.bodies[0]["metadata"]["resourceVersion"] == "7"
    assert connection.bodies[0]["metadata"]["uid"] == "u"


def test_of_all_runs_one_holds_its_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next is read once that of the first is kept, or where there is none."""
    found = {
        "a": downloaded(a_result()),
        "b": DownloadedResult(None, "a gap"),
        "c": downloaded(a_result()),
    }
    read: list[str] = []

    async def collected(_: Any, pod: Json) -> DownloadedResult:
        read.append(pod["name"])
        return found[pod["name"]]

    monkeypatch.setattr(result_download, "download_result", collected)

    async def work() -> None:
        room = asyncio.Semaphore(1)
        held = {name: ResultDownload(room) for name in found}
        reader = cast("Reader", None)
        await held["a"].download(reader, {"name": "a"})
        others = [
            asyncio.create_task(held[name].download(reader, {"name": name})) for name in ("b", "c")
        ]
        for _ in range(5):
            await asyncio.sleep(0)
        assert read == ["a"]
        held["a"].drop()
        # The second has nothing to keep: it makes room by itself.
        await asyncio.gather(*others)
        assert read == ["a", "b", "c"]
        assert room.locked()
        for each in held.values():
            each.drop()
        assert not room.locked()

    asyncio.run(work())
