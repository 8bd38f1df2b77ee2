"""What a run that no longer exists has left is deleted; what others own, and results, stay."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import pytest
from structlog.testing import capture_logs
from typing_extensions import override

from inferometer_api.plan.cluster_objects import LOADGEN, MANAGER, RESULT, labels
from inferometer_operator.cluster.connection import ApiConnection
from inferometer_operator.cluster.errors import ApiError
from inferometer_operator.cluster.writer import Writer
from inferometer_operator.reconcile.orphans import older_servers, orphans
from inferometer_operator.wiring.sweep import delete_older_servers, keep_swept, sweep

_OWNED: dict[str, Any] = {
    "ownerReferences": [{"controller": True, "kind": "BenchmarkRun", "uid": "gone"}]
}
_MADE: dict[str, Any] = {"managedFields": [{"manager": MANAGER, "operation": "Update"}]}


def _child(name: str = "a-load", component: str = LOADGEN, **metadata: Any) -> dict[str, Any]:
    own = {"labels": labels("a", "gone", component), "uid": f"of-{name}", "namespace": "ns"}
    return {"metadata": {"name": name, **own, **metadata}}


@pytest.mark.parametrize(
    ("child", "goes"),
    [
        (_child(**_OWNED), True),
        (_child(**_MADE), True),
        (_child(), False),
        (_child(managedFields=[{"manager": "kubectl"}]), False),
        (_child(ownerReferences=[{"controller": True, "kind": "Job", "uid": "gone"}]), False),
        (
            _child(ownerReferences=[{"controller": True, "kind": "BenchmarkRun", "uid": "other"}]),
            False,
        ),
        (_child(component=RESULT, **_MADE), False),
        (_child(labels={}, **_MADE), False),
        (_child(deletionTimestamp="2026-03-12T14:00:00Z", **_OWNED), False),
    ],
    ids=[
        "owned by the run",
        "orphaned",
        "labels copied by hand",
        "labels copied by kubectl",
        "owned by another kind",
        "owned by another run",
        "a result",
        "no labels",
        "being deleted",
    ],
)
def test_only_what_the_operator_created_is_deleted(child: dict[str, Any], *, goes: bool) -> None:
    """Any author can copy labels."""
    targets = orphans("Job", [child], {"alive"})
    assert [each.uid for each in targets] == (["of-a-load"] if goes else [])
    assert orphans("Job", [child], {"alive", "gone"}) == ()


class _Connection(ApiConnection):
    """Answers lists in pages of one object, and notes deletions."""

    def __init__(self, jobs: list[dict[str, Any]], run_uids: list[str]) -> None:
        self.lists = {"jobs": jobs, "benchmarkruns": [{"metadata": {"uid": u}} for u in run_uids]}
        self.asked: list[str] = []
        self.deleted: list[str] = []
        self.refused: dict[str, int] = {}
        """The codes of UIDs that are not deleted, and of lists that are not read."""
        self.rounds = 0

    @override
    async def request(self, method: str, path: str, **more: Any) -> Any:
        plural = path.rsplit("/", 1)[-1]
        if method == "DELETE":
            uid = more["body"]["preconditions"]["uid"]
            self._check(uid)
            self.deleted.append(uid)
            return {}
        self._check(plural)
        self.asked.append(plural)
        found = self.lists.get(plural, [])
        at = int(more["query"].get("continue", 0))
        following = str(at + 1) if at + 1 < len(found) else ""
        # The API server writes an empty list as null.
        return {"items": found[at : at + 1] or None, "metadata": {"continue": following}}

    def _check(self, what: str) -> None:
        if what in self.refused:
            raise ApiError(self.refused[what], "Refused", what)


def test_a_sweep_deletes_what_is_left_of_runs_that_do_not_exist() -> None:
    """Every page of the children is read, then the runs as they are now."""
    jobs = [_child("a-load", **_OWNED), _child("b-load", **_MADE)]
    connection = _Connection(jobs, ["alive", "other"])
    gone = asyncio.run(sweep(connection, Writer(connection, "x"), None, ["gone"]))
    assert gone == {"gone"}
    assert connection.asked.index("benchmarkruns") > connection.asked.index("services")
    assert connection.asked.count("benchmarkruns") == 2
    assert connection.deleted == ["of-a-load", "of-b-load"]
    exists = _Connection(jobs, ["gone"])
    assert asyncio.run(sweep(exists, Writer(exists, "x"), None, ["gone"])) == set()
    assert exists.deleted == []


def test_servers_of_an_older_version_are_deleted() -> None:
    """Deployments that a run owns go; those that only have the labels, or are going, stay."""
    own = _child("own-server", **_OWNED)
    copied = _child("copied-server", **_MADE)
    going = _child("going-server", **_OWNED)
    going["metadata"]["deletionTimestamp"] = "2026-01-31T12:00:00Z"
    assert [each.name for each in older_servers((own, copied, going))] == ["own-server"]


@pytest.mark.parametrize("code", [403, 500])
def test_a_refused_deletion_keeps_nothing_else_from_going(code: int) -> None:
    """It is logged, and tried again: its run counts as one of which something is left."""
    jobs = [_child("a-load", **_OWNED), _child("b-load", **_MADE)]
    connection = _Connection(jobs, [])
    connection.refused["of-a-load"] = code
    with capture_logs() as logs:
        gone = asyncio.run(sweep(connection, Writer(connection, "x"), None, ["gone"]))
    assert gone == {"gone"}
    assert connection.deleted == ["of-b-load"]
    assert [each["event"] for each in logs] == ["orphan_not_deleted", "orphan_deleted"]


def test_runs_of_which_nothing_can_be_deleted_keep_no_others_from_their_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each sweep takes the runs that follow those of the last one, and then begins again."""
    connection = _Connection([], [])
    batches: list[list[str]] = []

    async def refused(*given: Any) -> set[str]:
        batches.append(given[-1])
        if len(batches) == 4:
            raise asyncio.CancelledError
        return set(given[-1])

    monkeypatch.setattr("inferometer_operator.wiring.sweep.sweep", refused)
    monkeypatch.setattr("inferometer_operator.wiring.sweep._MAX_RUNS", 2)
    _keep_swept(monkeypatch, connection, lambda: list("abc"))
    assert batches == [["a", "b"], ["c", "a"], ["b", "c"], ["a", "b"]]


def test_a_run_is_swept_again_once_its_children_were_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is remembered of runs goes with their children."""
    connection = _Connection([], [])
    connection.rounds = 4
    seen: list[list[str]] = [["a"], ["a"], [], ["a"]]
    swept: list[list[str]] = []

    async def nothing(*given: Any) -> set[str]:
        swept.append(given[-1])
        return set()

    monkeypatch.setattr("inferometer_operator.wiring.sweep.sweep", nothing)
    _keep_swept(monkeypatch, connection, lambda: seen.pop(0))
    assert swept == [["a"], ["a"]]


@pytest.mark.parametrize("code", [403, 503])
def test_older_servers_that_stay_keep_no_orphan_from_going(
    monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """Their deletion is tried once per sweep, unless rights that were granted by hand lack it."""
    connection = _Connection([_child("a-load", **_MADE)], [])
    connection.lists["deployments"] = [_child("a", **_OWNED), _child("b", **_OWNED)]
    connection.refused["of-a"] = code
    connection.rounds = 3
    logs = _keep_swept(monkeypatch, connection, lambda: ["gone"])
    assert "of-a-load" in connection.deleted
    assert "of-b" in connection.deleted
    refusals = [each for each in logs if each["event"] == "older_servers_not_deleted"]
    assert len(refusals) == (1 if code == 403 else 3)


@pytest.mark.parametrize(("code", "done"), [(403, True), (503, False), (None, True)])
def test_a_list_of_older_servers_that_fails_is_tried_again(code: int | None, *, done: bool) -> None:
    """Unless it is forbidden; once it was read, all is done."""
    connection = _Connection([], [])
    if code is not None:
        connection.refused["deployments"] = code
    with capture_logs():
        found = asyncio.run(delete_older_servers(connection, Writer(connection, "x"), "ns"))
    assert found is done


def _keep_swept(
    monkeypatch: pytest.MonkeyPatch, connection: _Connection, unknown: Callable[[], list[str]]
) -> list[Any]:
    """Sweep as often as the connection has rounds; return the log."""

    async def pause(_: float) -> None:
        connection.rounds -= 1
        if connection.rounds == 0:
            raise asyncio.CancelledError

    monkeypatch.setattr("inferometer_operator.wiring.sweep.asyncio.sleep", pause)
    swept = keep_swept(connection, Writer(connection, "x"), None, unknown)
    with capture_logs() as logs, contextlib.suppress(asyncio.CancelledError):
        asyncio.run(swept)
    return list(logs)
