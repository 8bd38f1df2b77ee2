"""EndpointSlices are listed only for a plan, and a refusal becomes the plan's reason."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs
from typing_extensions import override

from inferometer_api.plan.cluster_objects import LOADGEN
from inferometer_operator.cluster.connection import ApiConnection
from inferometer_operator.cluster.errors import ApiError, ApiUnreachableError
from inferometer_operator.cluster.reader import Reader
from inferometer_operator.reconcile.observed import EndpointList, Json, Observed, QueuePosition
from inferometer_operator.settings import Agents
from inferometer_operator.wiring.observer import Observer, RunMemory
from support.cluster_objects import (
    EPOCH,
    Object,
    being_deleted,
    bound,
    endpoint,
    endpoint_slice,
    server_pod,
    started,
)
from support.pretend_api import stored
from support.pretend_cluster import SETTINGS, PretendCluster
from support.runs import a_run, an_external_run

SETTLED = SETTINGS.model_copy(update={"agent": Agents(namespace="metering")})
AGENTS = endpoint_slice("inferometer-agent", endpoint("node1", "10.1.0.1"))
THEIRS = endpoint_slice("theirs", endpoint("node2", "10.2.0.1"))
OF_AGENTS = ("metering", "kubernetes.io/service-name=inferometer-agent")
OF_SERVICE = ("team", "kubernetes.io/service-name=theirs")


class _Connection(ApiConnection):
    """Answers with the objects of a run, and keeps which slices were listed."""

    def __init__(self, objects: Mapping[str, Any], faults: Sequence[Exception] = ()) -> None:
        self._objects = objects
        self._faults = list(faults)
        self.requests: list[tuple[str, str]] = []
        self.nodes_listed: list[str] = []
        self.theirs = THEIRS

    @override
    async def request(
        self, method: str, path: str, *, query: Mapping[str, str] | None = None, **_: Any
    ) -> Any:
        words = path.split("/")
        if (selected := (query or {}).get("fieldSelector", "")).startswith("spec.nodeName="):
            self.nodes_listed.append(selected.partition("=")[2])
            return {"items": [{"metadata": {"uid": f"on-{self.nodes_listed[-1]}"}}]}
        if words[-1] != "endpointslices":
            return self._objects.get(words[-1], {"items": []})
        self.requests.append((words[-2], (query or {})["labelSelector"]))
        if self._faults:
            raise self._faults.pop(0)
        return {"items": [AGENTS if words[-2] == "metering" else self.theirs]}


class _Silent:
    """A load generator that gives no answer."""

    async def report(self, _: str) -> None:
        """Say nothing."""


def observed(
    connection: ApiConnection,
    run: Json,
    *,
    settings: Any = SETTLED,
    pods: Sequence[Object] = (),
    plan: Object | None = None,
) -> Observed:
    """Return what is observed of an admitted run."""
    loads: Any = _Silent()
    reader = Reader(connection)
    for pod in pods:
        reader.children.put("Pod", pod)
    if plan is not None:
        reader.children.put("ConfigMap", plan)
    observer = Observer(reader, loads, settings)
    with capture_logs():
        return asyncio.run(observer.observe(run, QueuePosition(admitted=True), RunMemory()))


def begun(run: Object, **status: Any) -> Object:
    """Return a run that has begun."""
    return {**stored(run), "status": {"startTime": "2026-03-12T14:00:00Z", **status}}


RUN = begun(a_run())
EXTERNAL = stored(
    an_external_run(
        server={"runtime": "External", "external": {"service": {"name": "theirs", "port": 80}}}
    )
)
PLANNED = PretendCluster(run=dict(RUN)).settle().schedule().children["ConfigMap/a-run-load"]
BOUND = bound(server_pod(RUN))


@pytest.mark.parametrize(
    ("pods", "plan", "requests"),
    [
        ([], None, []),
        ([server_pod(RUN)], None, []),
        ([BOUND], None, [OF_AGENTS]),
        ([BOUND], PLANNED, []),
        ([BOUND, started(PretendCluster(run=dict(RUN)).pod(LOADGEN), ready=True)], None, []),
    ],
    ids=["no server", "no address", "to be planned", "planned", "plan read"],
)
def test_agents_are_listed_while_a_plan_is_to_be_made(
    pods: list[Object], plan: Object | None, requests: list[tuple[str, str]]
) -> None:
    """Once each time that it could be, and never again."""
    connection = _Connection({})
    found = observed(connection, RUN, pods=pods, plan=plan)
    assert connection.requests == requests
    assert found.agents == (EndpointList((AGENTS,)) if requests else None)
    assert found.behind_service is None


def test_nothing_is_listed_where_no_agents_are_settled() -> None:
    """The right need not be granted."""
    connection = _Connection({})
    assert observed(connection, RUN, settings=SETTINGS, pods=[BOUND]).agents is None
    assert connection.requests == []


@pytest.mark.parametrize("service", [None, {"spec": {"selector": {"app": "a"}}}])
@pytest.mark.parametrize("run", [EXTERNAL, {**begun(EXTERNAL)}], ids=["begins", "has begun"])
def test_an_external_servers_pods_are_listed_with_the_agents(
    run: Object, service: Object | None
) -> None:
    """Its plan is made as soon as it begins."""
    connection = _Connection({"theirs": service})
    found = observed(connection, run)
    if service is None and "status" not in run:
        assert connection.requests == []
    else:
        assert sorted(connection.requests) == sorted([OF_AGENTS, OF_SERVICE])
        assert found.behind_service == EndpointList(
            (THEIRS,), pods=frozenset({("node2", "on-node2")})
        )


def test_pods_are_listed_on_a_bounded_number_of_nodes() -> None:
    """An author's slices may name any number."""
    connection = _Connection({})
    many = (endpoint(f"n{number:03}", "10.2.0.1") for number in range(65))
    connection.theirs = endpoint_slice("theirs", *many, endpoint(None, "10.2.0.2"))
    observed(connection, begun(EXTERNAL))
    assert connection.nodes_listed == [f"n{number:03}" for number in range(64)]


def test_a_transient_error_is_retried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a second; the worker retries then. What is not allowed stays so."""
    monkeypatch.setattr("inferometer_operator.wiring.endpoints._AGAIN_SECONDS", 0.0)
    for faults, refusal, times in (
        ([ApiError(503, "", "no etcd")], "", 2),
        ([ApiUnreachableError("cut")], "", 2),
        ([ApiUnreachableError("cut"), ApiError(403, "Forbidden", "not yours")], "not yours", 2),
        ([ApiError(403, "Forbidden", "not yours")], "not yours", 1),
    ):
        connection = _Connection({}, faults)
        found = observed(connection, RUN, pods=[BOUND])
        assert found.agents == (
            EndpointList(refusal=refusal) if refusal else EndpointList((AGENTS,))
        )
        assert connection.requests == [OF_AGENTS] * times


@pytest.mark.parametrize("again", [ApiError(429, "", "too many"), ApiUnreachableError("cut")])
def test_an_error_that_may_pass_is_no_refusal(
    again: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would end a run whose Service has no selector."""
    monkeypatch.setattr("inferometer_operator.wiring.endpoints._AGAIN_SECONDS", 0.0)
    connection = _Connection({"theirs": {"spec": {}}}, [ApiError(503, "", "no etcd"), again])
    with pytest.raises(type(again)):
        observed(connection, EXTERNAL, settings=SETTINGS)
    assert connection.requests == [OF_SERVICE] * 2


def test_a_load_pod_of_an_earlier_attempt_is_not_looked_at() -> None:
    """It hangs on a lost node: the run needs its Service, and the report of another pod."""
    old = started(bound(PretendCluster(run=dict(EXTERNAL)).pod(LOADGEN)), ready=True)
    service = {"spec": {"selector": {"app": "a"}}}
    for start, is_left in (("2026-03-12T14:02:00Z", True), ("2026-03-12T14:00:00Z", False)):
        for pod in (old, being_deleted(old, EPOCH)):
            run = {**EXTERNAL, "status": {"startTime": start}}
            found = observed(_Connection({"theirs": service}), run, pods=[pod])
            left = is_left and pod is not old
            assert found.pods == (() if left else (pod,))
            assert found.service == (service if left else None)


def test_a_pod_that_was_given_up_is_remembered_until_the_next_attempt() -> None:
    """Since its sighting is on the operator's own clock, whatever its creation says."""
    loads: Any = _Silent()
    times = [EPOCH, EPOCH + timedelta(minutes=10)]
    reader = Reader(_Connection({}))
    reader.children.put("Pod", being_deleted(PretendCluster(run=dict(RUN)).pod(LOADGEN), EPOCH))
    observer = Observer(reader, loads, SETTINGS, now=lambda: times[0])
    memory, turn = RunMemory(), QueuePosition(admitted=True)
    asyncio.run(observer.observe({**RUN, "status": {}}, turn, memory))
    times.pop(0)
    begun_again = {**RUN, "status": {"startTime": "2026-03-12T14:09:00Z"}}
    assert asyncio.run(observer.observe(begun_again, turn, memory)).pods == ()
