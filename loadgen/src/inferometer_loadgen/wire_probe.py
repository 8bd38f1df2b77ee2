"""Round trips and bandwidth of our wire: `python -m inferometer_loadgen.wire_probe`.

It measures servers of the identity model over HTTP and gRPC, by one connection that has one request
at a time, and prints a document (WireRates) as the last line of its standard output.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Literal

import numpy as np
import uvloop

from inferometer_api.nodes.characteristics import NodeFigure
from inferometer_api.nodes.figures import figure
from inferometer_api.nodes.wire_rates import (
    WIRE_DATATYPE,
    WIRE_INPUT,
    WIRE_MODEL,
    WIRE_OUTPUT,
    WireRates,
)
from inferometer_api.results.result import Tensor
from inferometer_loadgen.requests.encode import Encoder
from inferometer_loadgen.wire.connection import open_connection, prepare
from inferometer_loadgen.wire.contract import (
    Connection,
    ConnectionFailedError,
    Failure,
    PreparedRequest,
    ReplyBody,
    RequestTarget,
)

Protocol = Literal["HTTP", "GRPC"]
_PROTOCOLS: tuple[Protocol, ...] = ("HTTP", "GRPC")
_SMALL_BYTES, _LARGE_BYTES = 64, 16 << 20
_ROUND_TRIPS, _LARGE_QUERIES, _REPEATS = 500, 4, 7
_READY_SECONDS, _MEASURE_SECONDS, _POLL_SECONDS = 60.0, 60.0, 0.1
_LATER_READY_SECONDS = 5.0
"""A server that had the whole time over one protocol needs no more over the next."""


class _NotAnsweredError(Exception):
    """A server does not answer as it should; the message is a sentence."""


@dataclass(frozen=True, slots=True)
class WireTarget:
    """A server of the identity model."""

    name: str
    """Begin of the names of its figures: loopback or podToPod."""
    host: str
    http_port: int
    grpc_port: int

    def requests_to(self, protocol: Protocol) -> RequestTarget:
        """Return where the requests of a protocol go."""
        port = self.http_port if protocol == "HTTP" else self.grpc_port
        return RequestTarget(protocol, self.host, port, WIRE_MODEL)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the document and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m inferometer_loadgen.wire_probe")
    parser.add_argument(
        "--target", nargs=4, action="append", default=[], metavar=("NAME", "HOST", "HTTP", "GRPC")
    )
    parser.add_argument(
        "--unavailable", nargs=2, action="append", default=[], metavar=("NAME", "REASON")
    )
    options = parser.parse_args(arguments)
    targets = [
        WireTarget(name, host, int(http_port), int(grpc_port))
        for name, host, http_port, grpc_port in options.target
    ]
    rates = uvloop.run(measure_wire(targets, dict(options.unavailable)))
    sys.stdout.write(rates.model_dump_json(by_alias=True, exclude_none=True) + "\n")
    return 0


async def measure_wire(
    targets: Sequence[WireTarget],
    unavailable: Mapping[str, str],
    ready_seconds: float = _READY_SECONDS,
) -> WireRates:
    """Measure each target over each protocol, one at a time; wait until it is ready once.

    `unavailable` are further primitives that have no target, with the reason.
    """
    figures: list[NodeFigure] = []
    reasons = dict(unavailable)
    for target in targets:
        wait_seconds = ready_seconds
        for protocol in _PROTOCOLS:
            most_seconds = wait_seconds + _MEASURE_SECONDS
            try:
                async with asyncio.timeout(most_seconds):
                    figures += await _measure(target, protocol, wait_seconds)
            except TimeoutError:
                reasons[f"{target.name} ({protocol})"] = f"it took more than {most_seconds:.0f} s"
            except _NotAnsweredError as error:
                reasons[f"{target.name} ({protocol})"] = str(error).rstrip(".")
            wait_seconds = min(ready_seconds, _LATER_READY_SECONDS)
    return WireRates(figures=figures, unavailable=reasons)


async def _measure(
    target: WireTarget, protocol: Protocol, ready_seconds: float
) -> list[NodeFigure]:
    """Return the figures of one protocol. Raises _NotAnsweredError."""
    requests = target.requests_to(protocol)
    small, large = (_request(requests, size) for size in (_SMALL_BYTES, _LARGE_BYTES))
    client = await _ready_client(requests, small, ready_seconds)
    try:
        trips = [median(await client.latencies_ns(small, _ROUND_TRIPS)) for _ in range(_REPEATS)]
        await client.latencies_ns(large, 1)  # buffers grow
        taken = [sum(await client.latencies_ns(large, _LARGE_QUERIES)) for _ in range(_REPEATS)]
    finally:
        await client.connection.close()
    moved = 2 * _LARGE_BYTES * _LARGE_QUERIES  # there and back
    setting = {"protocol": protocol}
    return [
        figure(f"{target.name}/roundTrip", "ns", trips, {**setting, "bytes": _SMALL_BYTES}),
        figure(
            f"{target.name}/bandwidth",
            "bytes/s",
            [moved * 1e9 / each for each in taken],
            {**setting, "bytes": _LARGE_BYTES},
        ),
    ]


def _request(target: RequestTarget, size_bytes: int) -> PreparedRequest:
    tensors = [
        Tensor(name=name, datatype=WIRE_DATATYPE, shape=[-1]) for name in (WIRE_INPUT, WIRE_OUTPUT)
    ]
    encoder = Encoder(target.protocol, WIRE_MODEL, "", tensors[:1], tensors[1:], binary=True)
    return prepare(target, encoder.encode({WIRE_INPUT: np.zeros(size_bytes, np.uint8)}))


async def _ready_client(
    target: RequestTarget, request: PreparedRequest, ready_seconds: float
) -> "_Client":
    """Return a client whose request was answered. Raises _NotAnsweredError past the time."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + ready_seconds
    while True:
        client = _Client()
        try:
            client.connection = await open_connection(
                target, client.on_reply, lambda _: None, connect_timeout_seconds=ready_seconds
            )
            await client.latencies_ns(request, 1)
        except (ConnectionFailedError, _NotAnsweredError) as error:
            await client.close()
            if loop.time() >= deadline:
                raise _NotAnsweredError(str(error)) from error
        else:
            return client
        await asyncio.sleep(_POLL_SECONDS)


@dataclass(slots=True)
class _Client:
    """One connection with one request at a time: each reply sends the next."""

    connection: Connection = field(init=False)
    _request: PreparedRequest = field(init=False)
    _left: int = 0
    _sent_ns: int = 0
    _latencies_ns: list[int] = field(default_factory=list)
    _done: "asyncio.Future[None] | None" = None

    async def latencies_ns(self, request: PreparedRequest, count: int) -> list[int]:
        """Send so many requests, one after another. Raises _NotAnsweredError if one fails."""
        self._request, self._left, self._latencies_ns = request, count, []
        self._done = asyncio.get_running_loop().create_future()
        self._send()
        await self._done
        return self._latencies_ns

    def on_reply(self, _token: int, failure: Failure | None, _body: ReplyBody | None) -> None:
        """Take the time, and send the next request."""
        self._latencies_ns.append(time.perf_counter_ns() - self._sent_ns)
        self._left -= 1
        if self._done is None or self._done.done():
            return
        if failure is not None:
            self._done.set_exception(_NotAnsweredError(failure.message))
        elif self._left:
            self._send()
        else:
            self._done.set_result(None)

    async def close(self) -> None:
        """Close the connection, if it is open."""
        if hasattr(self, "connection"):
            await self.connection.close()

    def _send(self) -> None:
        self._sent_ns = time.perf_counter_ns()
        self.connection.send(self._request, self._left)


if __name__ == "__main__":
    sys.exit(main())
