"""A server, as a process of its own, that follows a script and records what it saw.

    python -m support.oracle_server [LISTEN]

It speaks the Open Inference Protocol over HTTP and gRPC, by default on ports of 127.0.0.1; LISTEN
is the JSON of a `Listen`. It takes orders as lines of JSON on standard input and answers each with
a line: `{"script": {...}}` is followed from the next inference on; `{"report": true}`,
`{"counts": true}` and `{"headers": true}` are answered by what was seen since. Times are
nanoseconds of CLOCK_MONOTONIC, which all processes of a machine share.
"""

import asyncio
import gc
import json
import os
import selectors
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from itertools import cycle
from pathlib import Path
from typing import Any

from support.oracle_http import HttpFront, OracleRequest, Reply
from support.oracle_rpc import grpc_front
from support.oracle_script import FAULTS, Fault, Script
from support.tls_party import server_side

SECOND_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Listen:
    """Where an oracle listens, and with which certificate."""

    host: str = "127.0.0.1"
    tls_folder: str = ""
    """Where the certificates are written; empty: no TLS."""
    shown: str = "server"
    wants_client: bool = False


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
    fault: list[int] = field(default_factory=list)
    """What was wrong with its reply, by its place in FAULTS."""


@dataclass(slots=True)
class Oracle:
    """The script that it follows, and what was seen."""

    loop: asyncio.AbstractEventLoop
    script: Script = field(default_factory=Script)
    headers: list[dict[str, str]] = field(default_factory=list)
    seen: Seen = field(default_factory=Seen)
    leave: Callable[[int], None] = lambda _: None
    """Lose all HTTP connections for so long."""
    _answered: int = 0
    _last_departure: int = 0
    _stalled_until: int = 0
    _tokens: float = 0.0
    _filled: int = 0
    _settings: Any = None

    def take(self, request: OracleRequest, reply: Reply) -> None:
        """Write down an inference, and call `reply` when the script says so."""
        received = time.monotonic_ns()
        seen = self.seen
        index = len(seen.received)
        self._happen(index)
        due = self._due(index, received)
        fault = self._fault(index, received)
        seen.received.append(received)
        seen.due.append(due)
        seen.sent.append(0)
        seen.samples.append(request.samples)
        seen.connection.append(request.connection)
        seen.number.append(request.number)
        seen.fault.append(FAULTS.index(fault))

        def send() -> None:
            now = time.monotonic_ns()
            if now < due:  # a timer may be early by its rounding
                self.loop.call_later((due - now) / SECOND_NS, send)
                return
            if fault != "silence":
                seen.sent[index] = now
                self._answered += fault is None
            reply(fault)

        if due <= received:
            send()
        else:
            self.loop.call_at(due / SECOND_NS, send)

    def _happen(self, index: int) -> None:
        """Do what the script has for the receipt of this inference."""
        script = self.script
        if index in script.changes:
            self.script = replace(script, **script.changes[index])
            self._settings = None
        if index == script.dies_at:
            os._exit(1)
        if script.away is not None and index == script.away[0]:
            self.leave(script.away[1])

    def _due(self, index: int, received: int) -> int:
        script = self.script
        delay: int = script.delays[index % len(script.delays)]
        if script.is_queue:
            # Departures are reckoned, not measured, so that a late timer adds no load.
            self._last_departure = max(received, self._last_departure) + delay
            return self._last_departure
        if script.stall is not None and index == script.stall[0]:
            self._stalled_until = received + script.stall[1]
        return max(received + delay, self._stalled_until)

    def _fault(self, index: int, received: int) -> Fault | None:
        script = self.script
        if script.limit is not None:
            most, per_second = script.limit
            filled = self._tokens + per_second * (received - self._filled) / SECOND_NS
            self._tokens, self._filled = min(most, filled), received
            if self._tokens < 1:
                return "status"
            self._tokens -= 1
        if index < script.faults_from:
            return None
        return script.faults[index % len(script.faults)]

    def parameters(self) -> dict[str, str] | None:
        """Return the parameters of the model's configuration, None if there are none."""
        settings = self.script.settings
        if settings is None or isinstance(settings, dict):
            return settings
        if self._settings is None:
            self._settings = cycle(settings)
        found: dict[str, str] = next(self._settings)
        return found

    def follow(self, script: Script) -> None:
        """Begin anew under another script."""
        self.script = script
        self.seen = Seen()
        self.headers.clear()
        self._answered = self._last_departure = self._stalled_until = 0
        self._tokens, self._filled = float("inf"), time.monotonic_ns()
        self._settings = None
        gc.collect()

    def report(self) -> dict[str, Any]:
        """Return what was seen since the last script."""
        seen = self.seen
        return {
            "received": seen.received,
            "due": seen.due,
            "sent": seen.sent,
            "samples": seen.samples,
            "connection": seen.connection,
            "number": seen.number,
            "fault": seen.fault,
        }

    def carry_out(self, order: dict[str, Any]) -> dict[str, Any]:
        """Carry out an order and return the answer."""
        if "script" in order:
            self.follow(Script.read(order["script"]))
            return {"follows": True}
        if "headers" in order:
            return {"headers": self.headers}
        if "counts" in order:
            return {"received": len(self.seen.received), "answered": self._answered}
        return self.report()


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
            write_line(self._oracle.carry_out(json.loads(line)))


def write_line(document: dict[str, Any]) -> None:
    """Write a line of JSON."""
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()


async def serve(
    oracle: Oracle, listen: Listen, begun: Callable[[int, int], Awaitable[None]]
) -> None:
    """Serve until `begun`, which is called with the ports of HTTP and gRPC, has ended."""
    context, credentials = (
        server_side(Path(listen.tls_folder), listen.shown, wants_client=listen.wants_client)  # type: ignore[arg-type]  # one of its names
        if listen.tls_folder
        else (None, None)
    )
    connections: set[asyncio.Transport] = set()
    fronts: list[asyncio.Server] = []

    async def front(port: int) -> int:
        fronts.append(
            await oracle.loop.create_server(
                lambda: HttpFront(oracle, connections), listen.host, port, ssl=context
            )
        )
        taken: int = fronts[-1].sockets[0].getsockname()[1]
        return taken

    http_port = await front(0)

    def leave(duration_ns: int) -> None:
        fronts.pop().close()
        for connection in list(connections):
            connection.abort()
        oracle.loop.call_later(
            duration_ns / SECOND_NS, lambda: asyncio.ensure_future(front(http_port))
        )

    oracle.leave = leave
    rpc, rpc_port = await grpc_front(oracle, listen.host, credentials)
    await begun(http_port, rpc_port)
    await rpc.stop(0)
    for each in fronts:
        each.close()


async def serve_orders(listen: Listen) -> None:
    """Serve until standard input ends."""
    loop = asyncio.get_running_loop()
    oracle, over = Oracle(loop), asyncio.Event()

    async def begun(http_port: int, grpc_port: int) -> None:
        loop.add_reader(sys.stdin.fileno(), Orders(oracle, over).on_readable)
        write_line({"httpPort": http_port, "grpcPort": grpc_port})
        await over.wait()

    await serve(oracle, listen, begun)


def new_loop() -> asyncio.AbstractEventLoop:
    """Return a loop whose timers are exact: epoll waits in whole milliseconds, select does not."""
    return asyncio.SelectorEventLoop(selectors.SelectSelector())


if __name__ == "__main__":
    gc.freeze()
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(serve_orders(Listen(**json.loads(sys.argv[1] if sys.argv[1:] else "{}"))))
