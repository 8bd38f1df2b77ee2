"""The operator reads what it needs of Kueue once, and works without it."""

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any

import pytest
from structlog.testing import capture_logs
from typing_extensions import override

from inferometer_api.plan.cluster_objects import ADMISSION, labels
from inferometer_operator.cluster import child_watch
from inferometer_operator.cluster.child_store import ChildStore
from inferometer_operator.cluster.child_watch import ChildChange, ChildWatch
from inferometer_operator.cluster.connection import ApiConnection
from inferometer_operator.cluster.errors import ApiError, ApiUnreachableError
from inferometer_operator.cluster.loadgen_client import LoadgenClient
from inferometer_operator.cluster.reader import Reader
from inferometer_operator.cluster.writer import Writer
from inferometer_operator.reconcile.observed import KueueObjects, QueuePosition
from inferometer_operator.reconcile.plan import WorkloadReport
from inferometer_operator.settings import Settings
from inferometer_operator.wiring.observer import Observer, RunMemory
from inferometer_operator.wiring.sweep import sweep
from support.kueue_objects import QUEUED_RUN_LABELS, admitted

_IMAGES = {"images": {"serving": "a", "servingGpu": "b", "loadgen": "c"}}
_ENABLED = Settings.model_validate({**_IMAGES, "kueue": {"enabled": True}})
_DISABLED = Settings.model_validate(_IMAGES)
_FLAVOR = {"spec": {"nodeLabels": {"pool": "a"}}}
_WAITS = QueuePosition(admitted=False)
_FORBIDDEN = ApiError(403, "Forbidden", "no")
_NOT_SERVED = ApiError(404, "NotFound", "the server could not find the requested resource")


def _run(**labels_of_run: str) -> dict[str, Any]:
    metadata = {"name": "a", "namespace": "ns", "uid": "u", "labels": labels_of_run}
    return {"metadata": metadata, "spec": {}}


def _workload(**members: Any) -> dict[str, Any]:
    return {
        "metadata": {
            "name": "a-workload",
            "namespace": "ns",
            "uid": "w",
            "resourceVersion": "7",
            "labels": labels("a", "u", ADMISSION),
            "ownerReferences": [{"kind": "BenchmarkRun", "uid": "u", "controller": True}],
        },
        **members,
    }


class _Connection(ApiConnection):
    """Answers each request with what its path ends in, and notes the paths."""

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self._answers = answers
        self.paths: list[str] = []
        self.bodies: list[Any] = []

    @override
    async def request(self, method: str, path: str, **more: Any) -> Any:
        self.paths.append(f"{method} {path}")
        self.bodies.append(more.get("body"))
        answer = self._answers.get(path.rsplit("/", 1)[-1], {"items": [], "metadata": {}})
        if isinstance(answer, Exception):
            raise answer
        return answer


def _observer(connection: ApiConnection, settings: Settings, store: ChildStore) -> Observer:
    loadgen = LoadgenClient(None, 1)  # type: ignore[arg-type]  # requests nothing here
    return Observer(Reader(connection, store), loadgen, settings)


def _observed(
    answers: Mapping[str, Any], *workloads: dict[str, Any], run: Any = None, times: int = 1
) -> tuple[KueueObjects | None, list[str]]:
    """Return what is observed of Kueue after so many looks, and the requests."""
    connection, store = _Connection(answers), ChildStore()
    for each in workloads:
        store.put("Workload", each)
    observer, memory = _observer(connection, _ENABLED, store), RunMemory()

    async def observe() -> KueueObjects | None:
        for _ in range(times):
            observed = await observer.observe(run or _run(**QUEUED_RUN_LABELS), _WAITS, memory)
        return observed.kueue

    with capture_logs():
        return asyncio.run(observe()), connection.paths


def test_the_assigned_flavors_are_read_once() -> None:
    """From the cluster, not from a namespace, and only once Kueue has assigned them."""
    assert _observed({}, _workload()) == (KueueObjects(), [])
    flavors = admitted({"server": "default", "load": "default"})
    found, paths = _observed({"default": _FLAVOR}, _workload(status=flavors), times=3)
    assert found == KueueObjects({"default": _FLAVOR})
    assert paths == ["GET /apis/kueue.x-k8s.io/v1beta2/resourceflavors/default"]


@pytest.mark.parametrize("code", [403, 404])
def test_a_flavor_that_cannot_be_read_is_none(code: int) -> None:
    """It is read again at the next look."""
    refused = {"default": ApiError(code, "", "no")}
    found, paths = _observed(refused, _workload(status=admitted()), times=2)
    assert found == KueueObjects({"default": None})
    assert len(paths) == 2


def test_the_priority_class_is_read_before_there_is_a_workload() -> None:
    """And never without the run's label for it."""
    labelled = _run(**QUEUED_RUN_LABELS, **{"kueue.x-k8s.io/priority-class": "urgent"})
    found, paths = _observed({"urgent": {"value": 5}}, run=labelled)
    assert found == KueueObjects(priority_class={"value": 5})
    assert paths == ["GET /apis/kueue.x-k8s.io/v1beta2/workloadpriorityclasses/urgent"]
    assert _observed({}, _workload(), run=labelled) == (KueueObjects(), [])
    assert _observed({}, run=_run()) == (KueueObjects(), [])


@pytest.mark.parametrize("begun", [False, True])
def test_a_workload_is_observed_without_the_label(*, begun: bool) -> None:
    """It holds quota until it is deleted, and its flavors place the pods that are still to come."""
    held, store = _workload(status=admitted()), ChildStore()
    store.put("Workload", held)
    connection = _Connection({"default": _FLAVOR})
    run = _run()
    run["status"] = {"startTime": "2026-03-12T14:00:00Z"} if begun else {}
    observer = _observer(connection, _ENABLED, store)
    observed = asyncio.run(observer.observe(run, _WAITS, RunMemory()))
    assert observed.workload is not None
    assert observed.kueue == KueueObjects({"default": _FLAVOR})


@pytest.mark.parametrize("settings", [_DISABLED, _ENABLED], ids=["disabled", "not served"])
def test_without_kueue_nothing_is_observed_of_it(settings: Settings) -> None:
    """No request is made, and the run's decision knows that there is none."""
    connection, store = _Connection({}), ChildStore()
    store.unserved.add("Workload")
    observer = _observer(connection, settings, store)
    run = _run(**QUEUED_RUN_LABELS)
    observed = asyncio.run(observer.observe(run, _WAITS, RunMemory()))
    assert (observed.kueue, observed.workload, connection.paths) == (None, None, [])


def test_the_store_holds_no_pods_of_a_workload() -> None:
    """Of hundreds of waiting runs, they would take the operator's memory."""
    store = ChildStore()
    store.put("Workload", _workload(spec={"active": False, "podSets": [{"name": "server"}]}))
    held = store.get("Workload", "ns", "a-workload", "u")
    assert held is not None
    assert held["spec"] == {"active": False}


class _Lists(_Connection):
    """Answers one list after the other, and watches by the same script."""

    def __init__(self, script: list[Any]) -> None:
        super().__init__({})
        self._script = script

    @override
    async def request(self, method: str, path: str, **more: Any) -> Any:
        return self._next()

    @override
    @contextlib.asynccontextmanager
    async def stream(self, path: str, **_: Any) -> Any:
        self._next()
        yield

    def _next(self) -> Any:
        part = self._script.pop(0) if self._script else asyncio.CancelledError()
        if isinstance(part, BaseException):
            raise part
        return part


def _watched(
    monkeypatch: pytest.MonkeyPatch, script: list[Any], kind: str = "Workload"
) -> tuple[ChildStore, list[ChildChange], bool]:
    monkeypatch.setattr(child_watch, "_BACKOFF_SECONDS", (0.0,))
    store, changes = ChildStore(), list[ChildChange]()
    watch = ChildWatch(
        _Lists(script), kind, "ns", store, changed=changes.append, on_event=lambda: None
    )
    with contextlib.suppress(asyncio.CancelledError), capture_logs():
        asyncio.run(watch.run())
    return store, changes, watch.listed.is_set()


def test_a_cluster_without_kueue_does_not_hold_the_operator(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two answers that the kind is not served are believed; for another kind they are errors."""
    store, _, listed = _watched(monkeypatch, [_NOT_SERVED])
    assert (store.unserved, listed) == (set(), False)
    store, _, listed = _watched(monkeypatch, [_NOT_SERVED, _NOT_SERVED])
    assert (store.unserved, listed) == ({"Workload"}, True)
    store, _, listed = _watched(monkeypatch, [_NOT_SERVED, _NOT_SERVED], "Job")
    assert (store.unserved, listed) == (set(), False)


def test_rights_that_are_missing_do_not_hold_the_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is forbidden is remembered in the API server's words, and read once it is granted."""
    page = {"metadata": {"resourceVersion": "9"}, "items": [_workload()]}
    script: list[Any] = [_FORBIDDEN]
    store, _, listed = _watched(monkeypatch, script)
    assert (store.forbidden, listed) == ({"Workload": "no"}, True)
    store, _, listed = _watched(monkeypatch, [_FORBIDDEN, page])
    assert (store.forbidden, len(store), listed) == ({}, 1, True)
    # They may be withdrawn: what was there may be there yet.
    store, _, _ = _watched(monkeypatch, [page, _FORBIDDEN])
    assert (store.forbidden, len(store)) == ({"Workload": "no"}, 1)
    store, _, listed = _watched(monkeypatch, [_FORBIDDEN, _FORBIDDEN], "Job")
    assert (store.forbidden, listed) == ({}, False)


def test_a_kueue_that_may_not_be_read_is_observed_as_such() -> None:
    """No request is made, and the run's decision knows why."""
    connection, store = _Connection({}), ChildStore()
    store.forbidden["Workload"] = "no"
    observer = _observer(connection, _ENABLED, store)
    run = _run(**QUEUED_RUN_LABELS)
    observed = asyncio.run(observer.observe(run, _WAITS, RunMemory()))
    assert observed.kueue == KueueObjects(refusal="no")
    assert connection.paths == []


def test_kueue_may_be_installed_and_removed_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its Workloads are known as long as it is there, and gone with it."""
    page = {"metadata": {"resourceVersion": "9"}, "items": [_workload()]}
    there: list[Any] = [_NOT_SERVED, _NOT_SERVED, page]
    store, changes, _ = _watched(monkeypatch, there)
    assert (store.unserved, len(store)) == (set(), 1)
    gone: list[Any] = [page, ApiUnreachableError("cut"), _NOT_SERVED, _NOT_SERVED]
    store, changes, _ = _watched(monkeypatch, gone)
    assert (store.unserved, len(store)) == ({"Workload"}, 0)
    assert [each.type for each in changes] == ["ADDED", "DELETED"]


def test_conditions_are_applied_to_this_workload_alone() -> None:
    """The UID protects one of the same name; one that is gone needs none."""
    report = WorkloadReport("a-workload", "w", ({"type": "Finished"},))
    connection = _Connection({"status": _workload(status={"conditions": [{"type": "Finished"}]})})
    writer = Writer(connection, "x")
    asyncio.run(writer.apply_conditions("ns", report))
    path = "/apis/kueue.x-k8s.io/v1beta2/namespaces/ns/workloads/a-workload/status"
    assert connection.paths == [f"PATCH {path}"]
    (body,) = connection.bodies
    assert body["metadata"]["uid"] == "w"
    assert body["status"] == {"conditions": [{"type": "Finished"}]}
    held = writer.children.get("Workload", "ns", "a-workload", "u")
    assert held is not None
    for code in (404, 409):
        writer = Writer(_Connection({"status": ApiError(code, "", "gone")}), "x")
        writer.children.put("Workload", _workload())
        asyncio.run(writer.apply_conditions("ns", report))
        assert len(writer.children) == 0
    denied = Writer(_Connection({"status": ApiError(403, "Forbidden", "no")}), "x")
    with pytest.raises(ApiError):
        asyncio.run(denied.apply_conditions("ns", report))


def test_an_orphaned_workload_is_swept() -> None:
    """It would hold quota for ever; where none is known, Kueue is not queried."""
    orphan = _workload()
    connection = _Connection({"workloads": {"items": [orphan], "metadata": {}}})
    writer = Writer(connection, "x")
    assert asyncio.run(sweep(connection, writer, "ns", ["u"])) == set()
    assert not any("workloads" in path for path in connection.paths)
    writer.children.put("Workload", orphan)
    assert asyncio.run(sweep(connection, writer, "ns", ["u"])) == {"u"}
    assert any("DELETE" in path and "a-workload" in path for path in connection.paths)
