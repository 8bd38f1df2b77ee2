"""The ownership of runs: a run belongs to the operator that its status names, while that one lives.

A cluster-wide operator and one for a namespace have different Leases, and both see the runs of that
namespace. The status names the Lease of the operator that took the run, and its resourceVersion
lets only one of them take it. Of runs that have not begun, the namespace's own operator takes all.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

from inferometer_api.plan.cluster_objects import LEASE
from inferometer_api.status.run_status import RunStatus
from inferometer_api.timestamps import format_time, parse_time
from inferometer_operator.cluster.errors import ApiError
from inferometer_operator.cluster.reader import Reader
from inferometer_operator.reconcile.conditions import is_true, read_status
from inferometer_operator.reconcile.observed import Json
from inferometer_operator.reconcile.plan import Event

RENEW_SECONDS: Final = 240.0
"""How often an operator confirms in the status of a run that it still works on it."""
LOOK_SECONDS: Final = 15.0
"""How often an operator looks whether another operator still lives, to which it left a run."""
UNCHANGED_SECONDS: Final = 600.0
"""An operator whose Lease cannot be read is given up once its run has not changed for so long."""
_MAX_LEASES = 1000
_LONGEST_GAP_SECONDS = 4 * LOOK_SECONDS
_READ_SECONDS = 5.0
_ABSENT_SECONDS = 1.0
"""How long a Lease that was absent is taken to be: hundreds of runs may come at once."""
_DEFAULT_LEASE_SECONDS = 15.0
_UNHELD_SECONDS = 15.0
"""How long an operator may be without its Lease: a restart releases it."""

_State = Literal["alive", "gone", "unknown"]


@dataclass(slots=True)
class _SeenLease:
    """The Lease of another operator, as it was read last."""

    spec: Any
    changed_at: float
    read_at: float
    unreadable: bool = False

    def state(self, now: float) -> _State:
        """Return whether its operator lives; by this operator's clock, as a standby does."""
        if self.unreadable:
            return "unknown"
        spec = self.spec or {}
        if spec.get("holderIdentity"):
            lives_for = float(spec.get("leaseDurationSeconds") or _DEFAULT_LEASE_SECONDS)
        else:
            # An operator that releases it writes a duration of 1 s, and may be about to restart.
            lives_for = _UNHELD_SECONDS
        return "alive" if now - self.changed_at < lives_for else "gone"


@dataclass(slots=True)
class _SeenVersion:
    """The resourceVersion of a run, since when it is seen, and when this operator last looked."""

    version: str
    since: float
    looked_at: float = 0.0


class Ownership:
    """Decides which runs this operator leaves to others."""

    def __init__(
        self,
        reader: Reader,
        own: str = "",
        *,
        is_cluster_wide: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create it for the operator with this Lease, NAMESPACE/NAME.

        Without a Lease (empty) it works on every run, and takes none.
        """
        self.own = own
        self._reader = reader
        self._is_cluster_wide = is_cluster_wide
        self._clock = clock
        self._leases: dict[str, _SeenLease] = {}
        self._unchanged: dict[str, _SeenVersion] = {}
        """Versions of runs whose operator's Lease cannot be read."""

    async def other_operator(self, run: Json) -> str:
        """Return the other operator to which a run is to be left; empty: this one works on it."""
        status = read_status(run)
        named = status.operator or ""
        if not self.own or is_true(status, "Finished"):
            return ""
        if status.start_time is None and named in {"", self.own} and self._is_cluster_wide:
            # The namespace's own operator goes first. It takes the run when it sees it.
            local = f"{run['metadata']['namespace']}/{LEASE}"
            return local if local != self.own and await self._state(local) == "alive" else ""
        if named in {"", self.own} or (status.start_time is None and not self._is_cluster_wide):
            return ""
        match await self._state(named):
            case "alive":
                return named
            case "gone":
                return ""
            case "unknown":
                return named if self._changes(run) else ""

    def signed(self, status: RunStatus, now: datetime) -> RunStatus:
        """Return a status that names this operator, and confirms that it works on the run.

        The confirmation is renewed before an operator that cannot read the Lease would take a run
        whose status has no reason to change: its result is awaited, or its image is pulled.
        """
        if not self.own:
            return status
        renewed = parse_time(status.operator_renew_time)
        if not self._is_cluster_wide or status.start_time is None:
            # Others can read the Lease of a namespace, and take no notice of what has not begun.
            time = None
        elif renewed is None or not 0 <= (now - renewed).total_seconds() < RENEW_SECONDS:
            time = format_time(now)
        else:
            time = status.operator_renew_time
        return status.model_copy(update={"operator": self.own, "operator_renew_time": time})

    def forget(self, uid: str) -> None:
        """Forget a run that no longer exists."""
        self._unchanged.pop(uid, None)

    def _changes(self, run: Json) -> bool:
        """Return whether a run has changed in the last minutes, as far as this operator saw.

        Time in which it did not look does not count: no operator could write then, if the API
        server did not answer.
        """
        metadata, now = run["metadata"], self._clock()
        seen = self._unchanged.get(metadata["uid"])
        if (
            seen is None
            or seen.version != metadata["resourceVersion"]
            or now - seen.looked_at > _LONGEST_GAP_SECONDS
        ):
            seen = _SeenVersion(metadata["resourceVersion"], now)
            self._unchanged[metadata["uid"]] = seen
        seen.looked_at = now
        return now - seen.since < UNCHANGED_SECONDS

    async def _state(self, lease: str) -> _State:
        now, seen = self._clock(), self._leases.get(lease)
        # A Lease that no operator held may have been acquired just now.
        gone = seen is not None and seen.state(now) == "gone"
        fresh_seconds = _READ_SECONDS
        if seen is not None and gone:
            fresh_seconds = _ABSENT_SECONDS if seen.spec is None else 0.0
        if seen is None or now - seen.read_at >= fresh_seconds:
            seen = self._leases[lease] = await self._read(lease, seen)
            if len(self._leases) > _MAX_LEASES:
                del self._leases[min(self._leases, key=lambda name: self._leases[name].read_at)]
        return seen.state(self._clock())

    async def _read(self, lease: str, before: _SeenLease | None) -> _SeenLease:
        namespace, _, name = lease.partition("/")
        try:
            found = await self._reader.get("Lease", namespace, name)
        except ApiError as error:
            if error.code != 403:
                raise
            return _SeenLease(None, 0.0, self._clock(), unreadable=True)
        spec, now = (found or {}).get("spec"), self._clock()
        if before is None and spec is None:
            # A restarting operator keeps its Lease: there is none of this name.
            return _SeenLease(None, float("-inf"), now)
        same = before is not None and before.spec == spec and not before.unreadable
        return _SeenLease(spec, before.changed_at if same and before else now, now)


def left_event(own: str, other: str) -> Event:
    """Return the event of a run that an operator leaves to another one."""
    return Event(
        "Normal",
        "LeftToOtherOperator",
        f"The operator with the Lease {own} also serves this namespace. It leaves this run to the "
        f"operator with the Lease {other}, and takes it over if that one is gone.",
    )
