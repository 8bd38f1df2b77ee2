"""State of one worker's step, as far as the session knows it, on the session's clock."""

from collections.abc import Iterable
from dataclasses import dataclass

from inferometer_api.results.result import ClientHealth, WorkerShare
from inferometer_loadgen.client.watch import worst
from inferometer_loadgen.fleet.clock_sync import SAME_CLOCK, ClockOffset
from inferometer_loadgen.fleet.messages import WorkerProgress
from inferometer_loadgen.record.silences import Silence
from inferometer_loadgen.schedule.steps import End


@dataclass(slots=True)
class RemoteWorker:
    """One worker's share of a step, as of its last report; times are on our clock."""

    worker: int
    node: str
    offset: ClockOffset = SAME_CLOCK
    agreed_ns: int = 0
    """Agreed start of all workers."""
    progress: WorkerProgress | None = None
    """Its last report."""
    queries: int = 0
    is_window_over: bool = False
    end: End | None = None
    loss_reason: str = ""
    """Why it is lost; empty if it is not."""

    def update(self, progress: WorkerProgress) -> None:
        """Take its report."""
        self.progress = progress
        latencies = progress.gained.histograms.get("latency")
        self.queries += 0 if latencies is None else sum(latencies.counts)
        self.queries += sum(progress.gained.counters.get("errors", {}).values())
        self.is_window_over |= progress.stage in {"window-over", "ended"}
        self.end = progress.end

    @property
    def is_going(self) -> bool:
        """Whether more reports are expected."""
        return self.end is None and not self.loss_reason

    @property
    def window_ns(self) -> int | None:
        """When its window began; None if it has not."""
        progress = self.progress
        if progress is None or progress.window_ns is None:
            return None
        return progress.window_ns - self.offset.ahead_ns

    @property
    def has_window(self) -> bool:
        """Whether its window has begun."""
        return self.progress is not None and (
            self.progress.stage in {"window", "measuring", "window-over", "ended"}
        )

    @property
    def begin_ns(self) -> int:
        """When it started; the agreed start before its first report."""
        return (
            self.agreed_ns
            if self.progress is None
            else self.progress.begin_ns - self.offset.ahead_ns
        )

    @property
    def last_reply_ns(self) -> int:
        """When its last measured query was answered successfully; 0 if none was."""
        progress = self.progress
        if progress is None or not progress.last_reply_ns:
            return 0
        return progress.last_reply_ns - self.offset.ahead_ns

    @property
    def window_over_ns(self) -> int:
        """When its window was over; 0 if it is not known."""
        window_ns, progress = self.window_ns, self.progress
        if window_ns is None or progress is None or not progress.duration_ns:
            return 0
        return window_ns + progress.duration_ns

    def silences_until(self, over_ns: int) -> list[Silence]:
        """Return the times without a successful answer, in a window that ended at `over_ns`.

        After its own last reply a worker with no queries left is silent, whatever the server does.
        Empty if it reported none: it had no share, or was lost.
        """
        if self.progress is None or not self.progress.silences or self.window_ns is None:
            return []
        ahead_ns, last_ns = self.offset.ahead_ns, max(self.window_ns, self.last_reply_ns)
        found = [
            (begin_ns - ahead_ns, end_ns - ahead_ns) for begin_ns, end_ns in self.progress.silences
        ]
        if over_ns <= last_ns:
            return found
        return [*(each for each in found if each[1] <= last_ns), (last_ns, over_ns)]

    def share(self) -> WorkerShare:
        """Return its part of the result document."""
        return WorkerShare(
            worker=self.worker,
            node=self.node,
            queries=self.queries,
            start_offset_nanoseconds=self.begin_ns - self.agreed_ns,
            clock_offset_nanoseconds=self.offset.ahead_ns,
            clock_uncertainty_nanoseconds=self.offset.uncertainty_ns,
            client_cpu_seconds=0.0 if self.progress is None else self.progress.cpu_seconds,
            client=None if self.progress is None else self.progress.client,
            lost=self.loss_reason != "",
            loss_reason=self.loss_reason,
        )


@dataclass(frozen=True, slots=True)
class FleetClient:
    """All workers as one client, as of their last reports. See Client."""

    workers: Iterable[RemoteWorker]

    def begin(self) -> None:
        """Do nothing: each worker counts from the start of its own window."""

    def second(self) -> None:
        """Do nothing: each worker samples itself."""

    def cpu_seconds(self) -> float:
        """Return the CPU seconds used since the measurement began."""
        return sum(worker.progress.cpu_seconds for worker in self.workers if worker.progress)

    def memory_bytes(self) -> int:
        """Return the resident memory in bytes."""
        return sum(worker.progress.memory_bytes for worker in self.workers if worker.progress)

    def facts(self) -> ClientHealth:
        """Return how healthy the load generator was."""
        found = [
            worker.progress.client
            for worker in self.workers
            if worker.progress and worker.progress.client
        ]
        return worst(found) if found else ClientHealth()
