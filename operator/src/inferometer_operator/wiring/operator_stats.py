"""Statistics of the operator for its metrics, taken from what the workers read anyway."""

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field

from inferometer_api.metrics.definitions import RECONCILE
from inferometer_operator.reconcile.observed import Json
from inferometer_operator.reconcile.run_facts import RunFacts, run_facts


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


class OperatorStats:
    """The runs, and what reconciling them took."""

    def __init__(self) -> None:
        self.is_leader = False
        self.runs_listed = False
        """Whether every run that there is was seen."""
        self.reconcile_durations = DurationHistogram(RECONCILE.buckets)
        self.api_errors: Counter[str] = Counter()
        self._facts: dict[str, RunFacts] = {}
        self._versions: dict[str, str] = {}
        self._by_name: dict[tuple[str, str], str] = {}

    @property
    def runs(self) -> list[RunFacts]:
        """Return the facts about each run."""
        return list(self._facts.values())

    def update_run(self, run: Json) -> None:
        """Add a run, or replace what is known of it."""
        metadata = run["metadata"]
        uid, version = metadata["uid"], metadata.get("resourceVersion", "")
        if version and self._versions.get(uid) == version:
            return
        facts = run_facts(run)
        # Of two runs of one name the earlier is gone, even without an event.
        self.remove_run(self._by_name.get((facts.namespace, facts.name), uid))
        self._facts[uid], self._versions[uid] = facts, version
        self._by_name[facts.namespace, facts.name] = uid

    def remove_run(self, uid: str) -> None:
        """Remove a run that no longer exists."""
        facts = self._facts.pop(uid, None)
        self._versions.pop(uid, None)
        if facts is not None and self._by_name.get((facts.namespace, facts.name)) == uid:
            del self._by_name[facts.namespace, facts.name]

    def count_api_error(self, code: str) -> None:
        """Count a failed request to the API server."""
        self.api_errors[code] += 1
