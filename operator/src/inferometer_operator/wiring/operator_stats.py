"""What has this operator seen and done, in numbers?

Nothing is asked of the cluster for it: what the crew reads and hears anyway is counted.
"""

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field

from inferometer_api.metrics.definitions import RECONCILE
from inferometer_operator.reconcile.observed import Json
from inferometer_operator.reconcile.run_facts import RunFacts, run_facts


@dataclass(slots=True)
class DurationHistogram:
    """How often something took how long."""

    bounds: tuple[float, ...]
    counts: list[int] = field(init=False)
    """By bound, those of the next lower one not among them; the last is of what took longer."""
    sum_seconds: float = 0.0

    def __post_init__(self) -> None:
        """Begin with none."""
        self.counts = [0] * (len(self.bounds) + 1)

    def observe(self, seconds: float) -> None:
        """Take in one more."""
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.sum_seconds += seconds


class OperatorStats:
    """Runs that there are, and what carrying them out took."""

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
        """Return what is told of each run."""
        return list(self._facts.values())

    def update_run(self, run: Json) -> None:
        """Take in what the cluster says of a run."""
        metadata = run["metadata"]
        uid, version = metadata["uid"], metadata.get("resourceVersion", "")
        if version and self._versions.get(uid) == version:
            return
        facts = run_facts(run)
        # Of two of one name the earlier is gone, though nobody may have told.
        self.remove_run(self._by_name.get((facts.namespace, facts.name), uid))
        self._facts[uid], self._versions[uid] = facts, version
        self._by_name[facts.namespace, facts.name] = uid

    def remove_run(self, uid: str) -> None:
        """Take in that a run is no more."""
        facts = self._facts.pop(uid, None)
        self._versions.pop(uid, None)
        if facts is not None and self._by_name.get((facts.namespace, facts.name)) == uid:
            del self._by_name[facts.namespace, facts.name]

    def count_api_error(self, code: str) -> None:
        """Take in a request to the API server that failed."""
        self.api_errors[code] += 1
