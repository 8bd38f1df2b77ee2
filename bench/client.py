"""Cost of a client of ours that keeps a number of requests outstanding.

    python -m bench.client wire --protocol HTTP --port 8000 --model tiny --connections 8

For each line {"seconds": 3} or {"requests": 10} on standard input it answers with a line that
reports requests, wall and CPU seconds of the window, and the median latency. Each client sends a
request whose bytes were made before, and checks status and framing of each reply and the outputs
of one in 64, as the load generator does.
"""

import argparse
import asyncio
import json
import sys
from array import array
from dataclasses import dataclass
from statistics import median
from time import perf_counter, process_time

import grpc  # type: ignore[import-untyped]  # ships no types
import uvloop
from bench.model_files import MEASURANDS, Measurand, Protocol
from bench.traffic import expectation, request_of, target_of

from inferometer_loadgen.requests.replies import EVERY
from inferometer_loadgen.wire import Connection, EncodedRequest, Failure, ReplyBody
from inferometer_loadgen.wire.connection import open_connection, prepare

_METHOD = "/inference.GRPCInferenceService/ModelInfer"


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """The options of the command line."""

    client: str
    protocol: Protocol
    port: int
    measurand: Measurand
    connections: int
    streams: int


@dataclass(frozen=True, slots=True)
class Window:
    """How long to send: for a time, or for a number of requests."""

    seconds: float = 0.0
    requests: int = 0

    def is_over(self, elapsed_seconds: float, answered: int) -> bool:
        """Return whether nothing more is to be sent."""
        return elapsed_seconds >= self.seconds and answered >= self.requests


class FaultyReplyError(RuntimeError):
    """A reply that is not what it must be: nothing that follows is worth a figure."""


class WireLoop:
    """Our own wire protocols: the next request leaves in the loop turn that read the reply."""

    def __init__(self, options: ClientOptions) -> None:
        self._options = options
        self._target = target_of(options.measurand, options.protocol, options.port)
        encoded = request_of(options.measurand, options.protocol)
        self._prepared = prepare(self._target, encoded)
        self._fault = expectation(options.measurand, options.protocol).fault
        self._carriers: list[Connection] = []
        self._sent: list[float] = []
        self._latencies = array("d")
        self._window = Window()
        self._began = 0.0
        self._sends = 0
        self._outstanding = 0
        self._done: asyncio.Future[None] | None = None

    async def open(self) -> None:
        """Open all connections."""
        options = self._options
        for _ in range(options.connections):
            connection = await open_connection(
                self._target, self._on_reply, lambda _: None, streams=options.streams
            )
            self._carriers += [connection] * options.streams
        self._sent = [0.0] * len(self._carriers)

    async def run(self, window: Window) -> "array[float]":
        """Return the latencies of a window, in seconds."""
        self._window = window
        self._latencies = array("d")
        self._done = asyncio.get_running_loop().create_future()
        self._began = perf_counter()
        self._outstanding = len(self._carriers)
        for token in range(len(self._carriers)):
            self._send(token, self._began)
        await self._done
        return self._latencies

    def _send(self, token: int, now: float) -> None:
        self._sent[token] = now
        self._sends += 1
        self._carriers[token].send(self._prepared, token, self._sends % EVERY == 0)

    def _on_reply(self, token: int, failure: Failure | None, reply: ReplyBody | None) -> None:
        now = perf_counter()
        self._latencies.append(now - self._sent[token])
        fault = failure or (self._fault(reply) if reply is not None else None)
        if fault is not None and self._done is not None and not self._done.done():
            self._done.set_exception(FaultyReplyError(str(fault)))
        elif not self._window.is_over(now - self._began, len(self._latencies)):
            self._send(token, now)
        else:
            self._outstanding -= 1
            if not self._outstanding and self._done is not None:
                self._done.set_result(None)


class AioLoop:
    """grpc.aio with a request encoded once: as cheap as that client can be used."""

    def __init__(self, options: ClientOptions) -> None:
        self._options = options
        encoded: EncodedRequest = request_of(options.measurand, options.protocol)
        self._payload = encoded.payload
        self._fault = expectation(options.measurand, options.protocol).fault
        self._channels: list[grpc.aio.Channel] = []
        self._latencies = array("d")
        self._sends = 0

    async def open(self) -> None:
        """Open all channels."""
        address = f"127.0.0.1:{self._options.port}"
        for number in range(self._options.connections):
            # Channels of one process share connections unless their options differ.
            channel = grpc.aio.insecure_channel(address, [("bench.number", number)])
            await channel.channel_ready()
            self._channels.append(channel)

    async def run(self, window: Window) -> "array[float]":
        """Return the latencies of a window, in seconds."""
        self._latencies = array("d")
        began = perf_counter()
        await asyncio.gather(
            *(
                self._stream(channel, window, began)
                for channel in self._channels
                for _ in range(self._options.streams)
            )
        )
        return self._latencies

    async def _stream(self, channel: grpc.aio.Channel, window: Window, began: float) -> None:
        call = channel.unary_unary(_METHOD)
        now = began
        while not window.is_over(now - began, len(self._latencies)):
            sent = now
            self._sends += 1
            body: bytes = await call(self._payload)
            if self._sends % EVERY == 0 and (fault := self._fault(ReplyBody(body, None))):
                raise FaultyReplyError(fault)
            now = perf_counter()
            self._latencies.append(now - sent)


async def _serve(options: ClientOptions) -> None:
    loop = WireLoop(options) if options.client == "wire" else AioLoop(options)
    await loop.open()
    while line := await asyncio.to_thread(sys.stdin.readline):
        window = Window(**json.loads(line))
        wall, cpu = perf_counter(), process_time()
        latencies = await loop.run(window)
        cpu, wall = process_time() - cpu, perf_counter() - wall
        figures = {
            "requests": len(latencies),
            "wallSeconds": wall,
            "cpuSeconds": cpu,
            "medianSeconds": median(latencies),
        }
        sys.stdout.write(json.dumps(figures) + "\n")
        sys.stdout.flush()


def main() -> None:
    """Answer until standard input ends."""
    parser = argparse.ArgumentParser(description="Keep requests outstanding and report the cost.")
    parser.add_argument("client", choices=["wire", "grpc.aio"])
    parser.add_argument("--protocol", choices=["HTTP", "GRPC"], default="HTTP")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--model", choices=sorted(MEASURANDS), default="tiny")
    parser.add_argument("--samples", type=int, default=1, help="in each request")
    parser.add_argument("--connections", type=int, default=1)
    parser.add_argument("--streams", type=int, default=1)
    options = parser.parse_args()
    uvloop.run(
        _serve(
            ClientOptions(
                client=options.client,
                protocol=options.protocol,
                port=options.port,
                measurand=MEASURANDS[options.model].of_batch(options.samples),
                connections=options.connections,
                streams=options.streams,
            )
        )
    )


if __name__ == "__main__":
    main()
