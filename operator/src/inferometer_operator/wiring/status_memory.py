"""Memory of a status that is not written: small changes wait, and refused ones are remembered."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import structlog

from inferometer_api.status.run_status import RunStatus
from inferometer_operator.cluster.errors import ApiError
from inferometer_operator.manifests.config_maps import begun_config_map
from inferometer_operator.manifests.owner import Manifest, Owner
from inferometer_operator.reconcile.children import child_names
from inferometer_operator.reconcile.conditions import (
    is_decided,
    load_job_was_created,
    read_status,
)
from inferometer_operator.reconcile.observed import ChildRole, Json
from inferometer_operator.reconcile.plan import Plan
from inferometer_operator.reconcile.status_size import least_status
from inferometer_operator.wiring.plan_executor import PlanExecutor

_RETRY_SECONDS = 60.0
_FAILING_SECONDS = 60.0
"""An internal error that lasts so long is a refusal: a webhook does not answer."""
_NO_REFUSALS = frozenset({401, 404})
"""The operator's token has expired; the run is gone."""
_log = structlog.get_logger()


@dataclass(slots=True)
class StatusMemory:
    """Writes the status of one run, small changes later, and remembers one that is refused."""

    stored: Json
    """The run as the API server holds it."""
    clock: Callable[[], float] = time.monotonic
    _status: RunStatus | None = None
    """The status that was refused."""
    _is_hidden: bool = False
    """Whether the least status was refused too."""
    _refusal: str = ""
    _due: float = 0.0
    _failing_since: float | None = None
    _written: float = -math.inf
    _small_due: float | None = None
    """When a small change is to be written that waits."""

    @property
    def next_seconds(self) -> float | None:
        """Seconds until the status is to be written, or None if none waits."""
        dues = [self._due if self._status is not None else None, self._small_due]
        due = min((each for each in dues if each is not None), default=None)
        return None if due is None else max(0.1, due - self.clock())

    def is_due_after(self, seconds: float) -> bool:
        """Return whether the last write is so long ago; a change that must wait is noted."""
        due = self._written + seconds
        is_due = self.clock() >= due
        self._small_due = None if is_due else due
        return is_due

    @property
    def is_refused(self) -> bool:
        """Whether the API server holds an older status, or the least one."""
        return self._status is not None

    def note_write(self) -> None:
        """Let later small changes wait from now on."""
        self._written = self.clock()

    def recall(self, stored: Json) -> Json:
        """Return a run that was read with the status that was refused, if one was."""
        self.stored = stored
        return self.recalled()

    def recalled(self) -> Json:
        """Return the run as it goes on: with the status that was refused, if one was."""
        if self._status is None:
            return self.stored
        return {**self.stored, "status": self._status.model_dump(mode="json", exclude_none=True)}

    async def write(self, executor: PlanExecutor, plan: Plan) -> Json:
        """Write the status of a plan, and return the run as it goes on.

        A refused status is replaced by the least one, and remembered; the run then goes on as if it
        were written. A run never begins so: another operator would not know. Raises ApiError if the
        write may succeed soon.
        """
        if not self._is_due(plan.status):
            self._status = plan.status
            return self.recalled()
        before = self.stored
        try:
            self.stored = await executor.update_status(before, plan)
        except ApiError as error:
            if not self._is_refusal(error):
                raise
            _log.warning(
                "status_refused",
                namespace=self.stored["metadata"]["namespace"],
                run=self.stored["metadata"]["name"],
                error=str(error),
                retry_in_seconds=_RETRY_SECONDS,
            )
            await self._write_least(executor, plan, error.message)
            self._status, self._due = plan.status, self.clock() + _RETRY_SECONDS
        else:
            self._status = self._failing_since = None
            self._is_hidden = False
            if self.stored is not before:
                self.note_write()
        return self.recalled()

    def guarded(self, plan: Plan, owner: Owner, children: Mapping[ChildRole, Json | None]) -> Plan:
        """Return what to carry out of a plan, so that no later operator measures a second time.

        While no status at all is taken, the load's Job and a record of it are the only traces of a
        measurement: no Job is made, the record is made if the Job exists, and those of a run that
        has ended are kept. The record is there because any client may delete the Job.
        """
        if not self._is_hidden or _shows_load(read_status(self.stored)):
            return plan
        names = child_names(owner.name)
        traces = {(each.kind, each.name) for each in names if each.role in {"load", "begun"}}
        exists = children.get("load") is not None or load_job_was_created(plan.status)
        is_new = exists and children.get("begun") is None
        record = (begun_config_map(owner),) if is_new else ()
        created = (each for each in plan.create if _key(each) not in traces)
        return replace(
            plan,
            create=(*created, *record),
            delete=tuple(
                each
                for each in plan.delete
                if (each.kind, each.name) not in traces or not is_decided(plan.status)
            ),
        )

    async def _write_least(self, executor: PlanExecutor, plan: Plan, refusal: str) -> None:
        self._refusal = refusal
        try:
            least = Plan(least_status(plan.status, refusal))
            self.stored = await executor.update_status(self.stored, least)
        except ApiError as error:
            had_begun = read_status(self.stored).start_time is not None
            if not self._is_refusal(error) or (plan.status.start_time and not had_begun):
                raise
            self._is_hidden = True
        else:
            self._is_hidden = False

    def _is_due(self, status: RunStatus) -> bool:
        """Return whether to write: after a pause, or once the least status is another one."""
        if self._status is None or self.clock() >= self._due:
            return True
        before, now = (least_status(each, self._refusal) for each in (self._status, status))
        return before != now

    def _is_refusal(self, error: ApiError) -> bool:
        if error.code == 500:
            if self._failing_since is None:
                self._failing_since = self.clock()
            return self.clock() >= self._failing_since + _FAILING_SECONDS
        self._failing_since = None
        return not error.passing and error.code not in _NO_REFUSALS


def _shows_load(status: RunStatus) -> bool:
    """Return whether a stored status keeps any operator from creating the load."""
    return is_decided(status) or load_job_was_created(status)


def _key(child: Manifest) -> tuple[str, str]:
    return str(child["kind"]), str(child["metadata"]["name"])
