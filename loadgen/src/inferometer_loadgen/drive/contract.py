"""What is a driver given, and what does it tell?"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from inferometer_loadgen.pace import Clock, Pacer
from inferometer_loadgen.wire import Connection, OnCapacity, OnReply, Prepared, Reply


@dataclass(frozen=True, slots=True)
class Site:
    """Where a driver runs: its loop, its clock and what wakes it."""

    loop: asyncio.AbstractEventLoop
    clock: Clock
    pacer: Callable[[Callable[[], None]], Pacer]


@dataclass(frozen=True, slots=True)
class Queries:
    """What a driver sends in turn, and how its answers are taken."""

    requests: Sequence[Sequence[Prepared]]
    """The requests to each server; servers take turns, query by query."""
    check: Callable[[Reply], str | None]
    """Returns what is wrong with a reply; asked about one reply in 64 and the first 8."""
    timeout_ns: int


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a step is."""

    measuring: bool
    draining: bool
    elapsed_ns: int
    """Since the stage began."""
    fraction: float
    """How far the stage is."""


OpenConnection = Callable[[OnReply, OnCapacity], Awaitable[Connection]]
