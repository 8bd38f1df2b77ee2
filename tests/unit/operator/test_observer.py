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
from inferometer_operator.wiring.observer import Observer, RunMemory
from support.runs import a_run

_SETTINGS = Settings.model_validate({"images": {"serving": "a", "servingGpu": "b", "loadgen": "c"}})
_ADMITTED = QueuePosition(admitted=True)
_RUN: dict[str, Any] = {
    "metadata": {"name": "a", "namespace": "ns", "uid": "u"},
    "status": {"startTime": "2026-01-31T12:00:00Z"},
}


class _Connection(ApiConnection):
    """Answers each GET with the objects of a path, and keeps the queries for events."""

    def __init__(self, objects: Mapping[str, Any]) -> None:
        self._objects = objects
        self.queries: list[Mapping[str, str]] = []
        self.paths: list[str] = []
        """Of all requests."""

    @override
    async def request(
        self, method: str, path: str, *, query: Mapping[str, str] | None = None, **_: Any
    ) -> Any:
        assert method == "GET"
        self.paths.append(path)
        if path.endswith("/events"):
            self.queries.append(query or {})
        return self._objects.get(path.rpartition("/")[2], {"items": []})


def _owned(name: str, component: str, kind: str | None, uid: str = "u", **members: Any) -> Any:
    owner = {"kind": kind, "uid": uid, "controller": True}
    return {
        "metadata": {
            "name": name,
            "namespace": "ns",
            "uid": f"uid-{name}",
            "resourceVersion": "1",
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
        _owned("a-server-x", SERVER, "Job", "set"),
        _owned("forged", SERVER, None),
        _owned("of-a-deployment", SERVER, "ReplicaSet"),
        _owned("of-a-run", LOADGEN, "BenchmarkRun"),
    ]
    reader = Reader(_Connection({"configmaps": {"items": maps}}))
    for pod in pods:
        reader.children.put("Pod", pod)
    kept = asyncio.run(reader.list_result_maps("ns", "u"))
    assert [each["metadata"]["name"] for each in kept] == ["a-result-0"]
    ran = reader.list_pods("ns", "u")
    assert [each["metadata"]["name"] for each in ran] == [
        "a-load-x",
        "a-server-x",
        "of-a-deployment",
    ]


def test_a_list_of_metadata_may_be_null() -> None:
    """The API server writes null instead of an empty list."""
    reader = Reader(_Connection({"configmaps": {"items": None}, "pods": {"items": None}}))
    assert asyncio.run(reader.list_result_maps("ns", "u")) == ()
    assert asyncio.run(reader.list_pod_uids("ns", "n")) == frozenset()


def _pod(name: str, component: str, state: dict[str, Any] | None) -> Any:
    return _owned(
        name,
        component,
        "Job",
        spec={"nodeName": "n"},
        status={"containerStatuses": [{"state": {} if state is None else state}]},
    )


_SERVER = _owned("a-server", SERVER, "BenchmarkRun", spec={"parallelism": 1})
_SERVERS = {**_SERVER, "spec": {"parallelism": 2}}
_LOAD = _owned("a-load", LOADGEN, "BenchmarkRun", spec={"parallelism": 1})
_PLAN = _owned("a-load", LOADGEN, "BenchmarkRun")
_WARNING: dict[str, Any] = {"metadata": {}, "lastTimestamp": "1", "message": "no volume"}
_RUNS: dict[str, Any] = {"running": {}}
_WAITS: dict[str, Any] = {"waiting": {"reason": "ContainerCreating"}}


@pytest.mark.parametrize(
    ("jobs", "pods", "about"),
    [
        ([_SERVER], [_pod("s", SERVER, _RUNS)], []),
        (
            [_SERVER],
            [_pod(f"s{i}", SERVER, _WAITS) for i in range(60)],
            ["uid-s0", "uid-s1", "uid-s10", "uid-s11"],
        ),
        ([_SERVER], [], ["uid-a-server"]),
        ([_SERVERS], [_pod("s", SERVER, _RUNS)], ["uid-a-server"]),
        ([_SERVER, _LOAD], [_pod("s", SERVER, _RUNS)], ["uid-a-load"]),
    ],
    ids=["nothing missing", "pods hang", "no server pod", "one server pod of two", "no load pod"],
)
def test_warnings_are_read_only_for_missing_pods(
    jobs: list[Any], pods: list[Any], about: list[str]
) -> None:
    """Few requests, each for one object, each with a limit; and only once they hang for long."""
    watched = _Watched()
    watched.put("Job", *jobs)
    watched.put("Pod", *pods)
    watched.observe(seconds=0.0)
    assert watched.connection.paths == []
    observed = watched.observe(seconds=3.0)
    fields = [f"involvedObject.uid={uid},type=Warning" for uid in about]
    assert [each["fieldSelector"] for each in watched.connection.queries] == fields
    assert all(int(each["limit"]) <= 500 for each in watched.connection.queries)
    assert observed.events == ()


def test_warnings_about_a_pod_that_hangs_are_read_ever_more_rarely() -> None:
    """What was read stays meanwhile; another pod that hangs is another case."""
    watched = _Watched({"events": {"items": [_WARNING]}})
    watched.put("Job", _SERVER)
    watched.put("Pod", _pod("s", SERVER, _WAITS))
    read_at = []
    for second in range(300):
        before = len(watched.connection.queries)
        observed = watched.observe(seconds=float(second))
        if len(watched.connection.queries) > before:
            read_at.append(second)
        assert observed.events == ((_WARNING,) if second >= 3 else ())
    assert read_at == [3, 9, 21, 45, 93, 153, 213, 273]
    watched.put("Pod", _pod("s", SERVER, _RUNS), version="2")
    assert watched.observe(seconds=300.0).events == ()
    watched.put("Job", _LOAD)
    watched.put("Pod", _pod("l", LOADGEN, _WAITS))
    for later in (301.0, 303.0, 304.0):
        watched.observe(seconds=later)
    assert watched.connection.queries[-1]["fieldSelector"].startswith("involvedObject.uid=uid-l,")
    assert len(watched.connection.queries) == len(read_at) + 1


def test_children_are_read_without_a_request() -> None:
    """What the watches delivered is observed; the content of the plan is read once a version."""
    watched = _Watched({"a-load": {**_PLAN, "data": {"plan.json": "{}"}}})
    watched.put("Job", _SERVER, _LOAD)
    watched.put("Pod", _pod("s", SERVER, _RUNS), _pod("l", LOADGEN, _RUNS))
    watched.put("ConfigMap", _PLAN)
    for second in range(10):
        observed = watched.observe(seconds=float(second))
    assert observed.children == {
        "server": _SERVER,
        "load": _LOAD,
        "plan": {**_PLAN, "data": {"plan.json": "{}"}},
        "begun": None,
        "workload": None,
    }
    assert [pod["metadata"]["name"] for pod in observed.pods] == ["l", "s"]
    assert watched.connection.paths == ["/api/v1/namespaces/ns/configmaps/a-load"]


def test_pods_of_which_only_their_job_knows_are_looked_for() -> None:
    """The watch of pods may be behind that of Jobs, and without its pod the load would be lost."""
    ended = _pod("l", LOADGEN, {"terminated": {"exitCode": 0}})
    watched = _Watched({"pods": {"items": [ended]}})
    watched.put("Job", {**_LOAD, "status": {"succeeded": 1}})
    watched.put("Pod", _pod("s", SERVER, _RUNS))
    observed = watched.observe(seconds=0.0)
    assert [pod["metadata"]["name"] for pod in observed.pods] == ["l", "s"]
    pods = "/api/v1/namespaces/ns/pods"
    assert watched.connection.paths.count(pods) == 1
    watched.observe(seconds=1.0)
    assert watched.connection.paths.count(pods) == 1


@pytest.mark.parametrize(("component", "reads"), [(LOADGEN, 1), (SERVER, 0)])
def test_a_load_pod_without_a_node_is_read_again(component: str, reads: int) -> None:
    """It may run meanwhile, if the watch is late: its run must not be taken back then."""
    unplaced = {"conditions": [{"type": "PodScheduled", "status": "False"}]}
    pod = _owned("p", component, "Job", "job", status=unplaced)
    newer = _pod("p", component, _RUNS)
    newer["metadata"] = {**pod["metadata"], "resourceVersion": "2"}
    connection = _Connection({"pods": {"items": [newer]}})
    reader = Reader(connection)
    reader.children.put("Pod", pod)
    observer = Observer(reader, LoadgenClient.__new__(LoadgenClient), _SETTINGS, lambda: 0.0)
    observed = asyncio.run(observer.observe(_RUN, _ADMITTED, RunMemory(due=1.0)))
    assert sum(path.endswith("/pods") for path in connection.paths) == reads
    assert observed.pods == ((newer,) if reads else (pod,))


def test_what_a_queued_run_names_is_read_once() -> None:
    """Not at each change of its position, but again when it changes and when it may begin."""
    secret = {"metadata": {"labels": {"inferometer.dev/allow-use": "true"}}}
    watched = _Watched({"mine": secret})
    accepted = {
        "type": "Accepted",
        "status": "True",
        "reason": "Queued",
        "message": "",
        "lastTransitionTime": "2026-01-31T12:00:00Z",
    }
    run = a_run()
    run["spec"]["load"] = {"inputs": {"file": {"uri": "configmap://mine/x"}}}
    run["metadata"] |= {"namespace": "ns", "uid": "u", "generation": 1}
    run["status"] = {"conditions": [accepted]}
    waits = QueuePosition(admitted=False, position=3)
    for _ in range(5):
        assert list(watched.observe(run=run, position=waits).references.values()) == [
            secret["metadata"]
        ]
    assert len(watched.connection.paths) == 1
    changed = {**run, "metadata": {**run["metadata"], "generation": 2}}
    watched.observe(run=changed, position=waits)
    assert len(watched.connection.paths) == 2
    watched.observe(run=changed, position=QueuePosition(admitted=True))
    assert len(watched.connection.paths) == 3


class _Watched:
    """An observer of a run whose children the watches deliver."""

    def __init__(self, objects: Mapping[str, Any] | None = None) -> None:
        self.connection = _Connection(objects or {})
        self._reader = Reader(self.connection)
        self._memory = RunMemory(due=1e9)
        self._now = 0.0
        # No load pod answers here.
        loads = LoadgenClient.__new__(LoadgenClient)
        self._observer = Observer(self._reader, loads, _SETTINGS, lambda: self._now)

    def put(self, kind: str, *objects: Any, version: str = "1") -> None:
        """Let a watch deliver objects."""
        for each in objects:
            metadata = {**each["metadata"], "resourceVersion": version}
            self._reader.children.put(kind, {**each, "metadata": metadata})

    def observe(
        self,
        *,
        seconds: float = 0.0,
        run: Any = _RUN,
        position: QueuePosition = _ADMITTED,
    ) -> Observed:
        """Observe at a time."""
        self._now = seconds
        return asyncio.run(self._observer.observe(run, position, self._memory))
