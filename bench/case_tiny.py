"""The case tiny-under-wrk: the rate of tiny requests that the server reaches on one core."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial

from bench.case import Case, Figures, Place, Row, Side, Source, Turn, Unit
from bench.figures import Bound
from bench.model_files import TINY
from bench.servers import (
    Server,
    check_tiny,
    inferometer_server,
    require_triton,
    triton_server,
)
from bench.uvicorn_prototype import require_uvicorn, uvicorn_server
from bench.wrk import require_wrk, run_wrk

_OURS_JSON = "Inferometer, JSON"
_OURS_BINARY = "Inferometer, binary tensors"
_TRITON_JSON = "Triton's Python backend, JSON"
_TRITON_BINARY = "Triton's Python backend, binary tensors"
_OURS_NEW_HEADS = "Inferometer, JSON, new heads"
_UVICORN_JSON = "uvicorn prototype, JSON"
_UVICORN_BINARY = "uvicorn prototype, binary tensors"
_UVICORN_NEW_HEADS = "uvicorn prototype, JSON, new heads"
_RATE = "requests per second"
_PER_CPU = "requests per server CPU second"
_CONNECTIONS = 8
_WARM_SECONDS = 1.0
_PER_SECOND = Unit(" /s", 0)
_GOAL = (Bound("figure", "at least", 20_000), Bound("ratio", "at least", 3))
_UVICORN_GOAL = (Bound("ratio", "at least", 1.05),)
_SCRIPTS = {
    _OURS_JSON: "json.lua",
    _OURS_BINARY: "binary.lua",
    _OURS_NEW_HEADS: "json_new_heads.lua",
    _TRITON_JSON: "json.lua",
    _TRITON_BINARY: "binary.lua",
    _UVICORN_JSON: "json.lua",
    _UVICORN_BINARY: "binary.lua",
    _UVICORN_NEW_HEADS: "json_new_heads.lua",
}


@contextmanager
def _stage(place: Place, sides: frozenset[str]) -> Iterator[Mapping[str, Turn]]:
    with ExitStack() as stack:
        servers = {"Inferometer": stack.enter_context(inferometer_server(place, TINY))}
        if _UVICORN_JSON in sides:
            servers["uvicorn prototype"] = stack.enter_context(uvicorn_server(place))
        if _TRITON_JSON in sides:
            servers["Triton's Python backend"] = stack.enter_context(triton_server(place))
        for server in servers.values():
            check_tiny(server)
        turns = {
            side: partial(_load, place, servers[side.partition(",")[0]], script)
            for side, script in _SCRIPTS.items()
            if side.partition(",")[0] in servers
        }
        for turn in turns.values():
            turn(seconds=_WARM_SECONDS)
        yield dict(turns)


def _load(place: Place, server: Server, script: str, seconds: float | None = None) -> Figures:
    before = server.process.cpu_seconds()
    found = run_wrk(
        script,
        server.http_port,
        connections=_CONNECTIONS,
        seconds=seconds or place.turn_seconds,
        core=place.client_core,
    )
    used = server.process.cpu_seconds() - before
    return {_RATE: found.requests_per_second, _PER_CPU: found.requests / used}


def _require_uvicorn() -> None:
    require_wrk()
    require_uvicorn()


def _require_triton() -> None:
    require_wrk()
    require_triton()


def _rows() -> tuple[Row, ...]:
    pairs = (
        ("JSON", _OURS_JSON, _TRITON_JSON, _GOAL),
        ("Binary tensors", _OURS_BINARY, _TRITON_BINARY, _GOAL),
        ("JSON", _OURS_JSON, _UVICORN_JSON, _UVICORN_GOAL),
        ("Binary tensors", _OURS_BINARY, _UVICORN_BINARY, _UVICORN_GOAL),
        ("JSON, new heads", _OURS_NEW_HEADS, _UVICORN_NEW_HEADS, ()),
    )
    return tuple(
        Row(f"{what}: {figure}", Source(ours, figure), _PER_SECOND, Source(peer, figure), goal)
        for what, ours, peer, goal in pairs
        for figure in (_RATE, _PER_CPU)
    )


TINY_UNDER_WRK = Case(
    name="tiny-under-wrk",
    title="How many requests the server gets through on one core: a tiny model under wrk",
    text="""\
A model that adds four numbers to four numbers, so that nearly all the work is the server's own:
reading HTTP and JSON or binary tensors, checking them against the model, calling ONNX Runtime,
writing the reply.

wrk keeps 8 requests outstanding on 8 connections from a core of its own; each server has one core
for all its threads and processes. *Requests per second* is wrk's count. *Requests per server CPU
second* divides this count by the CPU time of the server's processes, which other load on the
machine distorts less.

There are two peers. Triton's server runs its Python backend, whose model adds the same numbers
with numpy: one instance, metrics off, other options at their defaults (the number of HTTP threads
made no difference). The goal is 20,000 requests a second on one core, or three times Triton.

The second peer is the server that one would write first: an ASGI application under uvicorn with
httptools and uvloop, which calls ONNX Runtime and checks nothing. The goal is 1.05 times its
rate. In the rows *new heads* each request has a header with a new value, so that no server can
know its head. The sum that each server returns is checked first.""",
    commands=(
        ".venv/bin/python bench/run.py --case tiny-under-wrk",
        "",
        "# the same by hand, Inferometer's part",
        ".venv/bin/python -m bench.model_files tiny /tmp/tiny.onnx",
        "server='.venv/bin/python -m inferometer_serving --http-port 8000'",
        "taskset -c 0 $server --model /tmp/tiny.onnx &",
        "taskset -c 1 wrk -t1 -c8 -d3s -s bench/requests/json.lua http://127.0.0.1:8000",
    ),
    sides=(
        Side(_OURS_JSON, require_wrk),
        Side(_TRITON_JSON, _require_triton),
        Side(_OURS_BINARY, require_wrk),
        Side(_TRITON_BINARY, _require_triton),
        Side(_UVICORN_JSON, _require_uvicorn),
        Side(_UVICORN_BINARY, _require_uvicorn),
        Side(_OURS_NEW_HEADS, require_wrk),
        Side(_UVICORN_NEW_HEADS, _require_uvicorn),
    ),
    stage=_stage,
    minutes=5,
    rows=_rows(),
)
