"""The pool that works on runs: a few tasks for any number of runs."""

import asyncio
from dataclasses import dataclass

import structlog

from inferometer_operator.cluster.child_watch import ChildChange
from inferometer_operator.cluster.errors import ApiError, ApiUnreachableError
from inferometer_operator.reconcile.children import CHILD_KINDS, KINDS_WITH_PODS, POD, QUOTA_KIND
from inferometer_operator.reconcile.expiry import expires_at
from inferometer_operator.reconcile.observed import Json
from inferometer_operator.reconcile.times import seconds_until
from inferometer_operator.wiring.dependencies import Dependencies
from inferometer_operator.wiring.observer import LOOK_SECONDS
from inferometer_operator.wiring.reconciler import RunGoneError, version
from inferometer_operator.wiring.run_queue import RunQueue
from inferometer_operator.wiring.sweep import keep_swept
from inferometer_operator.wiring.work_queue import WorkQueue
from inferometer_operator.wiring.worker import Worker

_TASKS = 16
"""Steps at a time: most of a step waits for the API server."""
_GATHER_SECONDS = 0.05
"""Events come in bursts: one step handles them together."""
_RETRY_SECONDS = 30.0
_MAX_GONE = 1000
_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _FinishedRun:
    """A run that is left until it expires."""

    namespace: str
    name: str
    version: int


class WorkerPool:
    """A worker for each run that is not finished, and a time for each that is."""

    def __init__(self, dependencies: Dependencies) -> None:
        self._dependencies = dependencies
        self._workers: dict[str, Worker] = {}
        self._finished: dict[str, _FinishedRun] = {}
        self._gone: dict[str, None] = {}
        """UIDs of runs that no longer exist, in order: an older event may still come."""
        self._work = WorkQueue(self._is_urgent, dependencies.clock)
        self._moved = asyncio.Event()
        self.queue = RunQueue(
            dependencies.settings.max_concurrent_runs,
            self._work.add,
            dependencies.clock,
            self._moved.set,
        )
        self._listed = asyncio.Event()

    async def run(self) -> None:
        """Work until cancelled; to be called once the children are known.

        No run is admitted before all are known.
        """
        await self._listed.wait()
        # What is left of a finished run may disturb the others, or hold their quota.
        for uid in self._dependencies.reader.children.run_uids(*KINDS_WITH_PODS, POD, QUOTA_KIND):
            if uid in self._finished:
                self._work.add(uid)
        room = asyncio.Semaphore(_TASKS)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._dependencies.stats.read_finished())
            group.create_task(self._keep_positions())
            group.create_task(self._keep_swept())
            while True:
                await room.acquire()
                task = group.create_task(self._step(await self._work.get()))
                task.add_done_callback(lambda _: room.release())

    def run_changed(self, kind: str | None, run: Json) -> None:
        """Handle an event of a run; `kind` is the watch's type, None while all are listed."""
        uid = run["metadata"]["uid"]
        if kind == "DELETED":
            self._run_gone(uid)
            return
        worker = self._workers.get(uid)
        if self._is_stale(run) or (worker is not None and not worker.hear(run)):
            return
        self._dependencies.stats.update_run(run)
        self.queue.update(run)
        if worker is not None:
            self._work.add(uid, _GATHER_SECONDS)
        elif (due := expires_at(run, self._dependencies.settings)) is not None:
            self._leave(run)
            self._work.add(uid, seconds_until(self._dependencies.now(), due) or 0.0)
        else:
            self._workers[uid] = Worker(self._dependencies, self.queue, run)
            self._work.add(uid, _GATHER_SECONDS)

    def _is_stale(self, run: Json) -> bool:
        """Return whether a run that is finished or gone is heard of as it was before."""
        uid = run["metadata"]["uid"]
        finished = self._finished.get(uid)
        return uid in self._gone or (finished is not None and version(run) <= finished.version)

    def runs_listed(self, uids: frozenset[str]) -> None:
        """Handle the end of a list of all runs: those that it lacks are gone."""
        for uid in (self._workers.keys() | self._finished.keys()) - uids:
            self._run_gone(uid)
        if not self._listed.is_set():
            self._listed.set()
            self._dependencies.stats.runs_listed = True
            _log.info("runs_listed", count=len(uids))

    def child_changed(self, change: ChildChange) -> None:
        """Handle an event of a child."""
        worker = self._workers.get(change.run_uid)
        if worker is not None:
            worker.wake()
            self._work.add(change.run_uid, _GATHER_SECONDS)
        elif change.run_uid in self._finished and change.type != "DELETED":
            self._work.add(change.run_uid, LOOK_SECONDS)

    async def _keep_swept(self) -> None:
        """Delete what is left of runs that no longer exist."""
        own = self._dependencies
        await keep_swept(
            own.reader.connection, own.writer, own.settings.namespace, self._unknown_runs
        )

    def _unknown_runs(self) -> set[str]:
        """Return the UIDs of runs that have children, but are not known to exist."""
        there = {uid for uid, worker in self._workers.items() if not worker.is_gone}
        return (
            self._dependencies.reader.children.run_uids(*CHILD_KINDS) - there - set(self._finished)
        )

    async def _keep_positions(self) -> None:
        """Wake waiting runs whose position is another one."""
        again: float | None = None
        while True:
            try:
                async with asyncio.timeout(again):
                    await self._moved.wait()
            except TimeoutError:
                pass
            await asyncio.sleep(_GATHER_SECONDS)
            self._moved.clear()
            again = self.queue.wake_moved()

    async def _step(self, uid: str) -> None:
        """Do what is due for a run, and note when something is again."""
        try:
            worker = self._workers.get(uid) or await self._taken_up(uid)
            if worker is None:
                return
            pause = await worker.work()
            if worker.is_over:
                self._leave(worker.run)
            if pause is not None:
                self._work.add(uid, pause)
        except RunGoneError:
            self._forget(uid)
        except (ApiError, ApiUnreachableError) as error:
            _log.warning("api_request_failed", uid=uid, error=str(error))
            self._work.add(uid, _RETRY_SECONDS)
        finally:
            self._work.done(uid)

    async def _taken_up(self, uid: str) -> Worker | None:
        """Return a worker of a finished run: it has expired, or something is left of it."""
        finished = self._finished.get(uid)
        if finished is None:
            return None
        reader = self._dependencies.reader
        run = await reader.get("BenchmarkRun", finished.namespace, finished.name)
        if run is None or run["metadata"]["uid"] != uid:
            raise RunGoneError
        self._finished.pop(uid, None)
        self._workers[uid] = Worker(self._dependencies, self.queue, run)
        return self._workers[uid]

    def _leave(self, run: Json) -> None:
        """Keep no more of a finished run than its name."""
        metadata = run["metadata"]
        worker = self._workers.pop(metadata["uid"], None)
        if worker is not None:
            worker.drop()
        self._finished[metadata["uid"]] = _FinishedRun(
            metadata["namespace"], metadata["name"], version(run)
        )

    def _run_gone(self, uid: str) -> None:
        worker = self._workers.get(uid)
        if worker is None:
            self._forget(uid)
        else:
            worker.hear_deletion()
            self._work.add(uid)

    def _forget(self, uid: str) -> None:
        worker = self._workers.pop(uid, None)
        if worker is not None:
            worker.drop()
        self._finished.pop(uid, None)
        self._gone[uid] = None
        if len(self._gone) > _MAX_GONE:
            del self._gone[next(iter(self._gone))]
        self._work.discard(uid)
        self.queue.remove(uid)
        self._dependencies.ownership.forget(uid)
        self._dependencies.stats.remove_run(uid)

    def _is_urgent(self, uid: str) -> bool:
        return self.queue.is_admitted(uid)
