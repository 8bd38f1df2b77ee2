"""A server, as a process of its own, that delays each reply as ordered and records what it saw.

It speaks the Open Inference Protocol over HTTP and gRPC on ports of 127.0.0.1, and takes orders as
lines of JSON on standard input: `{"delays": [...], "isQueue": ..., "stall": ...}` is obeyed from
the next inference on, `{"report": true}` is answered by what was seen since. Times are nanoseconds
of CLOCK_MONOTONIC, which all processes of a machine share.
"""

import asyncio
import gc
import json
import os
import selectors
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from support.oracle_http import Asked, HttpFront
from support.oracle_rpc import grpc_front

SECOND_NS = 1_000_000_000


@dataclass(slots=True)
class Seen:
    """Each inference since the last order, in the order of receipt."""

    received: list[int] = field(default_factory=list)
    due: list[int] = field(default_factory=list)
    """When its reply was to leave, by the law."""
    sent: list[int] = field(default_factory=list)
    """Just before its reply was written; 0: not yet."""
    samples: list[int] = field(default_factory=list)
    connection: list[int] = field(default_factory=list)
    """On which connection it came."""
    number: list[int] = field(default_factory=list)
    """The first of the numbers that it sent."""


@dataclass(slots=True)
class Oracle:
    """What the replies are delayed by, and what was seen."""

    loop: asyncio.AbstractEventLoop
    delays: list[int] = field(default_factory=lambda: [0])
    """Of each inference in turn; after the last one they begin anew."""
    is_queue: bool = False
    """Whether delays are services of one server with a queue, first come, first served."""
    stall: tuple[int, int] | None = None
    """Answer nothing for so long, from the receipt of the inference of this number."""
    seen: Seen = field(default_factory=Seen)
    _last_departure: int = 0
    _stalled_until: int = 0

    def take(self, asked: Asked, reply: Callable[[], None]) -> None:
        """Write down an inference, and call `reply` when the law says so."""
        received = time.monotonic_ns()
        seen = self.seen
        index = len(seen.received)
        due = self._due(index, received)
        seen.received.append(received)
        seen.due.append(due)
        seen.sent.append(0)
        seen.samples.append(asked.samples)
        seen.connection.append(asked.connection)
        seen.number.append(asked.number)

        def leave() -> None:
            now = time.monotonic_ns()
            if now < due:  # a timer may be early by its rounding
                self.loop.call_later((due - now) / SECOND_NS, leave)
                return
            seen.sent[index] = now
            reply()

        if due <= received:
            leave()
        else:
            self.loop.call_at(due / SECOND_NS, leave)

    def _due(self, index: int, received: int) -> int:
        delay = self.delays[index % len(self.delays)]
        if self.is_queue:
            # Departures are reckoned, not measured, so that a late timer adds no load.
            self._last_departure = max(received, self._last_departure) + delay
            return self._last_departure
        if self.stall is not None and index == self.stall[0]:
            self._stalled_until = received + self.stall[1]
        return max(received + delay, self._stalled_until)

    def obey(self, order: dict[str, Any]) -> None:
        """Begin anew under another law."""
        self.delays = order["delays"]
        self.is_queue = order["isQueue"]
        stall = order["stall"]
        self.stall = None if stall is None else (stall[0], stall[1])
        self.seen = Seen()
        self._last_departure = self._stalled_until = 0
        gc.collect()

    def report(self) -> dict[str, Any]:
        """Return what was seen since the last order."""
        seen = self.seen
        return {
            "received": seen.received,
            "due": seen.due,
            "sent": seen.sent,
            "samples": seen.samples,
            "connection": seen.connection,
            "number": seen.number,
        }


class Orders:
    """Takes orders from standard input and answers each with a line."""

    def __init__(self, oracle: Oracle, over: asyncio.Event) -> None:
        self._oracle = oracle
        self._over = over
        self._pending = b""

    def on_readable(self) -> None:
        """Carry out the orders that have come; the end of input ends the process."""
        piece = os.read(sys.stdin.fileno(), 1 << 20)
        if not piece:
            self._over.set()
            return
        *lines, self._pending = (self._pending + piece).split(b"\n")
        for line in lines:
            order = json.loads(line)
            if "report" in order:
                tell(self._oracle.report())
            else:
                self._oracle.obey(order)
                tell({"obeys": True})


def tell(what: dict[str, Any]) -> None:
    """Write a line of JSON."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


async def serve() -> None:
    """Serve until standard input ends."""
    loop = asyncio.get_running_loop()
    oracle = Oracle(loop)
    http = await loop.create_server(lambda: HttpFront(oracle.take), "127.0.0.1", 0)
    rpc, rpc_port = await grpc_front(oracle.take)
    over = asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), Orders(oracle, over).on_readable)
    tell({"httpPort": http.sockets[0].getsockname()[1], "grpcPort": rpc_port})
    await over.wait()
    await rpc.stop(0)
    http.close()


def new_loop() -> asyncio.AbstractEventLoop:
    """Return a loop whose timers are exact: epoll waits in whole milliseconds, select does not."""
    return asyncio.SelectorEventLoop(selectors.SelectSelector())


if __name__ == "__main__":
    gc.freeze()
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(serve())
