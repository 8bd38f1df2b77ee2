"""The case client-cost: what does sending a request cost the load generator?"""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from bench.case import Case, Figures, Place, Row, Side, Source, Turn, Unit
from bench.figures import Bound
from bench.load_generator import measured_load
from bench.model_files import TINY, Protocol
from bench.processes import Child, started
from bench.servers import Server, check_tiny, inferometer_server
from bench.wrk import require_wrk, run_wrk

_WRK = "wrk, 8 connections"
_WIRE_HTTP = "wire, HTTP, 8 connections"
_WRK_ONE = "wrk, 1 connection"
_SINGLE_HTTP = "load generator, singleStream, HTTP"
_AIO = "grpc.aio, 8 streams"
_WIRE_GRPC = "wire, gRPC, 8 streams"
_POISSON_HTTP = "load generator, Poisson, HTTP"
_POISSON_GRPC = "load generator, Poisson, gRPC"

_COST = "client CPU seconds per request"
_RATE = "requests per second"
_POISSON_QPS = 2000
_WARM_SECONDS = 0.5
_MICROSECONDS = Unit(" µs", 1, scale=1e6)
_PER_SECOND = Unit(" /s", 0)


@contextmanager
def _stage(place: Place, sides: frozenset[str]) -> Iterator[Mapping[str, Turn]]:
    with ExitStack() as stack:
        server = stack.enter_context(inferometer_server(place, TINY))
        check_tiny(server)

        def client(kind: str, protocol: Protocol, *layout: str) -> Turn:
            port = server.http_port if protocol == "HTTP" else server.grpc_port
            words = (kind, "--protocol", protocol, "--port", str(port), *layout)
            command = [sys.executable, "-m", "bench.client", *words]
            process = stack.enter_context(
                started(kind, command, core=place.client_core, folder=place.folder)
            )
            process.ask(seconds=_WARM_SECONDS)
            return lambda: _client(process, place.turn_seconds)

        poisson = {"server": {"targetQps": _POISSON_QPS, "latencyBoundMicroseconds": 1_000_000}}
        turns: dict[str, Callable[[], Turn]] = {
            _WRK: lambda: lambda: _wrk(place, server, 8),
            _WIRE_HTTP: lambda: client("wire", "HTTP", "--connections", "8"),
            _WRK_ONE: lambda: lambda: _wrk(place, server, 1),
            _SINGLE_HTTP: lambda: lambda: _whole(place, server, "HTTP", {"singleStream": {}}),
            _AIO: lambda: client("grpc.aio", "GRPC", "--streams", "8"),
            _WIRE_GRPC: lambda: client("wire", "GRPC", "--streams", "8"),
            _POISSON_HTTP: lambda: lambda: _whole(place, server, "HTTP", poisson),
            _POISSON_GRPC: lambda: lambda: _whole(place, server, "GRPC", poisson),
        }
        yield {name: make() for name, make in turns.items() if name in sides}


def _wrk(place: Place, server: Server, connections: int) -> Figures:
    found = run_wrk(
        "binary.lua",
        server.http_port,
        connections=connections,
        seconds=place.turn_seconds,
        core=place.client_core,
    )
    return {_COST: found.cpu_seconds / found.requests, _RATE: found.requests_per_second}


def _client(process: Child, seconds: float) -> Figures:
    told = process.ask(seconds=seconds)
    return {
        _COST: told["cpuSeconds"] / told["requests"],
        _RATE: told["requests"] / told["wallSeconds"],
    }


def _whole(place: Place, server: Server, protocol: Protocol, scenario: dict[str, Any]) -> Figures:
    found = measured_load(place, server, protocol, scenario)
    return {_COST: found.client_cpu_seconds_per_query, _RATE: found.queries_per_second}


def _cost(what: str, ours: str, peer: str | None = None, *goal: Bound) -> Row:
    return Row(
        what, Source(ours, _COST), _MICROSECONDS, Source(peer, _COST) if peer else None, goal
    )


CLIENT_COST = Case(
    name="client-cost",
    title="What sending a request costs the load generator",
    text=f"""\
User and system time of the client for each request to the tiny model, binary tensors both ways;
the client has one core, Inferometer's server the other. *wire* is the load generator's own HTTP/1.1
and HTTP/2 alone in a closed loop: encoded requests out, replies parsed, their status and framing
checked, and the outputs of one reply in 64. wrk only looks at the status. *load generator* is all
of it (`python -m inferometer_loadgen`) with schedule, pacing, histograms, windows and progress, in
its measured window: `singleStream` (one outstanding) next to wrk with one connection, and `server`
with Poisson arrivals at {_POISSON_QPS:,} a second, where each request costs at least one wake-up of
its own. grpc.aio is Python's usual gRPC client, here with a request encoded once, so without the
cost of its messages. What a request costs depends on how many replies come with one read, so all
figures are of one server in one run.""",
    commands=(".venv/bin/python bench/run.py --case client-cost",),
    sides=(
        Side(_WRK, require_wrk),
        Side(_WIRE_HTTP),
        Side(_WRK_ONE, require_wrk),
        Side(_SINGLE_HTTP),
        Side(_AIO),
        Side(_WIRE_GRPC),
        Side(_POISSON_HTTP),
        Side(_POISSON_GRPC),
    ),
    stage=_stage,
    rows=(
        _cost("wire, HTTP, 8 connections", _WIRE_HTTP, _WRK, Bound("ratio", "at most", 1.25)),
        Row(
            "the same: requests per second",
            Source(_WIRE_HTTP, _RATE),
            _PER_SECOND,
            Source(_WRK, _RATE),
        ),
        _cost("wire, gRPC, 8 streams on one connection", _WIRE_GRPC, _AIO),
        _cost("load generator, singleStream, HTTP", _SINGLE_HTTP, _WRK_ONE),
        _cost(f"load generator, Poisson at {_POISSON_QPS:,}/s, HTTP", _POISSON_HTTP),
        _cost(f"load generator, Poisson at {_POISSON_QPS:,}/s, gRPC", _POISSON_GRPC),
    ),
)
