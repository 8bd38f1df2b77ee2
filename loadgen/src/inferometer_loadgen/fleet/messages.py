"""What do a session and the measuring processes of its fleet say to each other?

One JSON document a line. Locust's master and workers pass them on as they are.
"""

from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import Discriminator, TypeAdapter

from inferometer_api.results.result import ClientHealth
from inferometer_loadgen.fleet.clock import ClockName
from inferometer_loadgen.record.silences import Silence
from inferometer_loadgen.schedule.steps import End, Share, StepPlan
from inferometer_loadgen.server.control_plane import ServerDescription

# -- a session's orders -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SetUp:
    """What is measured: the plan of the run, as JSON, and what the first server said."""

    plan: str
    described: ServerDescription
    say: Literal["set-up"] = "set-up"


@dataclass(frozen=True, slots=True)
class Prepare:
    """Make ready for a step."""

    scenario: str
    plan: StepPlan
    share: Share
    say: Literal["prepare"] = "prepare"


@dataclass(frozen=True, slots=True)
class Connect:
    """Open all connections."""

    say: Literal["connect"] = "connect"


@dataclass(frozen=True, slots=True)
class Stamp:
    """Answer at once with the time."""

    number: int
    say: Literal["stamp"] = "stamp"


@dataclass(frozen=True, slots=True)
class Start:
    """Begin the step at this time of your clock."""

    at_ns: int
    say: Literal["start"] = "start"


@dataclass(frozen=True, slots=True)
class OpenWindow:
    """Begin the window at this time of your clock."""

    at_ns: int
    say: Literal["open-window"] = "open-window"


@dataclass(frozen=True, slots=True)
class CloseWindow:
    """End the window at this time of your clock: all workers together have what it takes."""

    at_ns: int
    say: Literal["close-window"] = "close-window"


@dataclass(frozen=True, slots=True)
class Finish:
    """End the step now."""

    why: End
    say: Literal["finish"] = "finish"


@dataclass(frozen=True, slots=True)
class Close:
    """Close every connection: the step is over."""

    say: Literal["close"] = "close"


Order = SetUp | Prepare | Connect | Stamp | Start | OpenWindow | CloseWindow | Finish | Close
ORDERS: TypeAdapter[Order] = TypeAdapter(Annotated[Order, Discriminator("say")])

# -- what a measuring process tells -------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Hello:
    """It is there."""

    clock: ClockName
    node: str
    say: Literal["hello"] = "hello"


@dataclass(frozen=True, slots=True)
class SetUpDone:
    """It knows what is measured."""

    say: Literal["set-up-done"] = "set-up-done"


@dataclass(frozen=True, slots=True)
class Making:
    """How far the making of requests is."""

    fraction: float
    say: Literal["making"] = "making"


@dataclass(frozen=True, slots=True)
class FirstQuery:
    """The first query is about to be sent."""

    say: Literal["first-query"] = "first-query"


@dataclass(frozen=True, slots=True)
class Ready:
    """The step is prepared."""

    open_loop: bool
    connections: int
    """To each server."""
    say: Literal["ready"] = "ready"


@dataclass(frozen=True, slots=True)
class Fault:
    """What was asked cannot be done: the name of the exception and its sentence."""

    kind: str
    message: str
    say: Literal["fault"] = "fault"


@dataclass(frozen=True, slots=True)
class Connected:
    """All connections are open."""

    say: Literal["connected"] = "connected"


@dataclass(frozen=True, slots=True)
class Stamped:
    """The time of its clock."""

    number: int
    at_ns: int
    say: Literal["stamped"] = "stamped"


@dataclass(frozen=True, slots=True)
class Counted:
    """What a histogram gained: its counters by their indices, and its exact totals."""

    buckets: list[int]
    counts: list[int]
    sum_ns: int
    """Of the times gained."""
    min_ns: int
    """Of all times so far."""
    max_ns: int
    """Of all times so far."""


@dataclass(frozen=True, slots=True)
class SecondTold:
    """What happened within one second of the window, or the part of one that was the last."""

    seconds: float
    scheduled: int
    failed: int
    max_ns: int
    buckets: list[int]
    counts: list[int]


@dataclass(frozen=True, slots=True)
class Gained:
    """What was counted since the last time, by the names of the fields of `Tallied`."""

    histograms: dict[str, Counted] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    counters: dict[str, dict[str, int]] = field(default_factory=dict)
    texts: dict[str, dict[str, str]] = field(default_factory=dict)
    seconds: list[SecondTold] = field(default_factory=list)
    warm_up_seconds: list[SecondTold] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Told:
    """How the step goes on. Written each second, and when a stage begins or ends."""

    stage: Literal["warm-up", "window", "measuring", "window-over", "ended"]
    gained: Gained
    begin_ns: int
    """When it took up the schedule, by its own clock."""
    window_ns: int | None
    """When its window began."""
    duration_ns: int
    """How long its window was; 0 while it goes on."""
    silences: list[Silence]
    """When no query of a closed loop was answered well, by its own clock, once that is known."""
    last_reply_ns: int
    outstanding: int
    overdue: int
    """Queries that wait or are under way for longer than the bound that the step is judged by."""
    reconnects: int
    fraction: float
    draining: bool
    cpu_seconds: float
    """User and system, since its window began."""
    memory_bytes: int
    client: ClientHealth | None = None
    """What became of it since then, in the last word of a step."""
    end: End | None = None
    """Why it ended, in the last."""
    last_error: str = ""
    """Why a server that was lost could not be reached again."""
    say: Literal["told"] = "told"


@dataclass(frozen=True, slots=True)
class Closed:
    """Every connection is closed."""

    say: Literal["closed"] = "closed"


Word = Hello | SetUpDone | Making | FirstQuery | Ready | Fault | Connected | Stamped | Told | Closed
WORDS: TypeAdapter[Word] = TypeAdapter(Annotated[Word, Discriminator("say")])
