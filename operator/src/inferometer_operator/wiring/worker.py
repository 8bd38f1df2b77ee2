"""How does one run go on: when is it looked at, and what happens when that fails?"""

import asyncio
import dataclasses
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal, Protocol

import structlog

from inferometer_api.children import load_name, server_name
from inferometer_operator.cluster.errors import RefusedError, UnreachableError
from inferometer_operator.cluster.reading import Reader
from inferometer_operator.cluster.writing import Writer
from inferometer_operator.reconcile.conditions import holds, status_of
from inferometer_operator.reconcile.observed import Collected, Json, Observed
from inferometer_operator.reconcile.plan import Plan, Target
from inferometer_operator.settings import Settings
from inferometer_operator.wiring.acting import Actor, Refusals
from inferometer_operator.wiring.giving_up import given_up
from inferometer_operator.wiring.observing import (
    LOOK_SECONDS,
    Observer,
    Polled,
    load_pod,
    running_at,
)
from inferometer_operator.wiring.result_log import collected, give_back_memory
from inferometer_operator.wiring.roster import Roster

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.5, 30.0
_GATHER_SECONDS = 0.05
"""Changes come in bursts: they are looked at together."""
_GIVE_UP_AFTER = 6
"""Identical faults of the operator's own in a row, half a minute together."""
_REMEMBERED = 10
_MOST_ROUNDS = 10
_ASK_TO_STOP_SECONDS = 2.0
_PODS_GO_SECONDS = 60.0
"""How long the pods of a deleted run are waited for; those of a lost node never go."""

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
        self._collected: Collected | None = None
        self._version = ""
        self._load_address: str | None = None
        """Where the load generator is asked how far it is, while the run is not looked at."""
        self._token = secrets.token_urlsafe(24)
        self._asked_to_stop_at: float | None = None
        self._failures: list[str] = []
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
                if await self._was_woken(pause):
                    await asyncio.sleep(_GATHER_SECONDS)
        except GoneError:
            self._log.info("run_gone")
            await self._lingered()
        finally:
            self._roster.forget(self.uid)

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
        end = self._edges.clock() + _PODS_GO_SECONDS
        while self._roster.holds(self.uid) and self._edges.clock() < end:
            try:
                if not await self._edges.reader.pods(self._namespace, self.uid):
                    return
            except (RefusedError, UnreachableError) as error:
                self._log.warning("api_failed", error=str(error))
            await asyncio.sleep(_FIRST_PAUSE_SECONDS)

    async def _looked(self) -> float | None:
        """Look once, whatever happens; return after how many seconds to look again."""
        try:
            pause = await self._round()
        except (RefusedError, UnreachableError) as error:
            return self._failed_to_ask(error)
        except GoneError:
            raise
        except Exception as error:  # noqa: BLE001 - a fault with one run must not end the others
            return await self._failed(error)
        self._failures.clear()
        return pause

    def _failed_to_ask(self, error: RefusedError | UnreachableError) -> float:
        self._failures = [*self._failures[-_REMEMBERED:], f"API: {error}"]
        asked = error.retry_after_seconds if isinstance(error, RefusedError) else None
        pause = max(asked or 0.0, self._backoff())
        self._log.warning("api_failed", error=str(error), again_in_seconds=pause)
        return pause

    async def _failed(self, error: Exception) -> float | None:
        told = f"{type(error).__name__}: {error}"
        self._failures = [*self._failures[-_REMEMBERED:], told]
        self._log.exception("run_failed_by_own_fault", failures=len(self._failures))
        if self._failures[-_GIVE_UP_AFTER:] == [told] * _GIVE_UP_AFTER:
            try:
                await self._given_up(error)
            except (RefusedError, UnreachableError) as refused:
                self._log.warning("api_failed", error=str(refused))
            else:
                return None
        return self._backoff()

    def _backoff(self) -> float:
        pause: float = _FIRST_PAUSE_SECONDS * 2 ** (len(self._failures) - 1)
        return min(pause, _LONGEST_PAUSE_SECONDS)

    async def _given_up(self, error: Exception) -> None:
        """Fail a run that nothing can be decided for, and end what it left running."""
        run = await self._read()
        if holds(status_of(run), "Finished"):
            return
        names: tuple[tuple[Literal["Deployment", "Job"], str], ...] = (
            ("Deployment", server_name(self._name)),
            ("Job", load_name(self._name)),
        )
        for kind, name in names:
            child = await self._edges.reader.child(kind, self._namespace, name, self.uid)
            if child is not None:
                target = Target(kind, name, child["metadata"]["uid"])
                await self._edges.writer.delete(self._namespace, target)
        status = given_up(run, error, self._edges.now())
        self._seen(await self._edges.writer.status(run, status))

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

    async def _round(self) -> float | None:
        """Observe, decide and act until there is nothing to do at once."""
        run = await self._read()
        if run["metadata"].get("deletionTimestamp"):
            # Its children go by themselves.
            self._roster.yield_turn(self.uid)
            return None
        for _ in range(_MOST_ROUNDS):
            turn = self._roster.turn(self.uid)
            observed = await self._edges.observer.observe(run, turn, self._polled)
            plan, observed = await self._decided(run, observed)
            run, again = await self._acted(run, observed, plan)
            if not again:
                return self._pause(run, observed, plan)
        return _FIRST_PAUSE_SECONDS

    async def _decided(self, run: Json, observed: Observed) -> tuple[Plan, Observed]:
        observed = dataclasses.replace(
            observed, refused=dict(self._refusals.told), collected=self._collected
        )
        plan = self._plan(run, observed)
        if plan.collect is not None and self._collected is None:
            pod = next(pod for pod in observed.pods if pod["metadata"]["name"] == plan.collect)
            self._collected = await collected(self._edges.reader, pod)
            observed = dataclasses.replace(observed, collected=self._collected)
            plan = self._plan(run, observed)
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
        if holds(status_of(run), "Finished") and self._collected is not None:
            self._collected = None
            give_back_memory()
        begins = not began and status_of(run).start_time is not None
        return run, news or begins

    async def _ask_to_stop(self, pod: str, observed: Observed) -> None:
        now = self._edges.clock()
        if self._asked_to_stop_at is None or now >= self._asked_to_stop_at + _ASK_TO_STOP_SECONDS:
            self._asked_to_stop_at = now
            if not await self._edges.actor.stopped(pod, observed):
                self._log.warning("load_pod_does_not_stop", pod=pod)

    def _pause(self, run: Json, observed: Observed, plan: Plan) -> float | None:
        """Return when to look again: as the plan says, or as something must be asked."""
        status = status_of(run)
        pauses = [plan.look_again_seconds, self._refusals.next_seconds(self._edges.now())]
        if status.start_time is not None and not holds(status, "Finished"):
            load = load_pod(observed.pods)
            self._load_address = None if load is None else running_at(load)
            if not holds(status, "Measuring"):
                pauses.append(LOOK_SECONDS)
        return min((pause for pause in pauses if pause is not None), default=None)
