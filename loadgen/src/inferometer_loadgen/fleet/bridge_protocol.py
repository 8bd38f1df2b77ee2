"""Messages between the session and Locust's master, and the types of Locust's own messages.

Each message is one line of JSON. The master forwards a message of a worker unchanged, preceded by
the worker's number and a space.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Discriminator, TypeAdapter

ORDER_TYPE = "inferometer-order"
MESSAGE_TYPE = "inferometer-message"
LOST_TYPE = "inferometer-lost"
"""Types of Locust's messages: to a worker, from a worker, and a worker's last."""


@dataclass(frozen=True, slots=True)
class MasterReady:
    """The master listens."""

    port: int
    web_port: int | None
    type: Literal["ready"] = "ready"


@dataclass(frozen=True, slots=True)
class WorkerLost:
    """A worker is lost."""

    worker: int
    loss_reason: str
    type: Literal["lost"] = "lost"


FromMaster = MasterReady | WorkerLost
FROM_MASTER: TypeAdapter[FromMaster] = TypeAdapter(Annotated[FromMaster, Discriminator("type")])


@dataclass(frozen=True, slots=True)
class SendOrder:
    """Forward a line to the measuring processes of these workers."""

    workers: list[int]
    line: str
    type: Literal["send"] = "send"


@dataclass(frozen=True, slots=True)
class ShowSecond:
    """Show on the web page what happened within the last second."""

    name: str
    """Name of the scenario and its step."""
    protocol: str
    milliseconds: list[float]
    """Latencies that occurred, in milliseconds."""
    counts: list[int]
    """Number of queries with each of these latencies."""
    failed: int
    measuring: bool
    type: Literal["show"] = "show"


@dataclass(frozen=True, slots=True)
class EndFleet:
    """The run is over."""

    type: Literal["end"] = "end"


ToMaster = SendOrder | ShowSecond | EndFleet
TO_MASTER: TypeAdapter[ToMaster] = TypeAdapter(Annotated[ToMaster, Discriminator("type")])
