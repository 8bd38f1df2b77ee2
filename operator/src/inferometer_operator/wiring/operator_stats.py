"""Statistics of the operator for its metrics, taken from what the workers read anyway."""

import asyncio
from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from inferometer_api.metrics.definitions import RECONCILE
from inferometer_api.status.run_status import Phase
from inferometer_operator.reconcile.expiry import is_finished
from inferometer_operator.reconcile.observed import Json
from inferometer_operator.reconcile.run_facts import RunFacts, run_facts
from inferometer_operator.wiring.measured_nodes import MeasuredNodes

MAX_FINISHED_RUNS = 200
"""Only so many have series of their own."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """What is known of every run."""

    version: str
    phase: Phase
    name: tuple[str, str]


@dataclass(slots=True)
class DurationHistogram:
    """A histogram of durations."""

    bounds: tuple[float, ...]
    counts: list[int] = field(init=False)
    """By bound, without those of lower bounds; the last counts longer ones."""
    sum_seconds: float = 0.0

    def __post_init__(self) -> None:
        """Begin with none."""
        self.counts = [0] * (len(self.bounds) + 1)

    def observe(self, seconds: float) -> None:
        """Add a duration."""
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.sum_seconds += seconds


@dataclass(frozen=True, slots=True)
class SuiteGateOutcome:
    """The outcome of the gate of a suite's last execution."""

    outcome: str
    armed: bool
    time: str
    """When the execution was over."""


class OperatorStats:
    """The runs, and what reconciling them took.

    Of finished runs only the newest are known by more than their phase.
    """

    def __init__(self) -> None:
        self.is_leader = False
        self.runs_listed = False
        """Whether every run that there is was seen."""
        self.reconcile_durations = DurationHistogram(RECONCILE.buckets)
        self.api_errors: Counter[str] = Counter()
        self.suite_gates: dict[tuple[str, str], SuiteGateOutcome] = {}
        """By namespace and name of the suite, for a schedule of the scheduled one."""
        self.measured_nodes = MeasuredNodes()
        self._facts: dict[str, RunFacts] = {}
        self._unread: dict[str, Json] = {}
        """Finished runs whose facts no scrape has read yet: most of those that a new leader lists
        are replaced by newer ones before."""
        self._seen: dict[str, _Seen] = {}
        self._by_name: dict[tuple[str, str], str] = {}
        self._ends: list[tuple[str, str]] = []
        """A heap of the newest ends and their runs' UIDs; one whose facts are gone is void."""

    @property
    def runs(self) -> list[RunFacts]:
        """Return the facts about each run that goes on, and about the newest finished ones."""
        while self._unread:
            self._read_one()
        return list(self._facts.values())

    @property
    def phases(self) -> Counter[Phase]:
        """Return how many runs are in each phase."""
        return Counter(seen.phase for seen in self._seen.values())

    async def read_finished(self) -> None:
        """Read the facts about finished runs while the loop goes on."""
        while self._unread:
            self._read_one()
            await asyncio.sleep(0)

    def update_run(self, run: Json) -> None:
        """Add a run, or replace what is known of it."""
        metadata, status = run["metadata"], run.get("status") or {}
        uid, version = str(metadata["uid"]), str(metadata.get("resourceVersion", ""))
        name = (str(metadata.get("namespace", "")), str(metadata["name"]))
        seen = self._seen.get(uid)
        if version and seen is not None and seen.version == version:
            return
        # Of two runs of one name the earlier is gone, even without an event.
        self.remove_run(self._by_name.get(name, uid))
        self._by_name[name] = uid
        end = str(status.get("completionTime") or "") if is_finished(run) else None
        if end is None:
            self._facts[uid] = run_facts(run)
        elif self._makes_room(end):
            self._unread[uid] = run
            heappush(self._ends, (end, uid))
        self._seen[uid] = _Seen(version, status.get("phase") or "Pending", name)

    def remove_run(self, uid: str) -> None:
        """Remove a run that no longer exists."""
        self._drop(uid)
        seen = self._seen.pop(uid, None)
        if seen is not None and self._by_name.get(seen.name) == uid:
            del self._by_name[seen.name]

    def count_api_error(self, code: str) -> None:
        """Count a failed request to the API server."""
        self.api_errors[code] += 1

    def _makes_room(self, end: str) -> bool:
        """Return whether a run that ended then is among the newest; drop the oldest of them."""
        known = self._facts.keys() | self._unread.keys()
        self._ends = [each for each in self._ends if each[1] in known]
        heapify(self._ends)
        if len(self._ends) < MAX_FINISHED_RUNS:
            return True
        if end <= self._ends[0][0]:
            return False
        self._drop(heappop(self._ends)[1])
        return True

    def _drop(self, uid: str) -> None:
        self._facts.pop(uid, None)
        self._unread.pop(uid, None)

    def _read_one(self) -> None:
        uid, run = self._unread.popitem()
        self._facts[uid] = run_facts(run)
