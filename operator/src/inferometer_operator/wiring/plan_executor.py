"""Execution of a plan: status, creations, deletions, the stop request."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import structlog

from inferometer_api.plan.cluster_objects import PULL_ANNOTATION
from inferometer_api.plan.deadlines import NAMESAKE_SECONDS
from inferometer_api.plan.load_plan import LoadPlan
from inferometer_operator.cluster.child_store import is_child_of
from inferometer_operator.cluster.errors import ApiError, ApiUnreachableError
from inferometer_operator.cluster.image_removal import ImageRemovalClient
from inferometer_operator.cluster.loadgen_client import LoadgenClient
from inferometer_operator.cluster.reader import Reader
from inferometer_operator.cluster.server_clock import local_time
from inferometer_operator.cluster.writer import Writer
from inferometer_operator.manifests.config_maps import PLAN_FILE
from inferometer_operator.reconcile.conditions import read_status
from inferometer_operator.reconcile.observed import NOT_REMOVED, CreateRefusal, Json, Observed
from inferometer_operator.reconcile.plan import Handover, Plan
from inferometer_operator.reconcile.pods import running_address

_log = structlog.get_logger()
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 2.0, 30.0
_TAKEN, _TAKEN_PAUSE_SECONDS = 409, 1.0
"""A taken name may be free soon, once the children of a deleted run are gone."""


_STOP_TOKEN = LoadPlan.model_fields["stop_token"].alias or "stop_token"


@dataclass(slots=True)
class Refusals:
    """Children that could not be created, and when to retry each."""

    by_child: dict[str, CreateRefusal] = field(default_factory=dict)
    """The API server's refusals, by KIND/NAME."""
    _again: dict[str, datetime] = field(default_factory=dict)

    def due(self, child: str, now: datetime) -> bool:
        """Return whether to retry now."""
        return child not in self._again or now >= self._again[child]

    def add(self, child: str, error: ApiError, now: datetime, holder: Json | None = None) -> bool:
        """Record a refusal; return whether it is new.

        The pause grows with the time: 2, 4, 8 and 16 s after the first, then 30 s. It is 1 s in the
        first minute that the name is taken by `holder`.
        """
        before = self.by_child.get(child)
        since = now if before is None else before.since
        refusal = CreateRefusal(since, error.code, error.message, error.reason, holder)
        self.by_child[child] = refusal
        lasts = (now - since).total_seconds()
        pause = min(max(_FIRST_PAUSE_SECONDS, lasts), _LONGEST_PAUSE_SECONDS)
        if error.code == _TAKEN and lasts < NAMESAKE_SECONDS:
            pause = _TAKEN_PAUSE_SECONDS
        self._again[child] = now + timedelta(seconds=pause)
        return refusal != before

    def drop(self, child: str) -> None:
        """Forget a child that was created, or is no longer wanted."""
        self.by_child.pop(child, None)
        self._again.pop(child, None)

    def all_due(self, now: datetime) -> bool:
        """Return whether to retry everything that was refused."""
        return all(now >= again for again in self._again.values())

    def next_seconds(self, now: datetime) -> float | None:
        """Return the seconds until the next retry, or None if there is none."""
        if not self._again:
            return None
        return max(0.1, (min(self._again.values()) - now).total_seconds())


@dataclass(frozen=True, slots=True)
class PlanExecutor:
    """Carries out plans."""

    reader: Reader
    writer: Writer
    loadgen: LoadgenClient
    now: Callable[[], datetime] = local_time
    images: ImageRemovalClient | None = None
    """None: the settings allow no removal of images."""

    async def update_status(self, run: Json, plan: Plan) -> Json:
        """Write the status if it differs, create the events, and return the run as it is then."""
        if read_status(run) == plan.status:
            return run
        written = await self.writer.apply_status(run, plan.status)
        for event in plan.events:
            try:
                await self.writer.create_event(run, event)
            except (ApiError, ApiUnreachableError) as error:
                # The status holds the same: nothing waits for an event.
                _log.warning("event_not_created", reason=event.reason, error=str(error))
        return written

    async def create_children(self, run: Json, plan: Plan, refusals: Refusals) -> bool:
        """Create the children in order; return whether to plan again at once.

        A refused child stops those after it: a Job is nothing without its plan.
        """
        news = False
        wanted = {f"{child['kind']}/{child['metadata']['name']}": child for child in plan.create}
        if plan.download is None:
            # Without its document, a plan does not name the ConfigMaps of a result.
            for key in set(refusals.by_child) - set(wanted):
                refusals.drop(key)
        for key, child in wanted.items():
            if not refusals.due(key, self.now()):
                return news
            refusal = await self._remove_images(child) or await self.writer.create(child)
            if refusal is not None and refusal.reason == NOT_REMOVED:
                return refusals.add(key, refusal, self.now()) or news
            if refusal is not None:
                holder = await self._holder(child) if refusal.code == _TAKEN else None
                if holder is None or not is_child_of({"metadata": holder}, run["metadata"]["uid"]):
                    return refusals.add(key, refusal, self.now(), holder) or news
                # It was created before, and the answer was lost.
                await self.reader.refresh_child(
                    child["kind"],
                    child["metadata"]["namespace"],
                    child["metadata"]["name"],
                    run["metadata"]["uid"],
                )
            refusals.drop(key)
            news = True
        return news

    async def _remove_images(self, child: dict[str, Any]) -> ApiError | None:
        """Remove the images of a cold server from its node; return why they are still there."""
        node = (child["metadata"].get("annotations") or {}).get(PULL_ANNOTATION)
        if node is None or self.images is None:
            return None
        pod = child["spec"]["template"]["spec"]
        used = [each["image"] for each in (*pod.get("initContainers", ()), *pod["containers"])]
        return await self.images.remove(node, list(dict.fromkeys(used)))

    async def _holder(self, child: dict[str, Any]) -> Json | None:
        metadata = child["metadata"]
        return await self.reader.get_metadata(
            child["kind"], metadata["namespace"], metadata["name"]
        )

    async def report_workload(self, run: Json, plan: Plan) -> None:
        """Write the plan's conditions to the run's Workload."""
        if plan.workload is not None:
            await self.writer.apply_conditions(run["metadata"]["namespace"], plan.workload)

    async def delete_targets(self, run: Json, plan: Plan) -> None:
        """Delete the targets of the plan; the run itself only as the plan knew it.

        A person may have raised its retention meanwhile. Raises ApiError, a Conflict, then.
        """
        metadata = run["metadata"]
        for target in plan.delete:
            version = metadata["resourceVersion"] if target.kind == "BenchmarkRun" else None
            await self.writer.delete(metadata["namespace"], target, version=version)

    async def stop_load(self, name: str, observed: Observed) -> bool:
        """Request this load pod to stop; return whether it accepts."""
        found = _load_access(name, observed)
        return found is not None and await self.loadgen.stop(*found)

    async def hand_over(self, handover: Handover, observed: Observed) -> bool:
        """Give a load pod the servers of a further repeat; return whether it takes them."""
        found = _load_access(handover.pod, observed)
        return found is not None and await self.loadgen.hand_over(*found, handover.targets)


def _load_access(name: str, observed: Observed) -> tuple[str, str] | None:
    """Return the address of a load pod and its token, or None if it does not run."""
    pod = next((pod for pod in observed.pods if pod["metadata"]["name"] == name), None)
    address = running_address(pod) if pod is not None else None
    if address is None or observed.plan_map is None:
        return None
    # The rest of the plan may be of another version: its load generator reads it.
    plan = json.loads(observed.plan_map["data"][PLAN_FILE])
    return address, str(plan.get(_STOP_TOKEN, ""))
