"""The probe of the wire against our server, against slow ones, and against none."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator

import pytest
from aiohttp import web

from inferometer_api.nodes.wire_rates import (
    LOOPBACK,
    POD_TO_POD,
    WireRates,
    wire_probe_command,
    wire_server_command,
)
from inferometer_loadgen import wire_probe
from inferometer_loadgen.wire.contract import Connection, ConnectionFailedError, RequestTarget
from inferometer_loadgen.wire_probe import WireTarget, measure_wire
from support.waiting import DEADLINE_SECONDS, killed_at_deadline
from support.wire_client import run

_DELAY_SECONDS = 0.02


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure less often, and with less."""
    monkeypatch.setattr(wire_probe, "_ROUND_TRIPS", 5)
    monkeypatch.setattr(wire_probe, "_REPEATS", 2)
    monkeypatch.setattr(wire_probe, "_LARGE_BYTES", 1 << 16)


@pytest.fixture
def server() -> Iterator[tuple[str, int, int]]:
    """Run a server of the identity model; yield its host and ports."""
    command = wire_server_command(sys.executable, host="127.0.0.1")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        with killed_at_deadline(process, "the ports of the server"):
            ports = json.loads(process.stdout.readline())
        yield "127.0.0.1", ports["httpPort"], ports["grpcPort"]
        process.terminate()


def test_our_server_is_measured_over_both_protocols(server: tuple[str, int, int]) -> None:
    """Each has a round trip and a bandwidth, which a round trip of all bytes bounds."""
    command = wire_probe_command(sys.executable, {LOOPBACK: server}, {POD_TO_POD: "one node"})
    done = subprocess.run(command, capture_output=True, check=True)
    rates = WireRates.read_json(done.stdout.splitlines()[-1])
    assert rates.unavailable == {POD_TO_POD: "one node"}
    found = {(each.name, each.setting["protocol"]): each for each in rates.figures}
    assert found.keys() == {
        (f"{LOOPBACK}/{what}", protocol)
        for what in ("roundTrip", "bandwidth")
        for protocol in ("HTTP", "GRPC")
    }
    for protocol in ("HTTP", "GRPC"):
        trip = found[f"{LOOPBACK}/roundTrip", protocol]
        rate = found[f"{LOOPBACK}/bandwidth", protocol]
        assert (trip.unit, rate.unit) == ("ns", "bytes/s")
        assert len(trip.samples) == len(rate.samples) == 7
        size = int(rate.setting["bytes"])
        assert size == 16 << 20


async def _slow(request: web.Request) -> web.StreamResponse:
    """Return the body that was sent, after a while."""
    body = await request.read()
    await asyncio.sleep(_DELAY_SECONDS)
    length = request.headers["Inference-Header-Content-Length"]
    return web.Response(body=body, headers={"Inference-Header-Content-Length": length})


@pytest.mark.usefixtures("few")
def test_the_time_of_the_server_is_in_both_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """A round trip has it once, and so has each large tensor; what is not served has a reason."""
    monkeypatch.setattr(wire_probe, "_LATER_READY_SECONDS", 0.05)

    async def measured() -> WireRates:
        app = web.Application(client_max_size=1 << 26)
        app.router.add_post("/v2/models/identity/infer", _slow)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        port = runner.addresses[0][1]
        try:
            target = WireTarget(LOOPBACK, "127.0.0.1", port, port)
            return await measure_wire([target], {}, DEADLINE_SECONDS)
        finally:
            await runner.cleanup()

    rates = run(measured())
    trip, rate = rates.figures
    assert trip.best >= _DELAY_SECONDS * 1e9
    seconds = 2 * (1 << 16) / rate.best
    assert seconds >= _DELAY_SECONDS
    assert list(rates.unavailable) == [f"{LOOPBACK} (GRPC)"]


def test_a_server_that_cannot_be_reached_is_unavailable() -> None:
    """Each protocol has its reason."""
    rates = run(measure_wire([WireTarget(POD_TO_POD, "127.0.0.1", 1, 1)], {}, 0.2))
    assert rates.figures == []
    assert list(rates.unavailable) == [f"{POD_TO_POD} (HTTP)", f"{POD_TO_POD} (GRPC)"]
    assert all("127.0.0.1:1" in each for each in rates.unavailable.values())


def test_a_server_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the network drops what is sent, gRPC does not wait as long as HTTP has."""
    waited: dict[str, float] = {}

    async def dropped(
        target: RequestTarget, *_: object, connect_timeout_seconds: float
    ) -> Connection:
        waited.setdefault(target.protocol, connect_timeout_seconds)
        await asyncio.sleep(connect_timeout_seconds)
        raise ConnectionFailedError("no answer")

    monkeypatch.setattr(wire_probe, "open_connection", dropped)
    monkeypatch.setattr(wire_probe, "_LATER_READY_SECONDS", 0.05)
    rates = run(measure_wire([WireTarget(POD_TO_POD, "127.0.0.1", 1, 1)], {}, 0.2))
    assert waited == {"HTTP": 0.2, "GRPC": 0.05}
    assert len(rates.unavailable) == 2


@pytest.mark.usefixtures("few")
def test_a_server_that_answers_errors_is_unavailable() -> None:
    """The reason is the server's own."""

    async def failing(_: web.Request) -> web.StreamResponse:
        return web.json_response({"error": "no such model"}, status=404)

    async def measured() -> WireRates:
        app = web.Application()
        app.router.add_post("/v2/models/identity/infer", failing)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        port = runner.addresses[0][1]
        try:
            return await measure_wire([WireTarget(LOOPBACK, "127.0.0.1", port, port)], {}, 2)
        finally:
            await runner.cleanup()

    assert "no such model" in run(measured()).unavailable[f"{LOOPBACK} (HTTP)"]
