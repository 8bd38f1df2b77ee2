"""How does one run go on: when is it looked at, and what happens when that fails?"""

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
from inferometer_api.timestamps import parse_time

from inferometer_api.plan.deadlines import GONE_SECONDS
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
from inferometer_operator.wiring.held_result import ResultDownload
from inferometer_operator.wiring.observer import (
    LOOK_SECONDS,
    Observer,
    PolledReport,
    load_pods,
    running_address,
)
from inferometer_operator.wiring.operator_stats import OperatorStats
from inferometer_operator.wiring.plan_executor import PlanExecutor, Refusals
from inferometer_operator.wiring.run_queue import RunQueue

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.5, 30.0
_GATHER_SECONDS = 0.05
"""Changes come in bursts: they are looked at together."""
_GIVE_UP_AFTER = 6
"""Faults of the operator's own at one place, without a look that went well: half a minute."""
_MOST_ROUNDS = 10
_ASK_TO_STOP_SECONDS = 2.0

_log = structlog.get_logger()


class Decide(Protocol):
    """The pure decision of `reconcile`."""

    def __call__(
        self, run: Json, observed: Observed, settings: Settings, now: datetime, token: str
    ) -> Plan:
        """Return what is to be done for the run now."""
        ...


@dataclass(frozen=True, slots=True)
class Dependencies:
    """Everything between a decision and the cluster."""

    decide: Decide
    settings: Settings
    reader: Reader
    writer: Writer
    observer: Observer
    actor: PlanExecutor
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))
    stats: OperatorStats = field(default_factory=OperatorStats)
    room: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(1))
    """For the result of one run."""


class RunGoneError(Exception):
    """The run is no more."""


class Worker:
    """Carries one run forward, whenever it is woken or its time has come."""

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
        self._result = ResultDownload(dependencies.room)
        self._version = ""
        self._load_address: str | None = None
        """Where the load generator is asked how far it is, while the run is not looked at."""
        self._token = secrets.token_urlsafe(24)
        self._asked_to_stop_at: float | None = None
        self._stops = False
        self._failures = 0
        self._own_fault: object = None
        """What the operator's own last fault was, and where."""
        self._own_faults = 0
        self._log = _log.bind(namespace=self._namespace, run=self._name, uid=self.uid)

    def wake(self) -> None:
        """Let the run be looked at soon."""
        self._woken.set()

    def run_changed(self, run: Json) -> None:
        """Let the run be looked at soon, unless this very version of it was read or written."""
        if run["metadata"]["resourceVersion"] != self._version:
            self._woken.set()

    async def run(self) -> None:
        """Carry the run forward until it is no more."""
        try:
            while True:
                self._woken.clear()
                self._load_address = None
                pause = await self._looked()
                if self._result.done:
                    self._result.drop()
                if await self._was_woken(pause):
                    await asyncio.sleep(_GATHER_SECONDS)
        except RunGoneError:
            self._log.info("run_gone")
            self._dependencies.stats.remove_run(self.uid)
            self._result.drop()
            await self._lingered()
        finally:
            self._result.drop()
            self._queue.remove(self.uid)
            self._dependencies.stats.remove_run(self.uid)

    async def _was_woken(self, pause: float | None) -> bool:
        """Wait until it is time to look again; return whether something happened before.

        Meanwhile the load generator alone is asked how far it is.
        """
        end = None if pause is None else self._dependencies.clock() + pause
        while True:
            due = self._polled.due if self._load_address is not None else None
            until = min((each for each in (end, due) if each is not None), default=None)
            left = None if until is None else max(0.0, until - self._dependencies.clock())
            try:
                async with asyncio.timeout(left):
                    await self._woken.wait()
            except TimeoutError:
                if self._load_address is None or (
                    end is not None and self._dependencies.clock() >= end
                ):
                    return False
                if await self._dependencies.observer.ask(self._load_address, self._polled):
                    return False
            else:
                return True

    async def _lingered(self) -> None:
        """Hold the turn of a deleted run until its pods are gone: they would disturb the next."""
        end = self._dependencies.clock() + GONE_SECONDS
        while self._queue.is_admitted(self.uid) and self._dependencies.clock() < end:
            try:
                if not await self._dependencies.reader.list_pods(self._namespace, self.uid):
                    return
            except (ApiError, UnreachableError) as error:
                self._log.warning("api_failed", error=str(error))
            await asyncio.sleep(_FIRST_PAUSE_SECONDS)

    async def _looked(self) -> float | None:
        """Look once, whatever happens; return after how many seconds to look again."""
        pause: float | None
        try:
            pause = await self._round()
        except (ApiError, UnreachableError) as error:
            pause = self._failed_to_ask(error)
            if isinstance(error, ApiError) and error.conflict:
                # It only changed meanwhile: its place stays its own.
                return pause
        except RunGoneError:
            raise
        except Exception as error:  # noqa: BLE001 - a fault with one run must not end the others
            pause = await self._failed(error)
        else:
            self._failures = self._own_faults = 0
            return pause
        await self._let_others_begin()
        return pause

    async def _let_others_begin(self) -> None:
        """Pass a turn on that came to nothing, once it is certain that the run has not begun."""
        if self._queue.has_claim(self.uid):
            try:
                run = await self._read()
            except (ApiError, UnreachableError) as error:
                self._log.warning("api_failed", error=str(error))
            else:
                if read_status(run).start_time is None:
                    self._queue.defer(self.uid)

    def _failed_to_ask(self, error: ApiError | UnreachableError) -> float:
        self._failures += 1
        asked = error.retry_after_seconds if isinstance(error, ApiError) else None
        pause = max(asked or 0.0, self._backoff())
        if isinstance(error, ApiError) and error.conflict:
            self._log.info("changed_meanwhile", told=str(error), again_in_seconds=pause)
        else:
            self._log.warning("api_failed", error=str(error), again_in_seconds=pause)
        return pause

    async def _failed(self, error: Exception) -> float | None:
        self._failures += 1
        place = traceback.extract_tb(error.__traceback__)[-1]
        fault = (type(error), place.filename, place.lineno)
        self._own_faults = self._own_faults + 1 if fault == self._own_fault else 1
        self._own_fault = fault
        self._log.exception("run_failed_by_own_fault", failures=self._own_faults)
        if self._own_faults >= _GIVE_UP_AFTER:
            try:
                await self._given_up(error)
            except (ApiError, UnreachableError) as refused:
                self._log.warning("api_failed", error=str(refused))
            else:
                return None
        return self._backoff()

    def _backoff(self) -> float:
        pause: float = _FIRST_PAUSE_SECONDS * 2 ** min(self._failures - 1, 10)
        return min(pause, _LONGEST_PAUSE_SECONDS)

    async def _given_up(self, error: Exception) -> None:
        """Fail a run that nothing can be decided for, and end what it left running."""
        run = await self._read()
        if is_true(read_status(run), "Finished"):
            return
        await delete_children(self._dependencies.reader, self._dependencies.writer, run)
        status = aborted_status(run, error, self._dependencies.now())
        self._seen(await self._dependencies.writer.apply_status(run, status))
        self._result.done = True

    async def _read(self) -> Json:
        run: Json | None = await self._dependencies.reader.get(
            "BenchmarkRun", self._namespace, self._name
        )
        if run is None or run["metadata"]["uid"] != self.uid:
            raise RunGoneError
        self._seen(run)
        return run

    def _seen(self, run: Json) -> None:
        self._version = run["metadata"]["resourceVersion"]
        self._queue.update(run)
        self._dependencies.stats.update_run(run)

    async def _round(self) -> float | None:
        """Observe, decide and act until there is nothing to do at once."""
        run = await self._read()
        if run["metadata"].get("deletionTimestamp"):
            return await self._ended_deleted(run)
        for _ in range(_MOST_ROUNDS):
            began = self._dependencies.clock()
            turn = self._queue.position(self.uid)
            observed = await self._dependencies.observer.observe(run, turn, self._polled)
            plan, observed = await self._decided(run, observed)
            run, again = await self._acted(run, observed, plan)
            self._dependencies.stats.reconcile_durations.observe(self._dependencies.clock() - began)
            if not again:
                return self._pause(run, observed, plan)
        return _FIRST_PAUSE_SECONDS

    async def _ended_deleted(self, run: Json) -> float | None:
        """End what a run that is being deleted has begun: a finalizer may hold it for long."""
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

    async def _decided(self, run: Json, observed: Observed) -> tuple[Plan, Observed]:
        observed = dataclasses.replace(
            observed, refused=dict(self._refusals.told), downloaded=self._result.found
        )
        plan = self._plan(run, observed)
        if plan.download is not None and self._result.found is None:
            pod = next(pod for pod in observed.pods if pod["metadata"]["name"] == plan.download)
            await self._result.collect(self._dependencies.reader, pod)
            observed = dataclasses.replace(observed, downloaded=self._result.found)
            # A large result is packed here for the first time: the loop must go on meanwhile.
            plan = await asyncio.to_thread(self._plan, run, observed)
        return plan, observed

    def _plan(self, run: Json, observed: Observed) -> Plan:
        return self._dependencies.decide(
            run, observed, self._dependencies.settings, self._dependencies.now(), self._token
        )

    async def _acted(self, run: Json, observed: Observed, plan: Plan) -> tuple[Json, bool]:
        """Carry a plan out; return the run as it is then, and whether to look again at once."""
        actor = self._dependencies.actor
        began = read_status(run).start_time is not None
        run = await actor.update_status(run, plan)
        self._seen(run)
        if read_status(run).start_time is None:
            self._queue.release_claim(self.uid)
        news = await actor.create_children(run, plan, self._refusals)
        await actor.delete_targets(run, plan)
        if plan.stop is not None:
            await self._ask_to_stop(plan.stop, observed)
        status = read_status(run)
        self._result.done = status.result is not None or is_true(status, "Finished")
        # What the run's own status now says decides anew, and its own write is no event.
        return run, news or began != (status.start_time is not None)

    async def _ask_to_stop(self, pod: str, observed: Observed) -> None:
        now = self._dependencies.clock()
        at = self._asked_to_stop_at
        if not self._stops and (at is None or now >= at + _ASK_TO_STOP_SECONDS):
            self._asked_to_stop_at = now
            self._stops = await self._dependencies.actor.stop_load(pod, observed)
            if not self._stops:
                self._log.warning("load_pod_does_not_stop", pod=pod)

    def _pause(self, run: Json, observed: Observed, plan: Plan) -> float | None:
        """Return when to look again: as the plan says, or as something must be asked."""
        status = read_status(run)
        pauses = [plan.look_again_seconds, self._refusals.next_seconds(self._dependencies.now())]
        if plan.stop is not None and not self._stops:
            # It may not listen yet.
            pauses.append(_ASK_TO_STOP_SECONDS)
        if status.start_time is not None and not is_true(status, "Finished"):
            load = master_pod(load_pods(observed.pods))
            self._load_address = None if load is None else running_address(load)
            if not is_true(status, "Measuring"):
                pauses.append(LOOK_SECONDS)
        return min((pause for pause in pauses if pause is not None), default=None)
