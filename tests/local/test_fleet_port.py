"""The port of a fleet's master serves the workers that know the fleet's token, and no one else."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgpack  # type: ignore[import-untyped]  # has no types
import pytest
import zmq
import zmq.asyncio
from zmq.utils import z85

from inferometer_api.plan.load_plan import PlannedFleet
from inferometer_loadgen.fleet.clock_sync import own_clock
from inferometer_loadgen.fleet.curve_keys import secure_client
from inferometer_loadgen.fleet.fleet import Fleet
from inferometer_loadgen.fleet.messages import WORKER_MESSAGES, Hello, SetUp, SetUpDone
from inferometer_loadgen.server.control_plane import ServerDescription
from support.waiting import until, within_deadline

_TOKEN = "the-fleets-token"  # noqa: S105 - of a fleet on loopback
_HELLO = WORKER_MESSAGES.dump_json(Hello(own_clock(), "a-node"))
_ORDER = SetUp("{}", ServerDescription("", "", [], [], [], []))


@asynccontextmanager
async def _fleet(workers: int = 1) -> AsyncIterator[tuple[Fleet, int]]:
    """Start the master of a fleet whose workers are elsewhere."""
    planned = PlannedFleet(starts_workers=False, token=_TOKEN)
    async with Fleet.start(planned, workers) as fleet:
        yield fleet, fleet.carrier.port  # type: ignore[attr-defined]  # Locust's


class _Peer:
    """A process that can reach the port."""

    def __init__(self, port: int, name: str, secure: Callable[[Any], None]) -> None:
        self._context = zmq.asyncio.Context()
        self._socket = self._context.socket(zmq.DEALER)
        self._name = name
        self._socket.setsockopt(zmq.IDENTITY, name.encode())
        self._socket.setsockopt(zmq.LINGER, 0)
        secure(self._socket)
        self._socket.connect(f"tcp://127.0.0.1:{port}")
        self.received: list[str] = []
        self._receiving = asyncio.create_task(self._receive())

    async def send(self, kind: str, data: object, name: str = "") -> None:
        """Send a message as Locust does."""
        await self._socket.send(msgpack.dumps((kind, data, name or self._name)))

    async def send_bytes(self, content: bytes) -> None:
        """Send what may be no message."""
        await self._socket.send(content)

    async def join(self, worker: int = 0) -> None:
        """Send what a worker sends first."""
        await self.send("client_ready", -1)
        await self.say(worker, _HELLO)

    async def say(self, worker: int, line: bytes) -> None:
        """Send a line as a worker's."""
        await self.send("inferometer-message", {"worker": worker, "line": line + b"\n"})

    def close(self) -> None:
        """Close the connection."""
        self._receiving.cancel()
        self._context.destroy(linger=0)

    async def _receive(self) -> None:
        while True:
            self.received.append(repr(msgpack.loads(await self._socket.recv())))


def _with_token(socket_: Any) -> None:
    secure_client(socket_, _TOKEN)


def _with_another(socket_: Any) -> None:
    secure_client(socket_, "a-guess")


def _with_any_key(socket_: Any) -> None:
    socket_.setsockopt(zmq.CURVE_SERVERKEY, z85.encode(b"k" * 32))
    public, secret = zmq.curve_keypair()
    socket_.setsockopt(zmq.CURVE_PUBLICKEY, public)
    socket_.setsockopt(zmq.CURVE_SECRETKEY, secret)


@pytest.mark.parametrize("secure", [lambda _: None, _with_another, _with_any_key])
def test_a_peer_without_the_token_is_no_worker(
    secure: Callable[[Any], None],
) -> None:
    """It gets no order, and takes no worker's place: the real one, which comes later, does."""

    async def run() -> list[str]:
        async with _fleet() as (fleet, port):
            stranger = _Peer(port, "stranger", secure)
            await stranger.join()
            with socket.create_connection(("127.0.0.1", port)) as plain:
                plain.sendall(b"GET / HTTP/1.1\r\n\r\n" + bytes(1 << 16))
            worker = _Peer(port, "worker", _with_token)
            await worker.join()
            async with within_deadline("the worker"):
                await fleet.wait_for_workers(lambda *_: None)
            fleet.send(_ORDER)
            await until(lambda: any("set-up" in each for each in worker.received), "the order")
            worker.close()
            stranger.close()
            return stranger.received

    assert asyncio.run(run()) == []


def test_the_first_worker_of_a_number_keeps_it() -> None:
    """A second one of the same number gets no order, and cannot report the first as lost."""

    async def run() -> tuple[list[str], dict[int, str]]:
        async with _fleet() as (fleet, port):
            first, second = (_Peer(port, name, _with_token) for name in ("first", "second"))
            await first.join()
            async with within_deadline("the worker"):
                await fleet.wait_for_workers(lambda *_: None)
            await second.join()
            await second.send("inferometer-lost", {"worker": 0, "loss_reason": "so it says"})
            await second.say(0, WORKER_MESSAGES.dump_json(SetUpDone()))
            await until(lambda: any("ack" in each for each in second.received), "the answer")
            asking = asyncio.create_task(fleet.request(_ORDER, SetUpDone))
            await until(lambda: any("set-up" in each for each in first.received), "the order")
            assert not asking.done()
            await first.say(0, WORKER_MESSAGES.dump_json(SetUpDone()))
            async with within_deadline("the answer"):
                await asking
            for peer in (first, second):
                peer.close()
            return [each for each in second.received if "order" in each], fleet.lost

    assert asyncio.run(run()) == ([], {})


_LOST = b'{"worker":0,"loss_reason":"so it says","type":"lost"}'


def test_malformed_messages_end_nothing() -> None:
    """Bytes, types, numbers and lines that make no sense are ignored, and the fleet goes on."""

    async def run() -> dict[int, str]:
        async with _fleet() as (fleet, port):
            worker, odd = (_Peer(port, name, _with_token) for name in ("worker", "odd"))
            for content in (b"", b"\xc1", bytes(100), b"\x93\xa1a", msgpack.dumps({"a": 1})):
                await odd.send_bytes(content)
            for kind in ("client_ready", "heartbeat", "stats", "spawning_complete", "logs"):
                for data in (None, 1, "x", {}, {"state": 1}):
                    await odd.send(kind, data)
            for kind in ("inferometer-message", "inferometer-lost"):
                for text in ("x", "{}", '{"worker":0}', '{"worker":"x","line":1}', '{"worker":[]}'):
                    await odd.send(kind, json.loads(text) if text != "x" else text)
            await odd.send("quit", None, name="worker")
            await odd.say(7, _HELLO)
            await odd.say(-1, b"no JSON")
            await odd.say(8, b"x\n" + _LOST)
            await worker.join()
            async with within_deadline("the worker"):
                await fleet.wait_for_workers(lambda *_: None)
            await worker.say(0, b'{"type":"unknown"}')
            await worker.say(0, b"x\n" + _LOST)
            asking = asyncio.create_task(fleet.request(_ORDER, SetUpDone))
            await until(lambda: any("set-up" in each for each in worker.received), "the order")
            await worker.say(0, WORKER_MESSAGES.dump_json(SetUpDone()))
            async with within_deadline("the answer"):
                await asking
            for peer in (worker, odd):
                peer.close()
            return fleet.lost

    assert asyncio.run(run()) == {}
