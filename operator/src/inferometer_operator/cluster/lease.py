"""Election of the leader by a Lease of coordination.k8s.io.

The client library's own election writes local time as UTC, and ends on a broken connection. This
one compares only its own clock.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import structlog

from inferometer_operator.cluster.api_paths import api_path
from inferometer_operator.cluster.connection import ApiConnection
from inferometer_operator.cluster.errors import ApiError, ApiUnreachableError

_CONFLICTS = 3
_Result = TypeVar("_Result")
_log = structlog.get_logger()


class LeaseLostError(Exception):
    """The Lease was not renewed in time, or another operator holds it: work must end."""


@dataclass(frozen=True, slots=True)
class LeaseConfig:
    """Name, holder and duration of the Lease."""

    name: str
    namespace: str
    identity: str
    seconds: float = 15.0
    """How long after its last renewal another operator takes it."""
    instance: str = ""
    """What begins the identities of this container before and after a restart, which never run at
    the same time; empty: unknown."""

    @property
    def renew_every_seconds(self) -> float:
        """Return the interval of renewals."""
        return self.seconds / 5

    @property
    def give_up_seconds(self) -> float:
        """Return how long after its last renewal the holder stops work."""
        return self.seconds * 2 / 3


def now_seconds() -> float:
    """Return the time of a clock that also runs while the process or the machine is suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Lease:
    """This operator's part in the election."""

    def __init__(
        self,
        connection: ApiConnection,
        terms: LeaseConfig,
        clock: Callable[[], float] = now_seconds,
        is_alive: Callable[[], bool] = lambda: True,
    ) -> None:
        """Renew the Lease only while `is_alive` says that its holder does its work."""
        self._connection = connection
        self._terms = terms
        self._clock = clock
        self._is_alive = is_alive
        self._seen: Any = None
        self._seen_at = 0.0
        self._renewed_at = float("-inf")

    def check_held(self) -> None:
        """Raise LeaseLostError if another operator may lead by now.

        To be called before each write, from any thread: an operator that was suspended would
        otherwise write before it learns that it was replaced.
        """
        if self._clock() - self._renewed_at >= self._terms.give_up_seconds:
            raise LeaseLostError(
                f"The Lease {self._terms.name} is too old for a write: it was not renewed for "
                f"{self._terms.give_up_seconds:g} s."
            )

    async def acquire(self) -> None:
        """Wait until this operator holds the Lease."""
        while True:
            try:
                if await self.try_acquire():
                    _log.info(
                        "lease_acquired", lease=self._terms.name, identity=self._terms.identity
                    )
                    return
            except (ApiError, ApiUnreachableError) as error:
                _log.warning("lease_request_failed", error=str(error))
            await asyncio.sleep(self._terms.renew_every_seconds)

    async def keep_renewed(self) -> None:
        """Renew the Lease until cancelled; raise LeaseLostError if that fails for too long."""
        try:
            while True:
                await asyncio.sleep(self._terms.renew_every_seconds)
                await self._renew()
        except LeaseLostError:
            self._renewed_at = float("-inf")
            raise

    async def _renew(self) -> None:
        left = self._terms.give_up_seconds - (self._clock() - self._renewed_at)
        failure: object = None
        if not self._is_alive():
            failure = "This operator's main loop does not respond."
        else:
            try:
                async with asyncio.timeout(max(left, 0.0)):
                    if not await self.try_acquire():
                        raise LeaseLostError(
                            f"Another operator holds the Lease {self._terms.name}."
                        )
            except (ApiError, ApiUnreachableError, TimeoutError) as error:
                failure = error
        if failure is None:
            return
        _log.warning("lease_renewal_failed", error=str(failure))
        if self._clock() - self._renewed_at >= self._terms.give_up_seconds:
            raise LeaseLostError(
                f"The Lease {self._terms.name} could not be renewed for "
                f"{self._terms.give_up_seconds:g} s: {failure}"
            )

    async def release(self) -> None:
        """Let another operator take the Lease at once."""
        try:
            await self._retry_conflicts(self._release_once)
        except (ApiError, ApiUnreachableError) as error:
            _log.warning("lease_release_failed", error=str(error))

    async def _release_once(self) -> None:
        lease = await self._connection.request("GET", self._path)
        if lease["spec"].get("holderIdentity") == self._terms.identity:
            await self._put(lease, holder="", seconds=1)

    async def try_acquire(self) -> bool:
        """Take or renew the Lease if allowed; return whether this operator holds it."""
        return await self._retry_conflicts(self._try_once)

    async def _retry_conflicts(self, attempt: Callable[[], Awaitable[_Result]]) -> _Result:
        """Attempt a write again after conflicts.

        A conflict says only that someone wrote the Lease since it was read: it is read again.
        """
        for _ in range(_CONFLICTS):
            try:
                return await attempt()
            except ApiError as error:
                if error.code != 409:
                    raise
        return await attempt()

    async def _try_once(self) -> bool:
        requested_at = self._clock()
        try:
            lease = await self._connection.request("GET", self._path)
        except ApiError as error:
            if error.code != 404:
                raise
            # Someone deleted it. Its holder still leads, and will create it again.
            if self._seen is not None and self._held_by_another(self._seen):
                return False
            return await self._create(requested_at)
        spec = lease.get("spec") or {}
        if spec != self._seen:
            # Its holder may have renewed it while the answer travelled.
            self._seen, self._seen_at = spec, self._clock()
        if self._held_by_another(spec):
            return False
        self._seen = (await self._put(lease, self._terms.identity, self._terms.seconds))["spec"]
        self._renewed_at = self._seen_at = requested_at
        return True

    def _held_by_another(self, spec: dict[str, Any]) -> bool:
        holder = spec.get("holderIdentity")
        if not holder or holder == self._terms.identity:
            return False
        if self._terms.instance and holder.startswith(f"{self._terms.instance}_"):
            return False
        held_for = float(spec.get("leaseDurationSeconds") or self._terms.seconds)
        return self._clock() - self._seen_at < held_for

    async def _create(self, requested_at: float) -> bool:
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self._terms.name, "namespace": self._terms.namespace},
            "spec": self._spec({}, self._terms.identity, self._terms.seconds),
        }
        made = await self._connection.request(
            "POST", api_path("Lease", self._terms.namespace), body=body
        )
        self._seen = made["spec"]
        self._renewed_at = self._seen_at = requested_at
        return True

    async def _put(self, lease: dict[str, Any], holder: str, seconds: float) -> Any:
        spec = self._spec(lease.get("spec") or {}, holder, seconds)
        # With its resourceVersion: of two writers, the API server rejects one.
        return await self._connection.request("PUT", self._path, body={**lease, "spec": spec})

    def _spec(self, before: dict[str, Any], holder: str, seconds: float) -> dict[str, Any]:
        now = self._connection.clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        same = before.get("holderIdentity") == holder
        return {
            "holderIdentity": holder,
            "leaseDurationSeconds": max(1, round(seconds)),
            "acquireTime": before.get("acquireTime", now) if same else now,
            "renewTime": now,
            "leaseTransitions": int(before.get("leaseTransitions") or 0) + (not same),
        }

    @property
    def _path(self) -> str:
        return api_path("Lease", self._terms.namespace, self._terms.name)
