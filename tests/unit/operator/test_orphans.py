"""What a run that no longer exists has left is deleted; what others own, and results, stay."""

import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs
from typing_extensions import override

from inferometer_api.plan.cluster_objects import LOADGEN, MANAGER, RESULT, labels
from inferometer_operator.cluster.connection import ApiConnection
from inferometer_operator.cluster.errors import ApiError
from inferometer_operator.cluster.writer import Writer
from inferometer_operator.reconcile.orphans import older_servers, orphans
from inferometer_operator.wiring.sweep import delete_older_servers, sweep

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
        self._lists = {"jobs": jobs, "benchmarkruns": [{"metadata": {"uid": u}} for u in run_uids]}
        self.asked: list[str] = []
        self.deleted: list[str] = []

    @override
    async def request(self, method: str, path: str, **more: Any) -> Any:
        plural = path.rsplit("/", 1)[-1]
        if method == "DELETE":
            self.deleted.append(more["body"]["preconditions"]["uid"])
            return {}
        self.asked.append(plural)
        found = self._lists.get(plural, [])
        at = int(more["query"].get("continue", 0))
        following = str(at + 1) if at + 1 < len(found) else ""
        # The API server writes an empty list as null.
        return {"items": found[at : at + 1] or None, "metadata": {"continue": following}}


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


@pytest.mark.parametrize("code", [403, 503])
def test_the_deletion_of_older_servers_is_retried_unless_it_is_forbidden(
    monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """Rights that were granted by hand may lack it; another error passes."""
    monkeypatch.setattr("inferometer_operator.wiring.sweep._SWEEP_SECONDS", 0)
    refused = _Refused(code)
    with capture_logs() as logs:
        asyncio.run(delete_older_servers(refused, Writer(refused, "x"), "ns"))
    assert refused.lists == (1 if code == 403 else 2)
    assert [each["event"] for each in logs] == ["older_servers_not_deleted"]


class _Refused(ApiConnection):
    """Refuses the first list with a code, and answers the next with an empty one."""

    def __init__(self, code: int) -> None:
        self._code = code
        self.lists = 0

    @override
    async def request(self, method: str, path: str, **_more: Any) -> Any:
        self.lists += 1
        if self.lists == 1:
            raise ApiError(self._code, "Refused", f"{method} {path}")
        return {"items": None}
