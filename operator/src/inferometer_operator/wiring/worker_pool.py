"""The pool of workers: one for each run."""

import asyncio

import structlog

from inferometer_api.plan.cluster_objects import RUN_UID_LABEL
from inferometer_operator.cluster.child_watch import ChildChange
from inferometer_operator.reconcile.observed import Json
from inferometer_operator.wiring.run_queue import RunQueue
from inferometer_operator.wiring.worker import Dependencies, Worker

_RELIST_SECONDS = 10.0
"""How long a new list of runs takes to arrive; then the runs that it lacked are looked at."""
_RUNS_PER_PASS = 50
"""Reading a run with many scenarios takes milliseconds, and the Lease must be renewed meanwhile."""
_log = structlog.get_logger()


class WorkerPool:
    """One worker for each run, woken by each event of the run or its children."""

    def __init__(self, dependencies: Dependencies) -> None:
        self._dependencies = dependencies
        self._workers: dict[str, Worker] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._stopped = False
        self._missing: set[str] = set()
        """UIDs of runs that the current list has not shown yet."""
        self._queue = RunQueue(dependencies.settings.max_concurrent_runs, self._wake)

    async def start(self) -> None:
        """List every run, then start the workers: none is admitted before all are known."""
        runs = await self._dependencies.reader.list_runs(self._dependencies.settings.namespace)
        for number, run in enumerate(runs):
            if number % _RUNS_PER_PASS == 0:
                await asyncio.sleep(0)
            self._update(run)
        for run in runs:
            self._start_worker(run)
        self._dependencies.stats.runs_listed = True
        _log.info("runs_listed", count=len(runs))

    def run_changed(self, kind: str | None, run: Json) -> None:
        """Handle an event of a run; `kind` is the watch's type, None for an initial list."""
        uid = run["metadata"]["uid"]
        self._missing.discard(uid)
        if kind == "DELETED":
            self._dependencies.stats.remove_run(uid)
            self._wake(uid)
            return
        self._update(run)
        worker = self._workers.get(uid)
        if worker is not None:
            worker.run_changed(run)
        else:
            self._start_worker(run)

    def runs_relisted(self) -> None:
        """Handle the start of a new list: a run that it does not show is gone."""
        self._missing = set(self._workers)
        asyncio.get_running_loop().call_later(_RELIST_SECONDS, self._wake_missing)

    def child_changed(self, change: ChildChange) -> None:
        """Handle an event of a child."""
        self._wake((change.metadata.get("labels") or {}).get(RUN_UID_LABEL, ""))

    async def stop(self) -> None:
        """Cancel all workers and start no more; the cluster holds all state."""
        self._stopped = True
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _update(self, run: Json) -> None:
        self._queue.update(run)
        self._dependencies.stats.update_run(run)

    def _wake_missing(self) -> None:
        for uid in self._missing:
            self._wake(uid)
        self._missing = set()

    def _wake(self, uid: str) -> None:
        worker = self._workers.get(uid)
        if worker is not None:
            worker.wake()

    def _start_worker(self, run: Json) -> None:
        if self._stopped:
            # The watches end after the workers, and the next leader may work by then.
            return
        uid = run["metadata"]["uid"]
        worker = Worker(self._dependencies, self._queue, run)
        task = asyncio.create_task(worker.run(), name=f"run {uid}")
        self._workers[uid], self._tasks[uid] = worker, task
        task.add_done_callback(lambda _: self._remove_worker(uid))

    def _remove_worker(self, uid: str) -> None:
        del self._workers[uid], self._tasks[uid]
