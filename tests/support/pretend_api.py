"""An API server in memory for the writes of a run's plans.

In memory and without any time of its own.
"""

import copy
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from inferometer_api.timestamps import format_time
from inferometer_operator.reconcile.observed import CreateRefusal
from inferometer_operator.reconcile.plan import Plan, WorkloadReport
from support.cluster_objects import EPOCH, Object, owner_reference
from support.runs import a_run


def stored(run: Object, **metadata: Any) -> Object:
    """Return a run as the API server keeps it."""
    found = copy.deepcopy(run)
    found["metadata"] = {
        "namespace": "team",
        "uid": "0c9e8f3a-1111-4222-8333-444455556666",
        "generation": 1,
        "creationTimestamp": format_time(EPOCH),
        **found["metadata"],
        **metadata,
    }
    return found


@dataclass(slots=True)
class PretendApi:
    """One run and its children, as they were written."""

    run: Object = field(default_factory=lambda: stored(a_run()))
    now: datetime = EPOCH
    """The operator's time."""
    others_ahead: timedelta = timedelta(0)
    """How far the clocks of API server, controllers and kubelets are ahead of it."""
    children: dict[str, Object] = field(default_factory=dict)
    """By KIND/NAME."""
    refusals: dict[str, tuple[int, str] | tuple[int, str, str]] = field(default_factory=dict)
    """What is refused by the API server, by KIND/NAME: code, words, and a reason if it counts."""
    refused: dict[str, CreateRefusal] = field(default_factory=dict)
    stubborn: set[str] = field(default_factory=set)
    """What the API server does not delete, by KIND/NAME."""
    gone: bool = False
    writes: list[str] = field(default_factory=list)
    """What was written to the API, in words."""
    made: Counter[str] = field(default_factory=Counter)
    """How often each child was made, by KIND/NAME."""

    @property
    def others_now(self) -> datetime:
        """The time on the clocks of all others."""
        return self.now + self.others_ahead

    def status(self) -> Object:
        """Return the run's status."""
        found: Object = self.run.get("status", {})
        return found

    def own(self, key: str) -> Object | None:
        """Return a child by KIND/NAME, None if a foreign object has the name."""
        found = self.children.get(key, {"metadata": {}})
        owners = found["metadata"].get("ownerReferences", ())
        return found if owner_reference(self.run) in owners else None

    def write_status(self, plan: Plan) -> None:
        """Write a plan's status, with its events, where it is another one."""
        written = plan.status.model_dump(mode="json", by_alias=True, exclude_none=True)
        written = {name: value for name, value in written.items() if value not in ([], {})}
        if written != self.status():
            self.writes.append(f"status {written.get('phase')}")
            self.run["status"] = written
            self.writes += [f"event {event.reason}" for event in plan.events]

    def make(self, child: Object) -> None:
        """Make a child once, or refuse it."""
        metadata = child["metadata"]
        key = f"{child['kind']}/{metadata['name']}"
        held = self.children.get(key)
        if held is not None:
            ours = held["metadata"].get("ownerReferences") == metadata["ownerReferences"]
            if not ours:
                self._refuse(key, 409, "already exists", holder=held["metadata"])
            return
        if key in self.refusals:
            self._refuse(key, *self.refusals[key])
            return
        self.refused.pop(key, None)
        self.writes.append(f"make {key}")
        self.made[key] += 1
        made = {
            "uid": f"uid-of-{key}-{self.made[key]}",
            "creationTimestamp": format_time(self.others_now),
        }
        self.children[key] = {**child, "metadata": {**metadata, **made}}

    def delete(self, kind: str, name: str, uid: str) -> None:
        """Delete the run, or a child of this UID."""
        if kind == "BenchmarkRun":
            assert uid == self.run["metadata"]["uid"]
            self.gone = True
            return
        found = self.children.get(f"{kind}/{name}")
        if f"{kind}/{name}" in self.stubborn:
            return
        if found is not None and found["metadata"]["uid"] == uid:
            self.writes.append(f"delete {kind}/{name}")
            del self.children[f"{kind}/{name}"]

    def report_to_kueue(self, report: WorkloadReport) -> None:
        """Write conditions of the run's Workload."""
        held = self.children[f"Workload/{report.name}"]
        assert held["metadata"]["uid"] == report.uid
        status = held.get("status") or {}
        for each in report.conditions:
            self.writes.append(f"workload {each['type']}")
            others = [one for one in status.get("conditions", ()) if one["type"] != each["type"]]
            status = {**status, "conditions": [*others, each]}
        held["status"] = status

    def _refuse(
        self, key: str, code: int, words: str, reason: str = "", holder: Object | None = None
    ) -> None:
        held = self.refused.get(key)
        if held is None:
            self.writes.append(f"refused {key}")
        self.refused[key] = CreateRefusal(
            held.since if held else self.now, code, words, reason, holder
        )
