"""What does the session know of one worker's step, and by which clock?"""

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
    """One worker's part of a step, as far as it has told; times are of our clock."""

    worker: int
    node: str
    offset: ClockOffset = SAME_CLOCK
    agreed_ns: int = 0
    """When all are to begin."""
    told: WorkerProgress | None = None
    """The last it told."""
    queries: int = 0
    is_window_over: bool = False
    end: End | None = None
    loss_reason: str = ""
    """What became of it, where it is lost."""

    def on_message(self, told: WorkerProgress) -> None:
        """Take what it told."""
        self.told = told
        latencies = told.gained.histograms.get("latency")
        self.queries += 0 if latencies is None else sum(latencies.counts)
        self.queries += sum(told.gained.counters.get("errors", {}).values())
        self.is_window_over |= told.stage in {"window-over", "ended"}
        self.end = told.end

    @property
    def is_going(self) -> bool:
        """Whether more is to be heard of it."""
        return self.end is None and not self.loss_reason

    @property
    def window_ns(self) -> int | None:
        """When its window began; None where it has not."""
        told = self.told
        if told is None or told.window_ns is None:
            return None
        return told.window_ns - self.offset.ahead_ns

    @property
    def has_window(self) -> bool:
        """Whether its window has begun."""
        return self.told is not None and (
            self.told.stage in {"window", "measuring", "window-over", "ended"}
        )

    @property
    def begin_ns(self) -> int:
        """When it began; when it should have, where it has not told."""
        return self.agreed_ns if self.told is None else self.told.begin_ns - self.offset.ahead_ns

    @property
    def last_reply_ns(self) -> int:
        """When its last measured query was answered well; 0 where none was."""
        told = self.told
        if told is None or not told.last_reply_ns:
            return 0
        return told.last_reply_ns - self.offset.ahead_ns

    @property
    def window_over_ns(self) -> int:
        """When its window was over; 0 where it has not told."""
        window_ns, told = self.window_ns, self.told
        if window_ns is None or told is None or not told.duration_ns:
            return 0
        return window_ns + told.duration_ns

    def silences_until(self, over_ns: int) -> list[Silence]:
        """Return when it had no good answer in a window that was over then, maybe after its own.

        Who has sent all its queries hears nothing any more, whatever the server does. Empty where
        it told of none: it had no part, or was lost.
        """
        if self.told is None or not self.told.silences or self.window_ns is None:
            return []
        ahead_ns, last_ns = self.offset.ahead_ns, max(self.window_ns, self.last_reply_ns)
        found = [
            (begin_ns - ahead_ns, end_ns - ahead_ns) for begin_ns, end_ns in self.told.silences
        ]
        if over_ns <= last_ns:
            return found
        return [*(each for each in found if each[1] <= last_ns), (last_ns, over_ns)]

    def share(self) -> WorkerShare:
        """Return it as the result document has it."""
        return WorkerShare(
            worker=self.worker,
            node=self.node,
            queries=self.queries,
            start_offset_nanoseconds=self.begin_ns - self.agreed_ns,
            clock_offset_nanoseconds=self.offset.ahead_ns,
            clock_uncertainty_nanoseconds=self.offset.uncertainty_ns,
            client_cpu_seconds=0.0 if self.told is None else self.told.cpu_seconds,
            client=None if self.told is None else self.told.client,
            lost=self.loss_reason != "",
            loss_reason=self.loss_reason,
        )


@dataclass(frozen=True, slots=True)
class FleetClient:
    """The workers together as the client, as far as they have told. See Client."""

    hands: Iterable[RemoteWorker]

    def begin(self) -> None:
        """Each worker counts from the begin of its own window."""

    def second(self) -> None:
        """Each worker looks itself."""

    def cpu_seconds(self) -> float:
        """See Client."""
        return sum(hand.told.cpu_seconds for hand in self.hands if hand.told)

    def memory_bytes(self) -> int:
        """See Client."""
        return sum(hand.told.memory_bytes for hand in self.hands if hand.told)

    def facts(self) -> ClientHealth:
        """See Client."""
        found = [hand.told.client for hand in self.hands if hand.told and hand.told.client]
        return worst(found) if found else ClientHealth()
