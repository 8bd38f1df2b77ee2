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

from inferometer_api.plan.deadlines import GONE_SECONDS
from inferometer_operator.cluster.errors import RefusedError, UnreachableError
from inferometer_operator.cluster.reading import Reader
from inferometer_operator.cluster.writing import Writer
from inferometer_operator.reconcile.conditions import holds, status_of
from inferometer_operator.reconcile.observed import Json, Observed
from inferometer_operator.reconcile.plan import Plan
from inferometer_operator.reconcile.times import later, read
from inferometer_operator.settings import Settings
from inferometer_operator.wiring.acting import Actor, Refusals
from inferometer_operator.wiring.giving_up import given_up
from inferometer_operator.wiring.held_result import HeldResult
from inferometer_operator.wiring.observing import (
    LOOK_SECONDS,
    Observer,
    Polled,
    load_pod,
    running_at,
)
from inferometer_operator.wiring.roster import Roster
from inferometer_operator.wiring.taking_down import taken_down
from inferometer_operator.wiring.tally import Tally

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
class Edges:
    """Everything between a decision and the cluster."""

    decide: Decide
    settings: Settings
    reader: Reader
    writer: Writer
    observer: Observer
    actor: Actor
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))
    tally: Tally = field(default_factory=Tally)
    room: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(1))
    """For the result of one run."""


class GoneError(Exception):
    """The run is no more."""


class Worker:
    """Carries one run forward, whenever it is woken or its time has come."""

    def __init__(self, edges: Edges, roster: Roster, run: Json) -> None:
        metadata = run["metadata"]
        self.uid: str = metadata["uid"]
        self._namespace: str = metadata["namespace"]
        self._name: str = metadata["name"]
        self._edges = edges
        self._roster = roster
        self._woken = asyncio.Event()
        self._polled = Polled()
        self._refusals = Refusals()
        self._result = HeldResult(edges.room)
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
        except GoneError:
            self._log.info("run_gone")
            self._edges.tally.forget(self.uid)
            self._result.drop()
            await self._lingered()
        finally:
            self._result.drop()
            self._roster.forget(self.uid)
            self._edges.tally.forget(self.uid)

    async def _was_woken(self, pause: float | None) -> bool:
        """Wait until it is time to look again; return whether something happened before.

        Meanwhile the load generator alone is asked how far it is.
        """
        end = None if pause is None else self._edges.clock() + pause
        while True:
            due = self._polled.due if self._load_address is not None else None
            until = min((each for each in (end, due) if each is not None), default=None)
            left = None if until is None else max(0.0, until - self._edges.clock())
            try:
                async with asyncio.timeout(left):
                    await self._woken.wait()
            except TimeoutError:
                if self._load_address is None or (end is not None and self._edges.clock() >= end):
                    return False
                if await self._edges.observer.ask(self._load_address, self._polled):
                    return False
            else:
                return True

    async def _lingered(self) -> None:
        """Hold the turn of a deleted run until its pods are gone: they would disturb the next."""
        end = self._edges.clock() + GONE_SECONDS
        while self._roster.holds(self.uid) and self._edges.clock() < end:
            try:
                if not await self._edges.reader.pods(self._namespace, self.uid):
                    return
            except (RefusedError, UnreachableError) as error:
                self._log.warning("api_failed", error=str(error))
            await asyncio.sleep(_FIRST_PAUSE_SECONDS)

    async def _looked(self) -> float | None:
        """Look once, whatever happens; return after how many seconds to look again."""
        pause: float | None
        try:
            pause = await self._round()
        except (RefusedError, UnreachableError) as error:
            pause = self._failed_to_ask(error)
            if isinstance(error, RefusedError) and error.conflict:
                # It only changed meanwhile: its place stays its own.
                return pause
        except GoneError:
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
        if self._roster.claims(self.uid):
            try:
                run = await self._read()
            except (RefusedError, UnreachableError) as error:
                self._log.warning("api_failed", error=str(error))
            else:
                if status_of(run).start_time is None:
                    self._roster.pass_turn(self.uid)

    def _failed_to_ask(self, error: RefusedError | UnreachableError) -> float:
        self._failures += 1
        asked = error.retry_after_seconds if isinstance(error, RefusedError) else None
        pause = max(asked or 0.0, self._backoff())
        if isinstance(error, RefusedError) and error.conflict:
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
            except (RefusedError, UnreachableError) as refused:
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
        if holds(status_of(run), "Finished"):
            return
        await taken_down(self._edges.reader, self._edges.writer, run)
        status = given_up(run, error, self._edges.now())
        self._seen(await self._edges.writer.status(run, status))
        self._result.done = True

    async def _read(self) -> Json:
        run: Json | None = await self._edges.reader.found(
            "BenchmarkRun", self._namespace, self._name
        )
        if run is None or run["metadata"]["uid"] != self.uid:
            raise GoneError
        self._seen(run)
        return run

    def _seen(self, run: Json) -> None:
        self._version = run["metadata"]["resourceVersion"]
        self._roster.see(run)
        self._edges.tally.see(run)

    async def _round(self) -> float | None:
        """Observe, decide and act until there is nothing to do at once."""
        run = await self._read()
        if run["metadata"].get("deletionTimestamp"):
            return await self._ended_deleted(run)
        for _ in range(_MOST_ROUNDS):
            began = self._edges.clock()
            turn = self._roster.turn(self.uid)
            observed = await self._edges.observer.observe(run, turn, self._polled)
            plan, observed = await self._decided(run, observed)
            run, again = await self._acted(run, observed, plan)
            self._edges.tally.reconciled.add(self._edges.clock() - began)
            if not again:
                return self._pause(run, observed, plan)
        return _FIRST_PAUSE_SECONDS

    async def _ended_deleted(self, run: Json) -> float | None:
        """End what a run that is being deleted has begun: a finalizer may hold it for long."""
        self._roster.yield_turn(self.uid)
        self._result.done = True
        if status_of(run).start_time is None:
            return None
        gone = await taken_down(self._edges.reader, self._edges.writer, run)
        now = self._edges.now()
        since = read(run["metadata"]["deletionTimestamp"]) or now
        if now < later(since, GONE_SECONDS) and (
            not gone or await self._edges.reader.pods(self._namespace, self.uid)
        ):
            return LOOK_SECONDS
        self._roster.leave(self.uid)
        return None

    async def _decided(self, run: Json, observed: Observed) -> tuple[Plan, Observed]:
        observed = dataclasses.replace(
            observed, refused=dict(self._refusals.told), collected=self._result.found
        )
        plan = self._plan(run, observed)
        if plan.collect is not None and self._result.found is None:
            pod = next(pod for pod in observed.pods if pod["metadata"]["name"] == plan.collect)
            await self._result.collect(self._edges.reader, pod)
            observed = dataclasses.replace(observed, collected=self._result.found)
            # A large result is packed here for the first time: the loop must go on meanwhile.
            plan = await asyncio.to_thread(self._plan, run, observed)
        return plan, observed

    def _plan(self, run: Json, observed: Observed) -> Plan:
        return self._edges.decide(
            run, observed, self._edges.settings, self._edges.now(), self._token
        )

    async def _acted(self, run: Json, observed: Observed, plan: Plan) -> tuple[Json, bool]:
        """Carry a plan out; return the run as it is then, and whether to look again at once."""
        actor = self._edges.actor
        began = status_of(run).start_time is not None
        run = await actor.told(run, plan)
        self._seen(run)
        if status_of(run).start_time is None:
            self._roster.yield_turn(self.uid)
        news = await actor.made(run, plan, self._refusals)
        await actor.deleted(run, plan)
        if plan.stop is not None:
            await self._ask_to_stop(plan.stop, observed)
        status = status_of(run)
        self._result.done = status.result is not None or holds(status, "Finished")
        # What the run's own status now says decides anew, and its own write is no event.
        return run, news or began != (status.start_time is not None)

    async def _ask_to_stop(self, pod: str, observed: Observed) -> None:
        now = self._edges.clock()
        at = self._asked_to_stop_at
        if not self._stops and (at is None or now >= at + _ASK_TO_STOP_SECONDS):
            self._asked_to_stop_at = now
            self._stops = await self._edges.actor.stopped(pod, observed)
            if not self._stops:
                self._log.warning("load_pod_does_not_stop", pod=pod)

    def _pause(self, run: Json, observed: Observed, plan: Plan) -> float | None:
        """Return when to look again: as the plan says, or as something must be asked."""
        status = status_of(run)
        pauses = [plan.look_again_seconds, self._refusals.next_seconds(self._edges.now())]
        if plan.stop is not None and not self._stops:
            # It may not listen yet.
            pauses.append(_ASK_TO_STOP_SECONDS)
        if status.start_time is not None and not holds(status, "Finished"):
            load = load_pod(observed.pods)
            self._load_address = None if load is None else running_at(load)
            if not holds(status, "Measuring"):
                pauses.append(LOOK_SECONDS)
        return min((pause for pause in pauses if pause is not None), default=None)
