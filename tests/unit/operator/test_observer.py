"""The operator reads only its own objects of a namespace full of others."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from typing_extensions import override

from inferometer_api.plan.cluster_objects import LOADGEN, RESULT, SERVER, labels
from inferometer_operator.cluster.connection import ApiConnection
from inferometer_operator.cluster.loadgen_client import LoadgenClient
from inferometer_operator.cluster.reader import Reader
from inferometer_operator.reconcile.observed import Observed, QueuePosition
from inferometer_operator.settings import Settings
from inferometer_operator.wiring.observer import Observer, PolledReport

_SETTINGS = Settings.model_validate({"images": {"serving": "a", "servingGpu": "b", "loadgen": "c"}})
_RUN: dict[str, Any] = {
    "metadata": {"name": "a", "namespace": "ns", "uid": "u"},
    "status": {"startTime": "2026-01-31T12:00:00Z"},
}


class _Connection(ApiConnection):
    """Answers each GET with the objects of a path, and keeps the queries for events."""

    def __init__(self, objects: Mapping[str, Any]) -> None:
        self._objects = objects
        self.queries: list[Mapping[str, str]] = []

    @override
    async def request(
        self, method: str, path: str, *, query: Mapping[str, str] | None = None, **_: Any
    ) -> Any:
        assert method == "GET"
        if path.endswith("/events"):
            self.queries.append(query or {})
        return self._objects.get(path.rpartition("/")[2], {"items": []})


def _owned(name: str, component: str, kind: str | None, uid: str = "u", **members: Any) -> Any:
    owner = {"kind": kind, "uid": uid, "controller": True}
    return {
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "labels": labels("a", "u", component),
            **({} if kind is None else {"ownerReferences": [owner]}),
        },
        **members,
    }


def test_only_the_runs_own_results_and_pods_of_controllers_are_read() -> None:
    """Anybody may make an object with a run's labels."""
    maps = [
        _owned("a-result-0", RESULT, "BenchmarkRun"),
        _owned("forged", RESULT, None),
        _owned("of-another", RESULT, "BenchmarkRun", "other"),
    ]
    pods = [
        _owned("a-load-x", LOADGEN, "Job", "job"),
        _owned("a-server-x", SERVER, "ReplicaSet", "set"),
        _owned("forged", SERVER, None),
        _owned("of-a-run", LOADGEN, "BenchmarkRun"),
    ]
    reader = Reader(_Connection({"configmaps": {"items": maps}, "pods": {"items": pods}}))

    async def read() -> tuple[list[str], list[str]]:
        found = await reader.list_result_maps("ns", "u"), await reader.list_pods("ns", "u")
        names, ran = ([each["metadata"]["name"] for each in some] for some in found)
        return names, ran

    assert asyncio.run(read()) == (["a-result-0"], ["a-load-x", "a-server-x"])


def _pod(name: str, component: str, state: dict[str, Any] | None) -> Any:
    return _owned(
        name,
        component,
        "Job" if component == LOADGEN else "ReplicaSet",
        spec={"nodeName": "n"},
        status={"containerStatuses": [{"state": {} if state is None else state}]},
    )


_DEPLOYMENT = _owned("a-server", SERVER, "BenchmarkRun")
_JOB = _owned("a-load", LOADGEN, "BenchmarkRun")
_RUNS: dict[str, Any] = {"running": {}}
_WAITS: dict[str, Any] = {"waiting": {"reason": "ContainerCreating"}}


@pytest.mark.parametrize(
    ("objects", "pods", "fields"),
    [
        ({"a-server": _DEPLOYMENT}, [_pod("s", SERVER, _RUNS)], []),
        (
            {"a-server": _DEPLOYMENT},
            [_pod(f"s{i}", SERVER, _WAITS) for i in range(60)],
            [f"involvedObject.uid=uid-s{i},type=Warning" for i in (0, 1, 10, 11)],
        ),
        (
            {"a-server": _DEPLOYMENT},
            [],
            ["involvedObject.kind=ReplicaSet,reason=FailedCreate,type=Warning"],
        ),
        (
            {"a-server": _DEPLOYMENT, "a-load": _JOB},
            [_pod("s", SERVER, _RUNS)],
            ["involvedObject.uid=uid-a-load,type=Warning"],
        ),
    ],
    ids=["nothing missing", "pods hang", "no server pod", "no load pod"],
)
def test_warnings_are_read_only_for_missing_pods(
    objects: dict[str, Any], pods: list[Any], fields: list[str]
) -> None:
    """Few requests, each for one object or one kind of fault, each with a limit."""
    connection = _Connection({**objects, "pods": {"items": pods}, "a-load": objects.get("a-load")})

    observed = _observed(connection)
    assert [each["fieldSelector"] for each in connection.queries] == fields
    assert all(int(each["limit"]) <= 500 for each in connection.queries)
    assert observed.events == ()


def test_a_replica_set_is_known_by_its_deployments_name() -> None:
    """Those of other Deployments say nothing about the run."""
    events = [
        {"involvedObject": {"name": name}, "lastTimestamp": at, "metadata": {}}
        for name, at in (("a-server-5d", "2"), ("another-server-5d", "1"), ("a-server-5d", "0"))
    ]
    connection = _Connection({"a-server": _DEPLOYMENT, "a-load": None, "events": {"items": events}})
    assert _observed(connection).events == (events[2], events[0])


def _observed(connection: ApiConnection) -> Observed:
    reader = Reader(connection)
    # No load pod answers here.
    loads = LoadgenClient.__new__(LoadgenClient)
    observer = Observer(reader, loads, _SETTINGS)
    return asyncio.run(observer.observe(_RUN, QueuePosition(admitted=True), PolledReport()))
