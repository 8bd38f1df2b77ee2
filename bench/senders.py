"""Senders of requests, and the CPU per request of each."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bench.case import Figures, Place
from bench.client_cost import Layout, measured_load
from bench.model_files import LARGE, TINY, Measurand, Protocol
from bench.perf_analyzer import Clients, PerfOptions, Rate, require_perf_analyzer, run_perf_analyzer
from bench.processes import BenchError, on_core
from bench.servers import Server
from bench.wrk import require_wrk, run_wrk

COST = "client CPU seconds per request"
RATE = "requests per second"
ANSWERED_SHARE = "answered of what was due"
CLIENTS = 8
"""How many requests each closed loop keeps outstanding."""

_PERF_REQUESTS_A_SECOND = {TINY.name: 10_000, LARGE.name: 1_000}
"""How many perf_analyzer sends for each second of a turn: its start weighs little then."""
_SCRIPTS = {TINY.name: "binary.lua", LARGE.name: "large.lua"}


@dataclass(frozen=True, slots=True)
class Sender:
    """One who sends, and how."""

    name: str
    send: Callable[[Place, Server], Figures]
    """Sends for the length of a turn."""
    require: Callable[[], None] = lambda: None


def ours_closed(protocol: Protocol, layout: Layout, measurand: Measurand = TINY) -> Sender:
    """Return the whole load generator with a number of clients."""
    words = "" if protocol == "HTTP" else f", {layout.connections} x {layout.streams}"
    return _ours(f"{_protocol_name(protocol)}{words}", protocol, _CLOSED, layout, measurand)


def ours_open(protocol: Protocol, per_second: int) -> Sender:
    """Return the whole load generator with Poisson arrivals."""
    scenario = {"server": {"targetQps": per_second, "latencyBoundMicroseconds": 1_000_000}}
    return _ours(
        f"{_protocol_name(protocol)}, {per_second:,}/s", protocol, scenario, Layout(), TINY
    )


def wrk(measurand: Measurand = TINY) -> Sender:
    """Return wrk."""

    def send(place: Place, server: Server) -> Figures:
        found = run_wrk(
            _SCRIPTS[measurand.name],
            server.http_port,
            connections=CLIENTS,
            seconds=place.turn_seconds,
            core=place.client_core,
        )
        return {COST: found.cpu_seconds / found.requests, RATE: found.requests_per_second}

    return Sender("wrk", send, require_wrk)


def perf_closed(protocol: Protocol, share: int = CLIENTS, measurand: Measurand = TINY) -> Sender:
    """Return perf_analyzer with its own default, a thread for each request outstanding."""

    def send(place: Place, server: Server) -> Figures:
        requests = round(_PERF_REQUESTS_A_SECOND[measurand.name] * place.turn_seconds)
        return _perf(
            place,
            PerfOptions(
                _port(server, protocol),
                Clients(CLIENTS),
                protocol,
                measurand,
                requests=requests,
                seconds=place.turn_seconds,
                # It reads the model's metadata on a connection that its clients share.
                share=share + (share > 1),
            ),
        )

    words = "" if protocol == "HTTP" else f", {CLIENTS // share} x {share}"
    return Sender(f"perf_analyzer, {_protocol_name(protocol)}{words}", send, require_perf_analyzer)


def perf_open(protocol: Protocol, per_second: int) -> Sender:
    """Return perf_analyzer with Poisson arrivals and its own default, four threads that wait."""

    def send(place: Place, server: Server) -> Figures:
        rate = Rate(per_second, is_async=False)
        options = PerfOptions(_port(server, protocol), rate, protocol, seconds=place.turn_seconds)
        figures = _perf(place, options)
        return {**figures, ANSWERED_SHARE: figures[RATE] / per_second}

    name = f"perf_analyzer, {_protocol_name(protocol)}, {per_second:,}/s"
    return Sender(name, send, require_perf_analyzer)


def python_client(name: str, protocol: Protocol) -> Sender:
    """Return a client that is written in Python: see bench/python_clients.py."""

    def send(place: Place, server: Server) -> Figures:
        port = str(_port(server, protocol))
        words = (name, "--protocol", protocol, "--port", port, "--clients", str(CLIENTS))
        command = [sys.executable, "-m", "bench.python_clients", *words]
        with on_core(place.client_core):
            done = subprocess.run(
                [*command, "--seconds", str(place.turn_seconds)],
                capture_output=True,
                text=True,
                check=False,
            )
        if done.returncode != 0:
            raise BenchError(f"{name} ended with {done.returncode}: {done.stderr[-600:]}")
        cost = json.loads(done.stdout.splitlines()[-1])
        return {
            COST: cost["cpuSeconds"] / cost["requests"],
            RATE: cost["requests"] / cost["wallSeconds"],
        }

    return Sender(f"{name}, {_protocol_name(protocol)}", send)


_CLOSED = {"concurrency": {"clients": [CLIENTS]}}


def _ours(
    name: str, protocol: Protocol, scenario: dict[str, Any], layout: Layout, measurand: Measurand
) -> Sender:
    def send(place: Place, server: Server) -> Figures:
        found = measured_load(place, server, protocol, scenario, layout, measurand)
        return {
            COST: found.client_cpu_seconds_per_query,
            RATE: found.queries_per_second,
            ANSWERED_SHARE: found.answered_share,
        }

    return Sender(f"Inferometer, {name}", send)


def _perf(place: Place, options: PerfOptions) -> Figures:
    found = run_perf_analyzer(options, place.client_core)
    return {COST: found.cpu_seconds_per_request, RATE: found.requests_per_second}


def _port(server: Server, protocol: Protocol) -> int:
    return server.http_port if protocol == "HTTP" else server.grpc_port


def _protocol_name(protocol: Protocol) -> str:
    return "HTTP" if protocol == "HTTP" else "gRPC"
