"""The nodes of NodeBenchmarks in the queue of runs: each takes a turn, as a run does."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from inferometer_api.nodes.benchmark import NodeBenchmarkStatus
from inferometer_operator.reconcile.observed import Json
from inferometer_operator.reconcile.queue_position import QueuedRun, QueueState
from inferometer_operator.wiring.run_queue import RunQueue


@dataclass(slots=True)
class NodeQueue:
    """The entries of one operator's NodeBenchmarks."""

    queue: RunQueue
    wake: Callable[[str, float], None]
    """Called with the UID of a NodeBenchmark when a turn of one of its nodes may have come."""
    _entries: dict[str, set[str]] = field(default_factory=dict)
    """Entries by the UID of their NodeBenchmark."""

    def admit(
        self, raw: Json, waiting: Sequence[str], entries: Sequence[QueuedRun]
    ) -> frozenset[str]:
        """Return those of the waiting nodes whose turn it is; they keep it until `replace`."""
        uid = raw["metadata"]["uid"]
        self._put(uid, entries)
        return frozenset(node for node in waiting if self.queue.position(f"{uid}/{node}").admitted)

    def replace(self, raw: Json, entries: Sequence[QueuedRun]) -> None:
        """Take in the nodes as the status shows them now.

        A turn that was not taken goes to the next: the write of the status failed, and is retried
        after a pause.
        """
        uid = raw["metadata"]["uid"]
        for entry in entries:
            if entry.state == "waiting" and self.queue.has_claim(entry.uid):
                self.queue.defer(entry.uid)
        self._put(uid, entries)

    def remove(self, uid: str) -> None:
        """Forget a NodeBenchmark that no longer exists."""
        for entry in self._entries.pop(uid, ()):
            self.queue.remove(entry)

    def _put(self, uid: str, entries: Sequence[QueuedRun]) -> None:
        for entry in entries:
            self.queue.put(entry, lambda pause: self.wake(uid, pause))
        now = {entry.uid for entry in entries}
        for gone in self._entries.get(uid, set()) - now:
            self.queue.remove(gone)
        self._entries[uid] = now


def queue_entries(raw: Json, status: NodeBenchmarkStatus) -> Sequence[QueuedRun]:
    """Return the entries of the nodes in the queue of runs: one for each that is not over."""
    metadata = raw["metadata"]
    states: dict[str, QueueState] = {"Waiting": "waiting", "Running": "admitted"}
    return [
        QueuedRun(
            uid=f"{metadata['uid']}/{row.node}",
            created=metadata.get("creationTimestamp", ""),
            namespace=metadata["namespace"],
            name=f"{metadata['name']} on {row.node}",
            state=states[row.state],
            begun=row.start_time or "",
        )
        for row in status.nodes
        if row.state in states
    ]
