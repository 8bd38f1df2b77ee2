"""The case tiny-under-wrk: how many requests does the server itself get through on one core?"""

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
from bench.wrk import require_wrk, run_wrk

_OURS_JSON = "Inferometer, JSON"
_OURS_BINARY = "Inferometer, binary tensors"
_TRITON_JSON = "Triton's Python backend, JSON"
_TRITON_BINARY = "Triton's Python backend, binary tensors"
_RATE = "requests per second"
_PER_CPU = "requests per server CPU second"
_CONNECTIONS = 8
_WARM_SECONDS = 1.0
_PER_SECOND = Unit(" /s", 0)
_GOAL = (Bound("figure", "at least", 20_000), Bound("ratio", "at least", 3))


@contextmanager
def _stage(place: Place, sides: frozenset[str]) -> Iterator[Mapping[str, Turn]]:
    with ExitStack() as stack:
        ours = stack.enter_context(inferometer_server(place, TINY))
        turns = {
            _OURS_JSON: partial(_load, place, ours, "json.lua"),
            _OURS_BINARY: partial(_load, place, ours, "binary.lua"),
        }
        servers = [ours]
        if _TRITON_JSON in sides:
            triton = stack.enter_context(triton_server(place))
            turns[_TRITON_JSON] = partial(_load, place, triton, "json.lua")
            turns[_TRITON_BINARY] = partial(_load, place, triton, "binary.lua")
            servers.append(triton)
        for server in servers:
            check_tiny(server)
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


def _require_triton() -> None:
    require_wrk()
    require_triton()


def _rows() -> tuple[Row, ...]:
    pairs = ((_OURS_JSON, _TRITON_JSON), (_OURS_BINARY, _TRITON_BINARY))
    return tuple(
        Row(f"{what}: {figure}", Source(ours, figure), _PER_SECOND, Source(triton, figure), _GOAL)
        for (ours, triton), what in zip(pairs, ("JSON", "Binary tensors"), strict=True)
        for figure in (_RATE, _PER_CPU)
    )


TINY_UNDER_WRK = Case(
    name="tiny-under-wrk",
    title="How many requests the server gets through on one core: a tiny model under wrk",
    text="""\
A model that adds four numbers to four numbers, so that nearly all the work is the server's own:
reading HTTP and JSON or binary tensors, checking them against the model, calling ONNX Runtime,
writing the reply. wrk keeps 8 requests outstanding on 8 connections from a core of its own; the
server has one core for all its threads and processes. *Requests per second* is what wrk counted,
*requests per server CPU second* divides its count by the user and system seconds of the server's
processes meanwhile, which other load on the machine distorts less. The peer is Triton's server with
its Python backend, whose model adds the same numbers with numpy: one instance, metrics off,
else its own defaults (more or fewer HTTP threads made no difference). The goal is 20,000
requests a second on one core, or three times the peer. Each server's sum is checked before.""",
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
    ),
    stage=_stage,
    minutes=2.5,
    rows=_rows(),
)
