"""What does Locust's master tell the session, and what does the session tell it?

One JSON document a line. What a measuring process says is passed on as it is, behind the number of
its worker and a space.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Discriminator, TypeAdapter

ORDER = "inferometer-order"
WORD = "inferometer-word"
LOST = "inferometer-lost"
"""Locust's types of message: to a worker, from a worker, and a worker's last."""


@dataclass(frozen=True, slots=True)
class Bound:
    """The master listens."""

    port: int
    web_port: int | None
    say: Literal["bound"] = "bound"


@dataclass(frozen=True, slots=True)
class Lost:
    """A worker is lost; `loss_reason` says what became of it."""

    worker: int
    loss_reason: str
    say: Literal["lost"] = "lost"


FromMaster = Bound | Lost
FROM_MASTER: TypeAdapter[FromMaster] = TypeAdapter(Annotated[FromMaster, Discriminator("say")])


@dataclass(frozen=True, slots=True)
class Send:
    """Give a line to the measuring processes of these workers."""

    workers: list[int]
    line: str
    say: Literal["send"] = "send"


@dataclass(frozen=True, slots=True)
class Show:
    """Show on the web page what happened within the last second."""

    name: str
    """Of the scenario and its step."""
    protocol: str
    milliseconds: list[float]
    counts: list[int]
    """How many queries took so long."""
    failed: int
    measuring: bool
    say: Literal["show"] = "show"


@dataclass(frozen=True, slots=True)
class Quit:
    """The run is over."""

    say: Literal["quit"] = "quit"


ToMaster = Send | Show | Quit
TO_MASTER: TypeAdapter[ToMaster] = TypeAdapter(Annotated[ToMaster, Discriminator("say")])
