"""What a run that no longer exists has left is deleted; what others own, and results, stay."""

import asyncio
from typing import Any

import pytest
from typing_extensions import override

from inferometer_api.plan.cluster_objects import LOADGEN, MANAGER, RESULT, labels
from inferometer_operator.cluster.connection import ApiConnection
from inferometer_operator.cluster.writer import Writer
from inferometer_operator.reconcile.orphans import orphans
from inferometer_operator.wiring.sweep import sweep

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
