"""The pool starts one worker for each run that a watch delivers."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from yarl import URL

from inferometer_operator.cluster.run_watch import watch_trace
from inferometer_operator.wiring.worker import Dependencies, Worker
from inferometer_operator.wiring.worker_pool import WorkerPool
from support.exported_runs import a_finished_run, operator_stats
from support.played_cluster import SETTINGS, no_pauses
from support.waiting import until

pytestmark = pytest.mark.usefixtures(no_pauses.__name__)


class _Gone:
    """A cluster without any run but those that it lists."""

    def __init__(self) -> None:
        self.read: list[str] = []
        self.listed: list[Any] = []

    async def list_runs(self, _: str | None) -> list[Any]:
        return self.listed

    async def get(self, _kind: str, _namespace: str, name: str) -> None:
        self.read.append(name)

    async def list_pods(self, *_: str) -> tuple[()]:
        return ()


def a_pool(cluster: _Gone) -> tuple[WorkerPool, Dependencies]:
    """Return a crew that finds no run where it looks."""
    played: Any = cluster
    dependencies = Dependencies(
        make_plan=played,
        settings=SETTINGS,
        reader=played,
        writer=played,
        observer=played,
        executor=played,
        stats=operator_stats(),
    )
    return WorkerPool(dependencies), dependencies


@pytest.mark.parametrize(
    ("query", "ok", "expected"),
    [
        ("limit=500", True, ["listed"]),
        ("limit=500&continue=x", True, []),
        ("watch=true&resourceVersion=1", True, ["heard"]),
        ("limit=500", False, []),
    ],
)
def test_a_list_is_distinguished_from_a_watch(query: str, expected: list[str], *, ok: bool) -> None:
    """By its first page alone; what is refused is neither."""
    noted: list[str] = []
    trace = watch_trace(lambda: noted.append("heard"), lambda: noted.append("listed"))

    async def send(name: str) -> None:
        url = URL(f"https://k/apis/inferometer.dev/v1alpha1/namespaces/a/{name}?{query}")
        request: Any = SimpleNamespace(url=url, response=SimpleNamespace(ok=ok))
        session: Any = None
        await trace.on_request_end[0](session, SimpleNamespace(), request)

    asyncio.run(send("pods"))
    assert noted == []
    asyncio.run(send("benchmarkruns"))
    assert noted == expected


def test_others_go_on_while_a_leader_takes_in_many_runs() -> None:
    """Its Lease is to be renewed, however many there are; none begins before all are known."""

    async def begun() -> None:
        cluster = _Gone()
        cluster.listed = [a_finished_run(f"r{number}") for number in range(151)]
        pool, dependencies = a_pool(cluster)
        beginning = asyncio.create_task(pool.start())
        known = []
        while not beginning.done():
            await asyncio.sleep(0)
            known.append(len(dependencies.stats.runs))
            assert not cluster.read
        await pool.stop()
        assert {0, 50, 100, 150, 151} >= set(known)
        assert {50, 100, 150} <= set(known)

    asyncio.run(begun())


def test_a_deleted_run_is_exported_no_longer() -> None:
    """At once, though its worker may still wait for its pods."""

    async def deleted() -> None:
        pool, dependencies = a_pool(_Gone())
        pool.run_changed("ADDED", a_finished_run())
        assert dependencies.stats.runs
        pool.run_changed("DELETED", a_finished_run())
        assert not dependencies.stats.runs
        await pool.stop()

    asyncio.run(deleted())


def test_a_run_that_a_new_list_lacks_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list without it says that it went while the watch was broken; others cost no request."""
    monkeypatch.setattr("inferometer_operator.wiring.worker_pool._RELIST_SECONDS", 0.0)
    woken: list[str] = []
    monkeypatch.setattr(Worker, "wake", lambda worker: woken.append(worker.uid))

    async def listed() -> None:
        pool, _ = a_pool(_Gone())
        for name in ("gone", "told"):
            pool.run_changed(None, a_finished_run(name))
        pool.runs_relisted()
        pool.run_changed(None, a_finished_run("told"))
        await until(lambda: bool(woken), "a woken worker")
        await pool.stop()

    asyncio.run(listed())
    assert woken == ["uid-gone"]
