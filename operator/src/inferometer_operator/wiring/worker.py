"""The worker of one run: observe, decide, act, and retry after failures."""

import asyncio
import dataclasses
import secrets
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

import structlog

from inferometer_api.plan.deadlines import GONE_SECONDS
from inferometer_api.timestamps import parse_time
from inferometer_operator.cluster.errors import ApiError, UnreachableError
from inferometer_operator.cluster.reader import Reader
from inferometer_operator.cluster.writer import Writer
from inferometer_operator.reconcile.conditions import is_true, read_status
from inferometer_operator.reconcile.observed import Json, Observed
from inferometer_operator.reconcile.plan import Plan
from inferometer_operator.reconcile.pods import master_pod
from inferometer_operator.reconcile.times import add_seconds
from inferometer_operator.settings import Settings
from inferometer_operator.wiring.abort import aborted_status, delete_children
from inferometer_operator.wiring.observer import (
    LOOK_SECONDS,
    Observer,
    PolledReport,
    load_pods,
    running_address,
)
from inferometer_operator.wiring.operator_stats import OperatorStats
from inferometer_operator.wiring.plan_executor import PlanExecutor, Refusals
from inferometer_operator.wiring.result_download import ResultDownload
from inferometer_operator.wiring.run_queue import RunQueue

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.5, 30.0
_GATHER_SECONDS = 0.05
"""Events come in bursts: one round handles them together."""
_MAX_INTERNAL_ERRORS = 6
"""Internal errors at one place in a row, over half a minute, before the run is aborted."""
_MAX_ROUNDS = 10
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
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))
    stats: OperatorStats = field(default_factory=OperatorStats)
    result_slot: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(1))
    """One run at a time holds its result in memory."""


class RunGoneError(Exception):
    """The run no longer exists."""


class Worker:
    """Reconciles one run, whenever it is woken or its time has come."""

    def __init__(self, dependencies: Dependencies, queue: RunQueue, run: Json) -> None:
        metadata = run["metadata"]
        self.uid: str = metadata["uid"]
        self._namespace: str = metadata["namespace"]
        self._name: str = metadata["name"]
        self._dependencies = dependencies
        self._queue = queue
        self._woken = asyncio.Event()
        self._polled = PolledReport()
        self._refusals = Refusals()
        self._result = ResultDownload(dependencies.result_slot)
        self._version = ""
        self._load_address: str | None = None
        """The load generator's address, polled between the rounds."""
        self._token = secrets.token_urlsafe(24)
        self._stop_requested_at: float | None = None
        self._stops = False
        self._failures = 0
        self._internal_error: object = None
        """Type and place of the last internal error."""
        self._internal_errors = 0
        self._log = _log.bind(namespace=self._namespace, run=self._name, uid=self.uid)

    def wake(self) -> None:
        """Reconcile the run soon."""
        self._woken.set()

    def run_changed(self, run: Json) -> None:
        """Reconcile the run soon, unless this version was read or written by this worker."""
        if run["metadata"]["resourceVersion"] != self._version:
            self._woken.set()

    async def run(self) -> None:
        """Reconcile the run until it is gone."""
        try:
            while True:
                self._woken.clear()
                self._load_address = None
                pause = await self._reconcile_safely()
                if self._result.done:
                    self._result.drop()
                if await self._wait(pause):
                    await asyncio.sleep(_GATHER_SECONDS)
        except RunGoneError:
            self._log.info("run_gone")
            self._dependencies.stats.remove_run(self.uid)
            self._result.drop()
            await self._wait_for_pods()
        finally:
            self._result.drop()
            self._queue.remove(self.uid)
            self._dependencies.stats.remove_run(self.uid)

    async def _wait(self, pause: float | None) -> bool:
        """Wait for the pause or an event; poll the load generator meanwhile.

        Return whether an event ended the wait.
        """
        clock = self._dependencies.clock
        end = None if pause is None else clock() + pause
        while True:
            due = self._polled.due if self._load_address is not None else None
            until = min((each for each in (end, due) if each is not None), default=None)
            left = None if until is None else max(0.0, until - clock())
            try:
                async with asyncio.timeout(left):
                    await self._woken.wait()
            except TimeoutError:
                if self._load_address is None or (end is not None and clock() >= end):
                    return False
                if await self._dependencies.observer.poll(self._load_address, self._polled):
                    return False
            else:
                return True

    async def _wait_for_pods(self) -> None:
        """Keep the slot of a deleted run until its pods are gone: they would disturb the next."""
        clock = self._dependencies.clock
        end = clock() + GONE_SECONDS
        while self._queue.is_admitted(self.uid) and clock() < end:
            try:
                if not await self._dependencies.reader.list_pods(self._namespace, self.uid):
                    return
            except (ApiError, UnreachableError) as error:
                self._log.warning("api_request_failed", error=str(error))
            await asyncio.sleep(_FIRST_PAUSE_SECONDS)

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
        except RunGoneError:
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
        retry_after = error.retry_after_seconds if isinstance(error, ApiError) else None
        pause = max(retry_after or 0.0, self._backoff())
        if isinstance(error, ApiError) and error.conflict:
            self._log.info("conflict", error=str(error), retry_in_seconds=pause)
        else:
            self._log.warning("api_request_failed", error=str(error), retry_in_seconds=pause)
        return pause

    async def _handle_internal_error(self, error: Exception) -> float | None:
        self._failures += 1
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
        self._update(await self._dependencies.writer.apply_status(run, status))
        self._result.done = True

    async def _read(self) -> Json:
        run: Json | None = await self._dependencies.reader.get(
            "BenchmarkRun", self._namespace, self._name
        )
        if run is None or run["metadata"]["uid"] != self.uid:
            raise RunGoneError
        self._update(run)
        return run

    def _update(self, run: Json) -> None:
        self._version = run["metadata"]["resourceVersion"]
        self._queue.update(run)
        self._dependencies.stats.update_run(run)

    async def _reconcile(self) -> float | None:
        """Observe, plan and act until nothing is left to do at once."""
        run = await self._read()
        if run["metadata"].get("deletionTimestamp"):
            return await self._end_deleted(run)
        for _ in range(_MAX_ROUNDS):
            began = self._dependencies.clock()
            position = self._queue.position(self.uid)
            observed = await self._dependencies.observer.observe(run, position, self._polled)
            plan, observed = await self._make_plan(run, observed)
            run, again = await self._carry_out(run, observed, plan)
            self._dependencies.stats.reconcile_durations.observe(self._dependencies.clock() - began)
            if not again:
                return self._pause(run, observed, plan)
        return _FIRST_PAUSE_SECONDS

    async def _end_deleted(self, run: Json) -> float | None:
        """Delete the children of a run that is being deleted: a finalizer may hold it for long."""
        self._queue.release_claim(self.uid)
        self._result.done = True
        if read_status(run).start_time is None:
            return None
        gone = await delete_children(self._dependencies.reader, self._dependencies.writer, run)
        now = self._dependencies.now()
        since = parse_time(run["metadata"]["deletionTimestamp"]) or now
        if now < add_seconds(since, GONE_SECONDS) and (
            not gone or await self._dependencies.reader.list_pods(self._namespace, self.uid)
        ):
            return LOOK_SECONDS
        self._queue.deactivate(self.uid)
        return None

    async def _make_plan(self, run: Json, observed: Observed) -> tuple[Plan, Observed]:
        observed = dataclasses.replace(
            observed, refused=dict(self._refusals.by_child), downloaded=self._result.found
        )
        plan = self._plan(run, observed)
        if plan.download is not None and self._result.found is None:
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
        run = await executor.update_status(run, plan)
        self._update(run)
        if read_status(run).start_time is None:
            self._queue.release_claim(self.uid)
        news = await executor.create_children(run, plan, self._refusals)
        await executor.delete_targets(run, plan)
        if plan.stop is not None:
            await self._request_stop(plan.stop, observed)
        status = read_status(run)
        self._result.done = status.result is not None or is_true(status, "Finished")
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
        pauses = [plan.look_again_seconds, self._refusals.next_seconds(self._dependencies.now())]
        if plan.stop is not None and not self._stops:
            # The load generator may not listen yet.
            pauses.append(_STOP_REQUEST_SECONDS)
        if status.start_time is not None and not is_true(status, "Finished"):
            load = master_pod(load_pods(observed.pods))
            self._load_address = None if load is None else running_address(load)
            if not is_true(status, "Measuring"):
                pauses.append(LOOK_SECONDS)
        return min((pause for pause in pauses if pause is not None), default=None)
