"""The reconciliation of one run: observe, decide, act."""

import asyncio
import dataclasses
import secrets
from collections.abc import Mapping
from typing import Any

from inferometer_api.plan.deadlines import GONE_SECONDS
from inferometer_operator.cluster.results_client import ResultsClient
from inferometer_operator.manifests.owner import Owner
from inferometer_operator.reconcile.children import deletion_targets
from inferometer_operator.reconcile.conditions import is_decided, is_true, read_status
from inferometer_operator.reconcile.observed import ChildRole, Json, Observed
from inferometer_operator.reconcile.plan import Plan
from inferometer_operator.reconcile.pods import is_placed, master_pod, running_address
from inferometer_operator.reconcile.progress import may_wait_seconds
from inferometer_operator.reconcile.result_state import is_collected
from inferometer_operator.wiring.abort import aborted_status, delete_children, find_children
from inferometer_operator.wiring.delivery import ResultDelivery
from inferometer_operator.wiring.dependencies import Dependencies
from inferometer_operator.wiring.observer import (
    LOOK_SECONDS,
    RunMemory,
    awaits_servers,
    load_pods,
)
from inferometer_operator.wiring.ownership import LOOK_SECONDS as OWNER_SECONDS
from inferometer_operator.wiring.ownership import left_event
from inferometer_operator.wiring.plan_executor import Refusals
from inferometer_operator.wiring.result_download import ResultDownload
from inferometer_operator.wiring.run_log import log_changes
from inferometer_operator.wiring.run_queue import RunQueue
from inferometer_operator.wiring.status_memory import StatusMemory
from inferometer_operator.wiring.stop_request import STOP_REQUEST_SECONDS, StopRequest

_BUSY_PAUSE_SECONDS = 0.5
"""Before a run is reconciled again that never comes to rest."""
_SLOT_SECONDS = 1.0
"""How often to look whether another run still holds its result in memory."""
_MAX_ROUNDS = 10


class RunGoneError(Exception):
    """The run no longer exists."""


class Reconciler:
    """Observes one run, decides and acts, and keeps what no watch delivers.

    It holds the newest version of the run that was heard, read or written.
    """

    def __init__(self, dependencies: Dependencies, queue: RunQueue, run: Json, log: Any) -> None:
        metadata = run["metadata"]
        self.uid: str = metadata["uid"]
        self._namespace: str = metadata["namespace"]
        self._name: str = metadata["name"]
        self._dependencies = dependencies
        self._queue = queue
        self.memory = RunMemory()
        self.result = ResultDownload(dependencies.result_slot)
        self.delivery = ResultDelivery(dependencies.now)
        self.status = StatusMemory(run, dependencies.clock)
        self.is_stale = False
        """Whether the run is to be read before the next plan."""
        self.load_address: str | None = None
        """The load generator's address, polled between the rounds."""
        self._refusals = Refusals()
        self._heard = run
        """The run as the watch delivered it last: a plan that is at work goes by what it read."""
        self._deleting_since: float | None = None
        self._token = secrets.token_urlsafe(24)
        self._other_operator = ""
        """The operator that the run is left to."""
        self._stop = StopRequest(dependencies.clock)
        self._log = log

    def hear(self, run: Json) -> bool:
        """Take in an event of the run; return whether it was not known yet."""
        if version(run) <= max(version(self.status.stored), version(self._heard)):
            return False
        self._heard = run
        return True

    async def reconcile(self) -> float | None:
        """Observe, plan and act until nothing is left to do at once."""
        if self.is_stale:
            run = await self.read()
        elif version(self._heard) > version(self.status.stored):
            run = self.status.recall(self._heard)
        else:
            run = self.status.recalled()
        if await self._is_left(run):
            return OWNER_SECONDS
        if run["metadata"].get("deletionTimestamp"):
            return await self._end_deleted(run)
        for _ in range(_MAX_ROUNDS):
            began = self._dependencies.clock()
            position = self._queue.position(self.uid)
            observed = await self._dependencies.observer.observe(run, position, self.memory)
            observed = self._note_nodes(run, observed)
            plan, observed = await self._make_plan(run, observed)
            run, again = await self._carry_out(run, observed, plan)
            self._dependencies.stats.reconcile_durations.observe(self._dependencies.clock() - began)
            if not again:
                return self._pause(run, observed, plan)
        return _BUSY_PAUSE_SECONDS

    async def abort(self, error: Exception) -> None:
        """Fail a run that no plan can be made for, and delete its children.

        The status goes first: what is left of the load shows the next operator that it was created.
        """
        own = self._dependencies
        run = await self.read()
        children = await find_children(own.reader, run)
        plan = Plan(read_status(run), delete=deletion_targets(children))
        if not is_true(plan.status, "Finished"):
            plan = dataclasses.replace(plan, status=aborted_status(run, error, own.now()))
            run = await self._write_status(plan)
        plan = self._guarded(plan, dict(children))
        await own.executor.create_children(run, plan, self._refusals)
        await own.executor.delete_targets(run, plan)
        self.result.done = True

    async def read(self) -> Json:
        """Read the run from the API server; raise RunGoneError if it no longer exists."""
        run: Json | None = await self._dependencies.reader.get(
            "BenchmarkRun", self._namespace, self._name
        )
        if run is None or run["metadata"]["uid"] != self.uid:
            raise RunGoneError
        self.is_stale = False
        run = self.status.recall(run)
        self._update(run)
        return run

    async def _write_status(self, plan: Plan) -> Json:
        """Write the status of a plan; return the run as it goes on, whatever is refused."""
        own, before = self._dependencies, read_status(self.status.recalled())
        if not is_true(before, "Finished"):
            signed = own.ownership.signed(plan.status, own.now())
            is_due = self.status.is_due_after(may_wait_seconds(signed, before))
            plan = dataclasses.replace(plan, status=signed if is_due else before)
        run = await self.status.write(own.executor, plan)
        log_changes(self._log, before, read_status(run))
        self._update(run)
        if self.status.is_refused and is_true(read_status(run), "Finished"):
            # The API server may never show it.
            self._queue.deactivate(self.uid)
        return run

    def _update(self, run: Json) -> None:
        self._queue.update(run)
        self._dependencies.stats.update_run(run)

    async def _is_left(self, run: Json) -> bool:
        """Return whether the run is left to another operator, and report that once."""
        ownership = self._dependencies.ownership
        other = await ownership.other_operator(run)
        if other == self._other_operator:
            return bool(other)
        self._other_operator = other
        if not other:
            self._log.info("run_taken_over", operator=ownership.own)
            self._queue.reactivate(run)
            return False
        self._queue.deactivate(self.uid)
        self._log.info("run_left", operator=other)
        await self._dependencies.writer.create_event(run, left_event(ownership.own, other))
        return True

    async def _end_deleted(self, run: Json) -> float | None:
        """Delete the children of a run that is being deleted: a finalizer may hold it for long."""
        self._queue.release_claim(self.uid)
        self.result.done = True
        if read_status(run).start_time is None:
            # It has no children, but for a Workload that may hold quota.
            await delete_children(self._dependencies.reader, self._dependencies.writer, run)
            return None
        gone = await delete_children(self._dependencies.reader, self._dependencies.writer, run)
        now = self._dependencies.clock()
        if self._deleting_since is None:
            self._deleting_since = now
        if now < self._deleting_since + GONE_SECONDS and (
            not gone or self._dependencies.reader.list_pods(self._namespace, self.uid)
        ):
            return LOOK_SECONDS
        self._queue.deactivate(self.uid)
        return None

    def _note_nodes(self, run: Json, observed: Observed) -> Observed:
        """Note what the run's pods mean for others; return what others mean for its next server."""
        is_awaited = awaits_servers(observed.report)
        self._queue.note_replacement(self.uid, is_awaited=is_awaited)
        is_over = is_decided(read_status(run))
        self._queue.note_placement(self.uid, is_placed=is_over or is_placed(observed.pods))
        if not is_awaited:
            return observed
        # Read only now that no further run is admitted.
        await_nodes = self._queue.others_await_nodes(self.uid)
        position = dataclasses.replace(observed.queue_position, others_await_nodes=await_nodes)
        return dataclasses.replace(observed, queue_position=position)

    async def _make_plan(self, run: Json, observed: Observed) -> tuple[Plan, Observed]:
        observed = dataclasses.replace(
            observed,
            refused=dict(self._refusals.by_child),
            downloaded=self.result.found,
            delivery=self.delivery.last,
        )
        plan = self._plan(run, observed)
        is_due = self.result.is_due and self._refusals.all_due(self._dependencies.now())
        if plan.download is not None and self.result.must_wait:
            # Other runs need this task of the pool meanwhile.
            plan = dataclasses.replace(plan, look_again_seconds=_SLOT_SECONDS)
        elif plan.download is not None and is_due:
            pod = next(pod for pod in observed.pods if pod["metadata"]["name"] == plan.download)
            await self.result.download(self._dependencies.reader, pod)
            observed = dataclasses.replace(observed, downloaded=self.result.found)
            # This plan reads the whole result: in a thread, so that the event loop continues.
            plan = await asyncio.to_thread(self._plan, run, observed)
        return plan, observed

    def _plan(self, run: Json, observed: Observed) -> Plan:
        return self._dependencies.make_plan(
            run, observed, self._dependencies.settings, self._dependencies.now(), self._token
        )

    async def _carry_out(self, run: Json, observed: Observed, plan: Plan) -> tuple[Json, bool]:
        """Carry a plan out; return the run as it is then, and whether to plan again at once."""
        executor = self._dependencies.executor
        began = read_status(run).start_time is not None
        run = await self._write_status(plan)
        if read_status(run).start_time is None:
            self._queue.release_claim(self.uid)
        plan = self._guarded(plan, observed.children)
        news = await executor.create_children(run, plan, self._refusals)
        await executor.report_workload(run, plan)
        await executor.delete_targets(run, plan)
        if plan.handover is not None and not await executor.hand_over(plan.handover, observed):
            repeat = plan.handover.targets.repeat
            self._log.warning("handover_failed", pod=plan.handover.pod, repeat=repeat)
        if plan.stop is not None:
            await self._stop.request(executor, plan.stop, observed)
        if plan.deliver and self._dependencies.results is not None:
            await self._deliver(self._dependencies.results, run)
            news = True
        status = read_status(run)
        self.result.done = is_collected(status) or is_true(status, "Finished")
        # The new status may change the next plan, and the worker's own write is no event.
        return run, news or began != (status.start_time is not None)

    async def _deliver(self, results: ResultsClient, run: Json) -> None:
        """Deliver the result from its ConfigMaps, once what came from the log is forgotten."""
        if self.result.found is None:
            await self.delivery.attempt(results, self._dependencies.reader, run)
        else:
            # This round's observation still holds it.
            self.result.drop()

    def _guarded(self, plan: Plan, children: Mapping[ChildRole, Json | None]) -> Plan:
        owner = Owner(self._name, self._namespace, self.uid)
        return self.status.guarded(plan, owner, children)

    def _pause(self, run: Json, observed: Observed, plan: Plan) -> float | None:
        """Return in how many seconds to reconcile again; None: only an event can change the run."""
        status = read_status(run)
        pauses = [
            plan.look_again_seconds,
            self._refusals.next_seconds(self._dependencies.now()),
            self.result.next_seconds,
            self.status.next_seconds,
            self.delivery.next_seconds,
        ]
        if plan.stop is not None and not self._stop.is_accepted:
            # The load generator may not listen yet.
            pauses.append(STOP_REQUEST_SECONDS)
        if status.start_time is not None and not is_true(status, "Finished"):
            load = master_pod(load_pods(observed.pods))
            self.load_address = None if load is None else running_address(load)
            if not is_true(status, "Measuring"):
                pauses.append(LOOK_SECONDS)
        return min((pause for pause in pauses if pause is not None), default=None)


def version(run: Json) -> int:
    """Return the resourceVersion of a run as a number: it grows with each change."""
    return int(run["metadata"].get("resourceVersion") or 0)
