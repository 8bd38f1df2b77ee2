"""Messages between a session and the measuring processes of its fleet.

Each message is one line of JSON. The carrier forwards it unchanged.
"""

from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import Discriminator, TypeAdapter

from inferometer_api.results.result import ClientHealth
from inferometer_loadgen.record.silences import Silence
from inferometer_loadgen.schedule.steps import End, LoadShare, StepPlan
from inferometer_loadgen.server.control_plane import ServerDescription

LONGEST_LINE_BYTES = 64 * 2**20
"""Maximum length of a line: a plan with its inputs' shapes, or all counters of a step."""


@dataclass(frozen=True, slots=True)
class ClockIdentity:
    """Which monotonic clock a process reads: that of one boot of a machine, in a time namespace."""

    boot: str
    """The boot's id; empty if it is unknown."""
    namespace: str

    def is_same(self, other: "ClockIdentity") -> bool:
        """Return whether both are known to be one clock."""
        return self.boot != "" and self == other


# -- orders of the session ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SetUp:
    """Set up the run: its plan as JSON, and the description of the first server."""

    plan: str
    description: ServerDescription
    type: Literal["set-up"] = "set-up"


@dataclass(frozen=True, slots=True)
class Prepare:
    """Prepare a step."""

    scenario: str
    plan: StepPlan
    share: LoadShare
    type: Literal["prepare"] = "prepare"


@dataclass(frozen=True, slots=True)
class Connect:
    """Open all connections."""

    type: Literal["connect"] = "connect"


@dataclass(frozen=True, slots=True)
class ReadClock:
    """Answer at once with the time of your clock."""

    number: int
    type: Literal["read-clock"] = "read-clock"


@dataclass(frozen=True, slots=True)
class Start:
    """Start the step at this time of your clock."""

    at_ns: int
    type: Literal["start"] = "start"


@dataclass(frozen=True, slots=True)
class OpenWindow:
    """Start the window at this time of your clock."""

    at_ns: int
    type: Literal["open-window"] = "open-window"


@dataclass(frozen=True, slots=True)
class CloseWindow:
    """End the window at this time of your clock: all workers together reached the minimums."""

    at_ns: int
    type: Literal["close-window"] = "close-window"


@dataclass(frozen=True, slots=True)
class Finish:
    """End the step now."""

    why: End
    type: Literal["finish"] = "finish"


@dataclass(frozen=True, slots=True)
class Close:
    """Close every connection: the step is over."""

    type: Literal["close"] = "close"


Order = SetUp | Prepare | Connect | ReadClock | Start | OpenWindow | CloseWindow | Finish | Close
ORDERS: TypeAdapter[Order] = TypeAdapter(Annotated[Order, Discriminator("type")])

# -- messages of a measuring process ------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Hello:
    """The process is ready for orders."""

    clock: ClockIdentity
    node: str
    type: Literal["hello"] = "hello"


@dataclass(frozen=True, slots=True)
class SetUpDone:
    """The run is set up."""

    type: Literal["set-up-done"] = "set-up-done"


@dataclass(frozen=True, slots=True)
class PreparationProgress:
    """Share of the requests that is prepared, 0 to 1."""

    fraction: float
    type: Literal["preparation-progress"] = "preparation-progress"


@dataclass(frozen=True, slots=True)
class FirstQuery:
    """The first query is about to be sent."""

    type: Literal["first-query"] = "first-query"


@dataclass(frozen=True, slots=True)
class Ready:
    """The step is prepared."""

    open_loop: bool
    connections: int
    """Number of connections to each server."""
    type: Literal["ready"] = "ready"


@dataclass(frozen=True, slots=True)
class WorkerFault:
    """An order failed: the name of the exception and its message."""

    kind: str
    message: str
    type: Literal["fault"] = "fault"


@dataclass(frozen=True, slots=True)
class Connected:
    """All connections are open."""

    type: Literal["connected"] = "connected"


@dataclass(frozen=True, slots=True)
class ClockReading:
    """Time of the worker's clock."""

    number: int
    at_ns: int
    type: Literal["clock-reading"] = "clock-reading"


@dataclass(frozen=True, slots=True)
class HistogramDelta:
    """Growth of a histogram: its counters by index, and its exact totals."""

    buckets: list[int]
    counts: list[int]
    sum_ns: int
    """Sum of the added times."""
    min_ns: int
    """Over all times so far."""
    max_ns: int
    """Over all times so far."""


@dataclass(frozen=True, slots=True)
class SecondDelta:
    """Counts of one second of the window, or of its last part of a second."""

    seconds: float
    scheduled: int
    failed: int
    max_ns: int
    buckets: list[int]
    counts: list[int]


@dataclass(frozen=True, slots=True)
class CountDelta:
    """Counts since the last report, by field names of `StepStatistics`."""

    histograms: dict[str, HistogramDelta] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    counters: dict[str, dict[str, int]] = field(default_factory=dict)
    texts: dict[str, dict[str, str]] = field(default_factory=dict)
    seconds: list[SecondDelta] = field(default_factory=list)
    warm_up_seconds: list[SecondDelta] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class WorkerProgress:
    """Progress of the step, sent each second and when a stage begins or ends."""

    stage: Literal["warm-up", "window", "measuring", "window-over", "ended"]
    gained: CountDelta
    begin_ns: int
    """When it started the schedule, by its own clock."""
    window_ns: int | None
    """When its window began."""
    duration_ns: int
    """Length of its window; 0 while it is open."""
    silences: list[Silence]
    """Times without a successful answer in a closed loop, by its own clock, once known."""
    last_reply_ns: int
    outstanding: int
    overdue: int
    """Queries that wait or are under way for longer than the step's latency bound."""
    reconnects: int
    fraction: float
    draining: bool
    cpu_seconds: float
    """User and system, since its window began."""
    memory_bytes: int
    client: ClientHealth | None = None
    """Health of the process since then; only in the last report."""
    end: End | None = None
    """Why it ended; only in the last report."""
    last_error: str = ""
    """Why a lost server could not be reached again."""
    type: Literal["worker-progress"] = "worker-progress"


@dataclass(frozen=True, slots=True)
class ConnectionsClosed:
    """Every connection is closed."""

    type: Literal["connections-closed"] = "connections-closed"


WorkerMessage = (
    Hello
    | SetUpDone
    | PreparationProgress
    | FirstQuery
    | Ready
    | WorkerFault
    | Connected
    | ClockReading
    | WorkerProgress
    | ConnectionsClosed
)
WORKER_MESSAGES: TypeAdapter[WorkerMessage] = TypeAdapter(
    Annotated[WorkerMessage, Discriminator("type")]
)
