"""The pool works on runs that go on, leaves finished ones, and forgets those that are gone."""

import asyncio
import importlib.metadata
import json
from collections.abc import Callable
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from structlog.testing import capture_logs
from typing_extensions import override

from inferometer_api.plan.cluster_objects import RUN_UID_LABEL
from inferometer_api.status.run_status import RunStatus
from inferometer_operator.cluster import run_watch
from inferometer_operator.cluster.child_watch import PAGE, ChildChange
from inferometer_operator.cluster.connection import ApiConnection
from inferometer_operator.cluster.lease import LeaseLostError
from inferometer_operator.reconcile.plan import Plan
from inferometer_operator.wiring import worker_pool
from inferometer_operator.wiring.dependencies import Dependencies
from inferometer_operator.wiring.ownership import Ownership
from inferometer_operator.wiring.worker_pool import WorkerPool
from support.exported_runs import a_finished_run
from support.played_cluster import SETTINGS, no_pauses
from support.played_pool import PooledRuns, a_pool, rest, waiting_run
from support.waiting import until, within_deadline

pytestmark = pytest.mark.usefixtures(no_pauses.__name__)


def test_no_run_is_worked_on_before_all_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that begins early could take the slot of an older one; then a few go at a time."""
    monkeypatch.setattr(worker_pool, "_GATHER_SECONDS", 0.0)

    async def work() -> None:
        cluster = PooledRuns()
        cluster.go_on.clear()
        async with a_pool(cluster) as (pool, dependencies):
            names = [f"r{number:03}" for number in range(100)]
            for name in names:
                pool.run_changed(None, waiting_run(name))
            await rest()
            assert cluster.worked_on == []
            dependencies.stats.runs_listed = False
            pool.runs_listed(frozenset(f"uid-{name}" for name in names))
            await until(lambda: cluster.at_once == 16, "work on 16 runs")
            await rest()
            assert cluster.most_at_once == 16
            assert dependencies.stats.runs_listed
            cluster.go_on.set()
            await until(lambda: set(cluster.worked_on) == set(names), "work on all runs")
            assert cluster.most_at_once == 16
            assert len(asyncio.all_tasks()) < 30
            assert cluster.read == []

    asyncio.run(work())


def test_a_finished_run_costs_nothing_until_it_expires() -> None:
    """Neither a read nor a worker, also when it is listed again; then it is read once."""
    expired: list[str] = []

    def decide(run: Any, *_: Any) -> Plan:
        expired.append(run["metadata"]["name"])
        return Plan(RunStatus.read(run["status"]))

    async def work() -> None:
        cluster = PooledRuns()
        async with a_pool(cluster, decide) as (pool, _):
            old, kept = a_finished_run("old"), a_finished_run("kept")
            old["spec"]["retention"] = {"ttlSecondsAfterFinished": 0}
            kept["spec"]["retention"] = {"ttlSecondsAfterFinished": 10**9}
            cluster.stored = {"old": old, "kept": kept}
            for run in (old, kept, kept):
                pool.run_changed(None, run)
            pool.runs_listed(frozenset({"uid-old", "uid-kept"}))
            await until(lambda: expired == ["old"], "the end of the old run")
            await rest()
            assert cluster.read == ["old"]
            # Its retention is cut.
            short = {
                **kept,
                "metadata": {**kept["metadata"], "resourceVersion": "2"},
                "spec": {**kept["spec"], "retention": {"ttlSecondsAfterFinished": 0}},
            }
            cluster.stored["kept"] = short
            pool.run_changed("MODIFIED", short)
            await until(lambda: expired == ["old", "kept"], "the end of the other run")

    asyncio.run(work())


def test_an_old_event_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a run that goes on, is finished or gone: no work, and no place in a queue."""
    monkeypatch.setattr(worker_pool, "_GATHER_SECONDS", 0.0)

    async def work() -> None:
        cluster = PooledRuns()
        finished = a_finished_run("b")
        finished["metadata"] |= {"resourceVersion": "7", "uid": "uid-b"}
        async with a_pool(cluster) as (pool, dependencies):
            pool.run_changed(None, waiting_run("a", "5"))
            pool.run_changed(None, finished)
            pool.run_changed(None, waiting_run("c", "6"))
            pool.runs_listed(frozenset({"uid-a", "uid-b", "uid-c"}))
            await rest()
            pool.run_changed("DELETED", waiting_run("c", "8"))
            await rest()
            cluster.worked_on.clear()
            phases = dict(dependencies.stats.phases)
            for name, version in (("a", "4"), ("b", "3"), ("c", "6"), ("c", "9")):
                pool.run_changed("ADDED", waiting_run(name, version))
            await rest()
            assert cluster.worked_on == []
            assert dependencies.stats.phases == phases

    asyncio.run(work())


def test_what_is_left_of_a_finished_run_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Job may still send load; other finished runs are not read for it."""
    monkeypatch.setattr(worker_pool, "LOOK_SECONDS", 0.0)

    async def work() -> None:
        cluster = PooledRuns()
        job = {
            "metadata": {
                "name": "j",
                "namespace": "ns",
                "uid": "j",
                "resourceVersion": "1",
                "labels": {RUN_UID_LABEL: "uid-a"},
            }
        }
        cluster.children.put("Job", job)
        cluster.stored = {name: a_finished_run(name) for name in "abc"}
        async with a_pool(cluster, lambda run, *_: Plan(RunStatus.read(run["status"]))) as (
            pool,
            _,
        ):
            for run in cluster.stored.values():
                run["spec"]["retention"] = {"ttlSecondsAfterFinished": 10**9}
                pool.run_changed(None, run)
            pool.runs_listed(frozenset({"uid-a", "uid-b", "uid-c"}))
            await until(lambda: cluster.read == ["a"], "a read of the run with a Job")
            pool.child_changed(ChildChange("DELETED", "Job", "uid-b"))
            pool.child_changed(ChildChange("ADDED", "Job", "uid-c"))
            await until(lambda: cluster.read == ["a", "c"], "a read of the run with a new Job")

    asyncio.run(work())


def test_a_deleted_run_is_exported_no_longer() -> None:
    """At once, though its worker may still wait for its pods."""

    async def work() -> None:
        async with a_pool(PooledRuns()) as (pool, dependencies):
            pool.run_changed("ADDED", a_finished_run())
            assert dependencies.stats.runs
            pool.run_changed("DELETED", a_finished_run())
            assert not dependencies.stats.runs
            assert not dependencies.stats.phases.total()

    asyncio.run(work())


def test_a_run_that_a_new_list_lacks_is_gone() -> None:
    """It went while the watch was broken; its place in the queue is free."""

    async def work() -> None:
        cluster = PooledRuns()
        async with a_pool(cluster) as (pool, dependencies):
            for name in ("gone", "there"):
                pool.run_changed(None, waiting_run(name))
            old = a_finished_run("old")
            old["spec"]["retention"] = {"ttlSecondsAfterFinished": 10**9}
            pool.run_changed(None, old)
            pool.runs_listed(frozenset({"uid-gone", "uid-there", "uid-old"}))
            await until(lambda: len(cluster.worked_on) == 2, "work on both runs")
            pool.run_changed(None, waiting_run("there"))
            pool.runs_listed(frozenset({"uid-there"}))
            await until(lambda: len(dependencies.stats.phases) == 1, "that the runs are forgotten")
            assert [run.name for run in dependencies.stats.runs] == ["there"]
            assert cluster.read == []

    asyncio.run(work())


def test_a_refused_write_of_an_operator_that_was_replaced_ends_its_work() -> None:
    """It is no error of the run, which another operator works on."""

    async def update_status(*_: Any) -> None:
        raise LeaseLostError("too old for a write")

    async def work() -> None:
        cluster: Any = PooledRuns()
        cluster.update_status = update_status
        dependencies = Dependencies(
            make_plan=lambda *_: Plan(RunStatus()),
            settings=SETTINGS,
            reader=cluster,
            writer=cluster,
            observer=cluster,
            executor=cluster,
            ownership=Ownership(cluster),
        )
        pool = WorkerPool(dependencies)
        pool.run_changed(None, waiting_run("a-run"))
        pool.runs_listed(frozenset({"uid-a-run"}))
        with pytest.raises(ExceptionGroup) as ended:
            async with within_deadline("the end of the pool"):
                await pool.run()
        assert isinstance(ended.value.exceptions[0], LeaseLostError)

    asyncio.run(work())


class _RunServer:
    """An API server with so many runs, which it lists in pages."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.asked: list[str] = []
        self.events: list[list[dict[str, Any]]] = []
        self.refusals: list[int] = []
        self.watched = asyncio.Event()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer a list or a watch."""
        if self.refusals:
            return web.json_response({"kind": "Status"}, status=self.refusals.pop(0))
        if "watch" in request.query:
            self.asked.append(f"WATCH {request.query['resourceVersion']}")
            response = web.StreamResponse()
            await response.prepare(request)
            self.watched.set()
            for event in self.events.pop(0) if self.events else []:
                await response.write(json.dumps(event).encode() + b"\n")
            if not self.events:
                await asyncio.Event().wait()
            return response
        first = int(request.query.get("continue", "0"))
        last = min(first + int(request.query["limit"]), self.count)
        self.asked.append(f"LIST {first}")
        runs = [waiting_run(f"r{number}") for number in range(first, last)]
        metadata = {"resourceVersion": "7", "continue": str(last) if last < self.count else ""}
        return web.json_response({"metadata": metadata, "items": runs})


class _Connection(ApiConnection):
    """Leads to a server on loopback."""

    def __init__(self, url: str) -> None:
        self._url = url

    @property
    @override
    def server(self) -> str:
        return self._url

    @override
    def session(self, trace: aiohttp.TraceConfig) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(trace_configs=[trace])


class _Watched:
    """What the watch of runs passed on."""

    def __init__(self) -> None:
        self.changes: list[tuple[str | None, str]] = []
        self.lists: list[frozenset[str]] = []
        self.signs = 0

    def sign(self) -> None:
        """Count a sign of life."""
        self.signs += 1


async def _watch(server: _RunServer, true: Callable[[_Watched], bool]) -> _Watched:
    application = web.Application()
    application.router.add_get("/apis/inferometer.dev/v1alpha1/benchmarkruns", server.answer)
    watched = _Watched()
    async with TestServer(application, host="127.0.0.1") as served:
        watching = asyncio.create_task(
            run_watch.watch_runs(
                _Connection(str(served.make_url(""))),
                None,
                changed=lambda kind, run: watched.changes.append((kind, run["metadata"]["name"])),
                listed=watched.lists.append,
                on_event=watched.sign,
            )
        )
        await until(lambda: true(watched) or watching.done(), "what the server says")
        watching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await watching
    return watched


def test_runs_are_listed_in_pages_and_then_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    """A watch that missed events lists all again, and says which runs there are."""
    monkeypatch.setattr(run_watch, "_PAUSES_SECONDS", (0.0,))

    async def work() -> tuple[_RunServer, _Watched]:
        server = _RunServer(2 * PAGE + 1)
        bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "9"}}}
        gone = {"type": "ERROR", "object": {"code": 410}}
        server.events = [
            [{"type": "MODIFIED", "object": waiting_run("r1", "8")}, bookmark],
            [gone],
            [{"type": "DELETED", "object": waiting_run("r1", "9")}],
            [],
        ]
        return server, await _watch(server, lambda watched: ("DELETED", "r1") in watched.changes)

    server, watched = asyncio.run(work())
    pages = ["LIST 0", f"LIST {PAGE}", f"LIST {2 * PAGE}"]
    assert server.asked[:8] == [*pages, "WATCH 7", "WATCH 9", *pages]
    assert len(watched.changes) == 2 * (2 * PAGE + 1) + 2
    assert watched.lists == [frozenset(f"uid-r{number}" for number in range(2 * PAGE + 1))] * 2
    assert watched.signs > len(watched.changes)


@pytest.mark.parametrize("code", [401, 404, 422])
def test_a_refused_list_is_retried(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """A token is renewed, and the definition may be installed later than the operator."""
    monkeypatch.setattr(run_watch, "_PAUSES_SECONDS", (0.0,))

    async def work() -> list[Any]:
        server = _RunServer(1)
        server.refusals = [code]
        with capture_logs() as logs:
            await _watch(server, lambda watched: bool(watched.lists))
        return [each for each in logs if each["event"] == "run_watch_broken"]

    (told,) = asyncio.run(work())
    assert ("CustomResourceDefinition" in told["hint"]) == (code == 404)


def test_an_error_in_the_watch_lists_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of whatever kind: the operator does not end."""
    monkeypatch.setattr(run_watch, "_PAUSES_SECONDS", (0.0,))

    async def work() -> _Watched:
        server = _RunServer(1)
        server.events = [[{"type": "ERROR", "object": {"code": 500, "message": "boom"}}], []]
        with capture_logs():
            return await _watch(server, lambda watched: len(watched.lists) == 2)

    assert asyncio.run(work()).lists == [frozenset({"uid-r0"})] * 2


def test_kopf_is_the_version_that_the_watch_of_runs_was_made_for() -> None:
    """It uses parts of kopf that may change without notice: look at run_watch.py, then set it."""
    found = importlib.metadata.version("kopf")
    assert found == run_watch.KOPF_VERSION, (
        f"kopf is {found}, and cluster/run_watch.py was made for {run_watch.KOPF_VERSION}: compare "
        "kopf._cogs.clients.watching, fetching, api and auth of both, and set KOPF_VERSION."
    )
