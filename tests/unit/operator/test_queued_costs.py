"""What a queued run costs does not depend on what happens to the others, or on their number."""

import asyncio
from collections import Counter
from typing import Any

import pytest
from structlog.testing import capture_logs
from typing_extensions import override

from inferometer_api.status.run_status import RunStatus
from inferometer_operator.cluster.child_watch import ChildChange
from inferometer_operator.cluster.errors import ApiError
from inferometer_operator.reconcile.conditions import read_status
from inferometer_operator.reconcile.observed import Observed
from inferometer_operator.reconcile.plan import Plan
from inferometer_operator.wiring import run_queue, worker_pool
from inferometer_operator.wiring.worker_pool import WorkerPool
from support.played_cluster import BEGUN
from support.played_pool import PooledRuns, a_pool, rest, waiting_run
from support.waiting import until

_CHANGES = 20
_ENDS = 8


class _Queued(PooledRuns):
    """Runs whose statuses are kept, one that measures and others that wait for its end."""

    @override
    async def update_status(self, run: Any, plan: Plan) -> Any:
        if plan.status == read_status(run):
            return run
        version = str(int(run["metadata"]["resourceVersion"]) + 1)
        status = plan.status.model_dump(mode="json", exclude_none=True)
        metadata = {**run["metadata"], "resourceVersion": version}
        return {**run, "metadata": metadata, "status": status}

    def plans(self) -> Counter[str]:
        """Return how many plans each run took."""
        return Counter(self.worked_on)


def _decide(run: Any, observed: Observed, *_: Any) -> Plan:
    begins = observed.queue_position.admitted or read_status(run).start_time is not None
    return Plan(RunStatus(start_time=BEGUN if begins else None))


def _measuring(name: str, version: int) -> dict[str, Any]:
    return {**waiting_run(name, str(version)), "status": {"startTime": BEGUN}}


async def _start(cluster: _Queued, pool: WorkerPool, names: list[str]) -> None:
    """Let one run measure and the others wait, each with its position."""
    pool.run_changed(None, _measuring("head", 1))
    for name in names:
        pool.run_changed(None, waiting_run(name))
    pool.runs_listed(frozenset(f"uid-{name}" for name in ["head", *names]))
    await until(lambda: cluster.plans().keys() >= {"head", *names}, "a plan of each run")
    await rest()


async def _planned(cluster: _Queued, name: str, count: int) -> None:
    """Wait for so many plans of a run, and let everything else happen that is due."""
    await until(lambda: cluster.plans()[name] >= count, f"plan {count} of {name}")
    await rest()


@pytest.fixture
def no_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Handle each change at once: what comes together is not gathered."""
    monkeypatch.setattr(worker_pool, "_GATHER_SECONDS", 0.0)
    monkeypatch.setattr(run_queue, "_QUIET_SECONDS", 0.0)


@pytest.mark.parametrize("count", [10, 100])
def test_a_queued_run_costs_one_plan_while_others_only_change(count: int) -> None:
    """Neither events of the run that measures nor runs that come behind wake those that wait."""

    async def work() -> None:
        cluster, names = _Queued(), _names(count)
        async with a_pool(cluster, _decide, clock=lambda: 0.0, slots=1) as (pool, _):
            await _start(cluster, pool, names)
            assert set(cluster.plans().values()) == {1}
            for number in range(_CHANGES):
                pool.run_changed("MODIFIED", _measuring("head", 2 + number))
                await _planned(cluster, "head", 2 + 2 * number)
                pool.child_changed(ChildChange("MODIFIED", "Job", "uid-head"))
                await _planned(cluster, "head", 3 + 2 * number)
                pool.run_changed("ADDED", waiting_run(f"s{number:03}"))
                await _planned(cluster, f"s{number:03}", 1)
            assert {cluster.plans()[name] for name in names} == {1}
            assert cluster.read == []

    asyncio.run(work())


@pytest.mark.parametrize("count", [10, 100])
def test_a_queued_run_costs_one_plan_more_when_several_end(count: int) -> None:
    """In one minute: its position is reported twice at most, and then it begins."""

    async def work() -> None:
        cluster, names = _Queued(), _names(count)
        async with a_pool(cluster, _decide, clock=lambda: 0.0, slots=1) as (pool, _):
            await _start(cluster, pool, names)
            for ended, begins in zip(["head", *names], names[:_ENDS], strict=False):
                before = cluster.plans()[begins]
                pool.run_changed("DELETED", _measuring(ended, 9))
                await _planned(cluster, begins, before + 1)
            plans = cluster.plans()
            assert {plans[name] for name in names[_ENDS:]} <= {1, 2}
            assert max(plans[name] for name in names) <= 4
            assert cluster.read == []

    asyncio.run(work())


@pytest.mark.parametrize("count", [10, 100])
def test_queued_runs_that_fail_to_begin_pause_before_they_try_again(count: int) -> None:
    """While the API server refuses each begin, each costs one attempt and one read per pause."""

    class Refusing(_Queued):
        @override
        async def update_status(self, run: Any, plan: Plan) -> Any:
            if plan.status.start_time is not None and run["metadata"]["name"] != "head":
                raise ApiError(500, "InternalError", "etcdserver: no leader")
            return await super().update_status(run, plan)

    async def work() -> None:
        cluster, names = Refusing(), _names(count)
        cluster.stored = {name: waiting_run(name) for name in names}
        async with a_pool(cluster, _decide, clock=lambda: 0.0, slots=1) as (pool, _):
            await _start(cluster, pool, names)
            pool.run_changed("DELETED", _measuring("head", 9))
            for name in names:
                await _planned(cluster, name, 2)
            await rest()
            assert {cluster.plans()[name] for name in names} <= {2, 3}
            assert max(Counter(cluster.read).values()) == 1

    with capture_logs():
        asyncio.run(work())


def _names(count: int) -> list[str]:
    return [f"r{number:03}" for number in range(count)]


pytestmark = pytest.mark.usefixtures(no_quiet.__name__)
