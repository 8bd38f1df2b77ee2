"""A fake reader, writer, observer and executor for the worker of one run."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from structlog.testing import capture_logs

from inferometer_api.status.run_status import RunStatus
from inferometer_operator.reconcile.conditions import read_status
from inferometer_operator.reconcile.observed import Observed
from inferometer_operator.reconcile.plan import DeletionTarget, Plan
from inferometer_operator.settings import Settings
from inferometer_operator.wiring import reconciler, run_failures, stop_request, worker
from inferometer_operator.wiring.dependencies import Dependencies
from inferometer_operator.wiring.ownership import Ownership
from inferometer_operator.wiring.reconciler import RunGoneError
from inferometer_operator.wiring.run_queue import RunQueue
from inferometer_operator.wiring.worker import Worker
from support.waiting import until

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
BEGUN = "2026-01-31T12:00:00Z"
SETTINGS = Settings.model_validate({"images": {"serving": "a", "servingGpu": "b", "loadgen": "c"}})


class PlayedCluster:
    """One run, its children, and what fails."""

    def __init__(self) -> None:
        self.run: dict[str, Any] | None = {
            "metadata": {"name": "a", "namespace": "ns", "uid": "u", "resourceVersion": "1"}
        }
        self.reads = 0
        self.written: list[RunStatus] = []
        self.faults: list[Exception] = []
        self.pods_left = 0
        self.removed: list[tuple[str, str, str]] = []
        self.answers: list[bool] = []
        """The load generator's answers to stop requests, one after another."""
        self.asked_to_stop = 0
        self.room = asyncio.Semaphore(1)
        self.observed_pods: tuple[dict[str, Any], ...] = ()
        self.absent: set[str] = set()
        """Names of children that are not there."""
        self.looks = 0
        """How often the run was observed."""
        self.written_by: Worker | None = None
        """The worker that gets an event for each write, as from a watch."""
        self.news = asyncio.Event()
        """Set by what makes a pool let the worker work."""

    async def get(self, *_: str) -> dict[str, Any] | None:
        """Return the run, or fail."""
        self.reads += 1
        if self.faults:
            raise self.faults.pop(0)
        return self.run

    async def get_child(self, kind: str, _namespace: str, name: str, uid: str) -> Any:
        """Return each child until it is deleted."""
        target = (kind, name, f"{uid}-{kind}/{name}")
        if target in self.removed or name in self.absent:
            return None
        return {"kind": kind, "metadata": {"name": name, "uid": target[2]}}

    async def delete(self, _: str, target: DeletionTarget) -> None:
        """Delete a child."""
        self.removed.append((target.kind, target.name, target.uid))

    def list_pods(self, *_: str) -> tuple[dict[str, Any], ...]:
        """Return one pod fewer each time."""
        self.pods_left -= 1
        return ({},) * max(0, self.pods_left)

    async def observe(self, _run: Any, turn: Any, _polled: Any) -> Observed:
        """Return that there are these pods, and nothing else, or fail."""
        self.looks += 1
        if self.faults:
            raise self.faults.pop(0)
        return Observed(queue_position=turn, pods=self.observed_pods)

    async def apply_status(self, run: dict[str, Any], status: RunStatus) -> dict[str, Any]:
        """Write the status, and deliver the event as a watch does."""
        self.written.append(status)
        version = str(int(run["metadata"]["resourceVersion"]) + 1)
        self.run = {
            **(self.run or run),
            "metadata": {**run["metadata"], "resourceVersion": version},
            "status": status.model_dump(mode="json", exclude_none=True),
        }
        if self.written_by is not None:
            asyncio.get_running_loop().call_soon(self._deliver, self.written_by)
        return self.run

    def _deliver(self, worker: Worker) -> None:
        assert self.run is not None
        if worker.hear(self.run):
            self.news.set()

    async def update_status(self, run: dict[str, Any], plan: Plan) -> dict[str, Any]:
        """Write the status where it differs."""
        return run if plan.status == read_status(run) else await self.apply_status(run, plan.status)

    async def create_children(self, *_: Any) -> bool:
        """Make nothing."""
        return False

    async def report_workload(self, *_: Any) -> None:
        """Report nothing."""

    async def delete_targets(self, _run: Any, plan: Plan) -> None:
        """Delete what a plan deletes."""
        for target in plan.delete:
            await self.delete("", target)

    async def stop_load(self, *_: Any) -> bool:
        """Return whether it will stop."""
        self.asked_to_stop += 1
        return self.answers.pop(0)


def a_worker(
    cluster: PlayedCluster,
    decide: Callable[..., Plan],
    wake: Callable[[str, float], None] = lambda *_: None,
    queue: RunQueue | None = None,
) -> tuple[Worker, RunQueue]:
    """Return a worker of the cluster's run, and its queue: one of one slot, unless it is given."""
    dependencies = Dependencies(
        make_plan=decide,
        settings=SETTINGS,
        reader=cluster,  # type: ignore[arg-type]  # plays it
        writer=cluster,  # type: ignore[arg-type]  # plays it
        observer=cluster,  # type: ignore[arg-type]  # plays it
        executor=cluster,  # type: ignore[arg-type]  # plays it
        ownership=Ownership(cluster),  # type: ignore[arg-type]  # plays it
        now=lambda: NOW,
        result_slot=cluster.room,
    )
    queue = queue or RunQueue(1, wake)
    assert cluster.run is not None
    queue.update(cluster.run)
    return Worker(dependencies, queue, cluster.run), queue


async def attend(worker: Worker, news: asyncio.Event) -> None:
    """Let a worker work whenever something is due, as a pool does, until its run is no more."""
    while True:
        try:
            pause = await worker.work()
        except RunGoneError:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await news.wait()
        news.clear()


def worked(worker: Worker, true: Callable[[], bool], cluster: PlayedCluster | None = None) -> None:
    """Let a worker work until something is true, or its run is no more."""

    async def work() -> None:
        news = asyncio.Event() if cluster is None else cluster.news
        task = asyncio.create_task(attend(worker, news))
        await until(lambda: true() or task.done(), "the state of the played cluster")
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(work())


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Wait for nothing, and keep what is logged."""
    for module, names in (
        (run_failures, ("_FIRST_PAUSE_SECONDS",)),
        (reconciler, ("_BUSY_PAUSE_SECONDS", "_SLOT_SECONDS", "LOOK_SECONDS")),
        (reconciler, ("STOP_REQUEST_SECONDS",)),
        (stop_request, ("STOP_REQUEST_SECONDS",)),
        (worker, ("LOOK_SECONDS",)),
    ):
        for name in names:
            monkeypatch.setattr(module, name, 0.001)
    with capture_logs():
        yield
