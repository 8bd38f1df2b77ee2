"""The worker of one run: observe, decide, act, and retry after failures."""

import asyncio
import dataclasses
import secrets
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

import structlog

from inferometer_api.plan.cluster_objects import load_name
from inferometer_api.plan.deadlines import GONE_SECONDS
from inferometer_operator.cluster.errors import ApiError, UnreachableError
from inferometer_operator.cluster.lease import LeaseLostError
from inferometer_operator.cluster.reader import Reader
from inferometer_operator.cluster.server_clock import local_time
from inferometer_operator.cluster.writer import Writer
from inferometer_operator.reconcile.conditions import is_true, read_status
from inferometer_operator.reconcile.observed import Json, Observed
from inferometer_operator.reconcile.plan import Plan
from inferometer_operator.reconcile.pods import master_pod
from inferometer_operator.reconcile.result_state import is_collected
from inferometer_operator.settings import Settings
from inferometer_operator.wiring.abort import aborted_status, delete_children
from inferometer_operator.wiring.observer import (
    LOOK_SECONDS,
    Observer,
    RunMemory,
    load_pods,
    running_address,
)
from inferometer_operator.wiring.operator_stats import OperatorStats
from inferometer_operator.wiring.ownership import LOOK_SECONDS as OWNER_SECONDS
from inferometer_operator.wiring.ownership import Ownership, left_event
from inferometer_operator.wiring.plan_executor import PlanExecutor, Refusals
from inferometer_operator.wiring.result_download import ResultDownload
from inferometer_operator.wiring.run_log import log_changes
from inferometer_operator.wiring.run_queue import RunQueue
from inferometer_operator.wiring.status_memory import StatusMemory

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.5, 30.0
_SLOT_SECONDS = 1.0
"""How often to look whether another run still holds its result in memory."""
_MAX_INTERNAL_ERRORS = 6
"""Internal errors at one place in a row, over half a minute, before the run is aborted."""
_MAX_ROUNDS = 10
_NEVER = float("inf")
_STOP_REQUEST_SECONDS = 2.0

_log = structlog.get_logger()


class Planner(Protocol):
    """The pure decision of `reconcile`."""

    def __call__(
        self, run: Json, observed: Observed, settings: Settings, now: datetime, token: str
    ) -> Plan:
        """Return what to do for the run now."""
        ...


@dataclass(frozen=True, slots=True)
class Dependencies:
    """What a worker needs: the decision, the cluster, the clocks."""

    make_plan: Planner
    settings: Settings
    reader: Reader
    writer: Writer
    observer: Observer
    executor: PlanExecutor
    ownership: Ownership
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], datetime] = local_time
    """The API server's time."""
    stats: OperatorStats = field(default_factory=OperatorStats)
    result_slot: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(1))
    """One run at a time holds its result in memory."""


class RunGoneError(Exception):
    """The run no longer exists."""


class Worker:
    """Reconciles one run, one step at a time; a pool says when.

    It holds the newest version of the run that was heard, read or written.
    """

    def __init__(self, dependencies: Dependencies, queue: RunQueue, run: Json) -> None:
        metadata = run["metadata"]
        self.uid: str = metadata["uid"]
        self._namespace: str = metadata["namespace"]
        self._name: str = metadata["name"]
        self._dependencies = dependencies
        self._queue = queue
        self._memory = RunMemory()
        self._refusals = Refusals()
        self._result = ResultDownload(dependencies.result_slot)
        self._status = StatusMemory(run, dependencies.clock)
        self._heard = run
        """The run as the watch delivered it last: a plan that is at work goes by what it read."""
        self._is_stale = False
        """Whether the run is to be read before the next plan."""
        self._due = 0.0
        """When to reconcile the run next, unless something happens."""
        self._deleting_since: float | None = None
        self._gone_at: float | None = None
        self._load_address: str | None = None
        """The load generator's address, polled between the rounds."""
        self._token = secrets.token_urlsafe(24)
        self._other_operator = ""
        """The operator that the run is left to."""
        self._stop_requested_at: float | None = None
        self._stops = False
        self._failures = 0
        self._internal_error: object = None
        """Type and place of the last internal error."""
        self._internal_errors = 0
        self._log = _log.bind(namespace=self._namespace, run=self._name, uid=self.uid)

    @property
    def run(self) -> Json:
        """The run as it was read or written last."""
        return self._status.stored

    @property
    def is_gone(self) -> bool:
        """Whether the run no longer exists."""
        return self._gone_at is not None

    @property
    def is_over(self) -> bool:
        """Whether the run is finished, and nothing but its expiry is left to do."""
        return (
            not self._failures
            and not self._status.is_refused
            and is_true(read_status(self._status.stored), "Finished")
        )

    def wake(self) -> None:
        """Reconcile the run at the next step, whenever it was due."""
        self._due = 0.0

    def hear(self, run: Json) -> bool:
        """Take in an event of the run; return whether this worker did not know of it."""
        if version(run) <= max(version(self._status.stored), version(self._heard)):
            return False
        self._heard = run
        self.wake()
        return True

    def hear_deletion(self) -> None:
        """Take in that the run no longer exists."""
        if self._gone_at is None:
            self._gone_at = self._dependencies.clock()
            self._log.info("run_gone")
        self._dependencies.stats.remove_run(self.uid)
        self.drop()

    def drop(self) -> None:
        """Let other runs hold their results."""
        self._result.drop()

    async def work(self) -> float | None:
        """Do what is due; return in how many seconds something is, None: after an event.

        Raises RunGoneError once the run and its pods are gone.
        """
        clock = self._dependencies.clock
        if self._gone_at is None and not (self._load_address is not None and clock() < self._due):
            await self._reconcile_and_rest()
        elif self._gone_at is None and self._load_address is not None:
            observer = self._dependencies.observer
            if clock() >= self._memory.due and await observer.poll(
                self._load_address, self._memory
            ):
                await self._reconcile_and_rest()
        if self._gone_at is not None:
            return self._wait_for_pods(self._gone_at)
        due = self._due
        if self._load_address is not None:
            due = min(due, self._memory.due)
        return max(0.0, due - clock()) if due < _NEVER else None

    async def _reconcile_and_rest(self) -> None:
        # A deletion or an event that comes meanwhile makes it due at once.
        self._due, self._load_address = _NEVER, None
        try:
            pause = await self._reconcile_safely()
        except RunGoneError:
            self.hear_deletion()
            return
        self._result.release(pause)
        if pause is not None:
            self._due = min(self._due, self._dependencies.clock() + pause)

    def _wait_for_pods(self, gone_at: float) -> float:
        """Keep the slot of a deleted run until its pods are gone: they would disturb the next."""
        waits = (
            self._queue.is_admitted(self.uid)
            and self._dependencies.clock() < gone_at + GONE_SECONDS
            and self._dependencies.reader.list_pods(self._namespace, self.uid)
        )
        if not waits:
            raise RunGoneError
        return LOOK_SECONDS

    async def _reconcile_safely(self) -> float | None:
        """Reconcile once, whatever happens; return in how many seconds to reconcile again."""
        pause: float | None
        try:
            pause = await self._reconcile()
        except (ApiError, UnreachableError) as error:
            pause = self._handle_api_error(error)
            if isinstance(error, ApiError) and error.conflict:
                # The run has only changed: it keeps its slot.
                return pause
        except (RunGoneError, LeaseLostError):
            raise
        except Exception as error:  # noqa: BLE001 - an error at one run must not end the others
            pause = await self._handle_internal_error(error)
        else:
            self._failures = self._internal_errors = 0
            return pause
        await self._defer_if_not_begun()
        return pause

    async def _defer_if_not_begun(self) -> None:
        """Pass an unused slot to the next run, once it is certain that this one has not begun."""
        if self._queue.has_claim(self.uid):
            try:
                run = await self._read()
            except (ApiError, UnreachableError) as error:
                self._log.warning("api_request_failed", error=str(error))
            else:
                if read_status(run).start_time is None:
                    self._queue.defer(self.uid)

    def _handle_api_error(self, error: ApiError | UnreachableError) -> float:
        self._failures += 1
        self._is_stale = True
        retry_after = error.retry_after_seconds if isinstance(error, ApiError) else None
        pause = max(retry_after or 0.0, self._backoff())
        if isinstance(error, ApiError) and error.conflict:
            self._log.info("conflict", error=str(error), retry_in_seconds=pause)
        else:
            self._log.warning("api_request_failed", error=str(error), retry_in_seconds=pause)
        return pause

    async def _handle_internal_error(self, error: Exception) -> float | None:
        self._failures += 1
        self._is_stale = True
        place = traceback.extract_tb(error.__traceback__)[-1]
        key = (type(error), place.filename, place.lineno)
        self._internal_errors = self._internal_errors + 1 if key == self._internal_error else 1
        self._internal_error = key
        self._log.exception("reconcile_failed", failures=self._internal_errors)
        if self._internal_errors >= _MAX_INTERNAL_ERRORS:
            try:
                await self._abort(error)
            except (ApiError, UnreachableError) as api_error:
                self._log.warning("api_request_failed", error=str(api_error))
            else:
                return None
        return self._backoff()

    def _backoff(self) -> float:
        pause: float = _FIRST_PAUSE_SECONDS * 2 ** min(self._failures - 1, 10)
        return min(pause, _LONGEST_PAUSE_SECONDS)

    async def _abort(self, error: Exception) -> None:
        """Fail a run that no plan can be made for, and delete its children."""
        run = await self._read()
        if is_true(read_status(run), "Finished"):
            return
        await delete_children(self._dependencies.reader, self._dependencies.writer, run)
        status = aborted_status(run, error, self._dependencies.now())
        await self._write_status(Plan(status))
        self._result.done = True

    async def _read(self) -> Json:
        run: Json | None = await self._dependencies.reader.get(
            "BenchmarkRun", self._namespace, self._name
        )
        if run is None or run["metadata"]["uid"] != self.uid:
            raise RunGoneError
        self._is_stale = False
        run = self._status.recall(run)
        self._update(run)
        return run

    async def _write_status(self, plan: Plan) -> Json:
        """Write the status of a plan; return the run as it goes on, whatever is refused."""
        before, own = read_status(self._status.recalled()), self._dependencies.ownership.own
        if own and not is_true(before, "Finished"):
            taken = plan.status.model_copy(update={"operator": own})
            plan = dataclasses.replace(plan, status=taken)
        run = await self._status.write(self._dependencies.executor, plan)
        log_changes(self._log, before, read_status(run))
        self._update(run)
        if self._status.is_refused and is_true(read_status(run), "Finished"):
            # The API server may never show it.
            self._queue.deactivate(self.uid)
        return run

    def _update(self, run: Json) -> None:
        self._queue.update(run)
        self._dependencies.stats.update_run(run)

    async def _reconcile(self) -> float | None:
        """Observe, plan and act until nothing is left to do at once."""
        if self._is_stale:
            run = await self._read()
        elif version(self._heard) > version(self._status.stored):
            run = self._status.recall(self._heard)
        else:
            run = self._status.recalled()
        if await self._is_left(run):
            return OWNER_SECONDS
        if run["metadata"].get("deletionTimestamp"):
            return await self._end_deleted(run)
        for _ in range(_MAX_ROUNDS):
            began = self._dependencies.clock()
            position = self._queue.position(self.uid)
            observed = await self._dependencies.observer.observe(run, position, self._memory)
            plan, observed = await self._make_plan(run, observed)
            run, again = await self._carry_out(run, observed, plan)
            self._dependencies.stats.reconcile_durations.observe(self._dependencies.clock() - began)
            if not again:
                return self._pause(run, observed, plan)
        return _FIRST_PAUSE_SECONDS

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
        self._result.done = True
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

    async def _make_plan(self, run: Json, observed: Observed) -> tuple[Plan, Observed]:
        observed = dataclasses.replace(
            observed, refused=dict(self._refusals.by_child), downloaded=self._result.found
        )
        plan = self._plan(run, observed)
        is_due = self._result.is_due and self._refusals.all_due(self._dependencies.now())
        if plan.download is not None and self._result.must_wait:
            # Other runs need this task of the pool meanwhile.
            plan = dataclasses.replace(plan, look_again_seconds=_SLOT_SECONDS)
        elif plan.download is not None and is_due:
            pod = next(pod for pod in observed.pods if pod["metadata"]["name"] == plan.download)
            await self._result.download(self._dependencies.reader, pod)
            observed = dataclasses.replace(observed, downloaded=self._result.found)
            # This plan packs the result: in a thread, so that the event loop continues.
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
        plan = self._status.guarded(plan, load_name(self._name))
        news = await executor.create_children(run, plan, self._refusals)
        await executor.report_workload(run, plan)
        await executor.delete_targets(run, plan)
        if plan.stop is not None:
            await self._request_stop(plan.stop, observed)
        status = read_status(run)
        self._result.done = is_collected(status) or is_true(status, "Finished")
        # The new status may change the next plan, and the worker's own write is no event.
        return run, news or began != (status.start_time is not None)

    async def _request_stop(self, pod: str, observed: Observed) -> None:
        now = self._dependencies.clock()
        at = self._stop_requested_at
        if not self._stops and (at is None or now >= at + _STOP_REQUEST_SECONDS):
            self._stop_requested_at = now
            self._stops = await self._dependencies.executor.stop_load(pod, observed)
            if not self._stops:
                self._log.warning("stop_request_failed", pod=pod)

    def _pause(self, run: Json, observed: Observed, plan: Plan) -> float | None:
        """Return in how many seconds to reconcile again; None: only an event can change the run."""
        status = read_status(run)
        pauses = [
            plan.look_again_seconds,
            self._refusals.next_seconds(self._dependencies.now()),
            self._result.next_seconds,
            self._status.next_seconds,
        ]
        if plan.stop is not None and not self._stops:
            # The load generator may not listen yet.
            pauses.append(_STOP_REQUEST_SECONDS)
        if status.start_time is not None and not is_true(status, "Finished"):
            load = master_pod(load_pods(observed.pods))
            self._load_address = None if load is None else running_address(load)
            if not is_true(status, "Measuring"):
                pauses.append(LOOK_SECONDS)
        return min((pause for pause in pauses if pause is not None), default=None)


def version(run: Json) -> int:
    """Return the resourceVersion of a run as a number: it grows with each change."""
    return int(run["metadata"].get("resourceVersion") or 0)
