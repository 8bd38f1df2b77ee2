"""A pool of workers, and runs that nothing happens to."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from inferometer_api.status.run_status import RunStatus
from inferometer_operator.cluster.child_store import ChildStore
from inferometer_operator.reconcile.observed import Observed
from inferometer_operator.reconcile.plan import Plan
from inferometer_operator.wiring.dependencies import Dependencies
from inferometer_operator.wiring.ownership import Ownership
from inferometer_operator.wiring.worker_pool import WorkerPool
from support.exported_runs import operator_stats
from support.played_cluster import SETTINGS


class PooledRuns:
    """Runs that nothing happens to, and what is read and worked on."""

    def __init__(self) -> None:
        self.children = ChildStore()
        self.connection = self
        self.read: list[str] = []
        self.worked_on: list[str] = []
        self.at_once = 0
        self.most_at_once = 0
        self.go_on = asyncio.Event()
        self.go_on.set()
        self.stored: dict[str, Any] = {}

    async def request(self, *_: Any, **__: Any) -> Any:
        """List nothing."""
        return {}

    async def get(self, _kind: str, _namespace: str, name: str) -> Any:
        """Return a run that is stored."""
        self.read.append(name)
        return self.stored.get(name)

    def list_pods(self, *_: str) -> tuple[()]:
        """Return that there are none."""
        return ()

    async def observe(self, run: Any, turn: Any, _: Any) -> Observed:
        """Return nothing, once it may go on."""
        self.worked_on.append(run["metadata"]["name"])
        self.at_once += 1
        self.most_at_once = max(self.at_once, self.most_at_once)
        await self.go_on.wait()
        self.at_once -= 1
        return Observed(queue_position=turn)

    async def update_status(self, run: Any, _: Plan) -> Any:
        """Write nothing."""
        return run

    async def create_children(self, *_: Any) -> bool:
        """Create nothing."""
        return False

    async def report_workload(self, *_: Any) -> None:
        """Report nothing."""

    async def delete_targets(self, *_: Any) -> None:
        """Delete nothing."""


@asynccontextmanager
async def a_pool(
    cluster: PooledRuns,
    decide: Callable[..., Plan] = lambda *_: Plan(RunStatus()),
    clock: Callable[[], float] = time.monotonic,
    slots: int = SETTINGS.max_concurrent_runs,
) -> AsyncIterator[tuple[WorkerPool, Dependencies]]:
    """Let a pool work on a cluster."""
    played: Any = cluster
    dependencies = Dependencies(
        make_plan=decide,
        settings=SETTINGS.model_copy(update={"max_concurrent_runs": slots}),
        reader=played,
        writer=played,
        observer=played,
        executor=played,
        ownership=Ownership(played),
        clock=clock,
        stats=operator_stats(),
    )
    pool = WorkerPool(dependencies)
    working = asyncio.create_task(pool.run())
    try:
        yield pool, dependencies
    finally:
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working


def waiting_run(name: str, version: str = "1") -> dict[str, Any]:
    """Return a run that waits to begin."""
    return {
        "metadata": {
            "name": name,
            "namespace": "ns",
            "uid": f"uid-{name}",
            "resourceVersion": version,
            "creationTimestamp": "2026-01-31T12:00:00Z",
        }
    }


async def rest() -> None:
    """Let everything happen that needs no time."""
    for _ in range(50):
        await asyncio.sleep(0)
