"""How is a plan carried out, and what came of it?"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from inferometer_api.plan import LoadPlan
from inferometer_operator.cluster.loading import LoadPods
from inferometer_operator.cluster.reading import Reader
from inferometer_operator.cluster.writing import Writer
from inferometer_operator.manifests.plan_map import PLAN_FILE
from inferometer_operator.reconcile.conditions import status_of
from inferometer_operator.reconcile.observed import Json, Observed, Refusal
from inferometer_operator.reconcile.plan import Plan
from inferometer_operator.wiring.observing import running_at


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Actor:
    """Carries out plans."""

    reader: Reader
    writer: Writer
    loads: LoadPods
    now: Callable[[], datetime] = _now

    async def told(self, run: Json, plan: Plan) -> Json:
        """Write the status where it differs, tell the events, and return the run as it is then."""
        if status_of(run) == plan.status:
            return run
        written = await self.writer.status(run, plan.status)
        for event in plan.events:
            await self.writer.tell(run, event)
        return written

    async def made(self, run: Json, plan: Plan, refusals: dict[str, Refusal]) -> bool:
        """Make the children and keep what was refused; return whether one was."""
        refused = False
        for child in plan.make:
            kind, name = child["kind"], child["metadata"]["name"]
            key = f"{kind}/{name}"
            refusal = await self._refusal(run, child, refusals.get(key))
            if refusal is None:
                refusals.pop(key, None)
            else:
                refusals[key] = refusal
                refused = True
        return refused

    async def _refusal(
        self, run: Json, child: dict[str, Any], before: Refusal | None
    ) -> Refusal | None:
        error = await self.writer.made(child)
        if error is None:
            return None
        metadata = child["metadata"]
        if error.code == 409 and await self.reader.child(
            child["kind"], metadata["namespace"], metadata["name"], run["metadata"]["uid"]
        ):
            # It was made before, and the answer was lost.
            return None
        attempts = 1 if before is None else before.attempts + 1
        return Refusal(self.now(), error.code, error.message, attempts)

    async def deleted(self, run: Json, plan: Plan) -> None:
        """Delete what the plan says."""
        for target in plan.delete:
            await self.writer.delete(run["metadata"]["namespace"], target)

    async def stopped(self, name: str, observed: Observed) -> bool:
        """Ask the load pod of this name to end; return whether it said that it will."""
        pod = next((pod for pod in observed.pods if pod["metadata"]["name"] == name), None)
        address = running_at(pod) if pod is not None else None
        if address is None or observed.plan_map is None:
            return False
        plan = LoadPlan.model_validate_json(observed.plan_map["data"][PLAN_FILE])
        return await self.loads.stop(address, plan.stop_token)
