"""The case tracing: what it costs to trace every 100th query."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from bench.case import Case, Figures, Place, Row, Side, Source, Turn, Unit
from bench.figures import Bound
from bench.load_generator import LoadRun, only_step, run_scenario, url_of
from bench.model_files import SQUEEZENET, TINY
from bench.processes import BenchError
from bench.servers import inferometer_server

_EVERY = 100
_PLAIN = "without tracing"
_TRACED = f"every {_EVERY}th query traced"
_MEAN = "mean latency in seconds"
_MEASURANDS = (TINY, SQUEEZENET)
_LOADS: Mapping[str, Mapping[str, Any]] = {
    _PLAIN: {},
    _TRACED: {"tracing": {"sampleEvery": _EVERY}},
}
_MICROSECONDS = Unit(" us", 1, scale=1_000_000)


def _side(model: str, way: str) -> str:
    return f"{model}, {way}"


@contextmanager
def _stage(place: Place, sides: frozenset[str]) -> Iterator[Mapping[str, Turn]]:
    del sides  # all of them can be run everywhere
    with ExitStack() as stack:
        turns: dict[str, Turn] = {}
        for measurand in _MEASURANDS:
            server = stack.enter_context(inferometer_server(place, measurand))
            for way, load in _LOADS.items():
                load_run = LoadRun(
                    url_of(server, "HTTP"),
                    measurand.name,
                    {"singleStream": {}},
                    load={"protocol": "HTTP", **load},
                    validity={
                        "warmUpSeconds": 1,
                        "minDurationSeconds": max(1, round(place.turn_seconds)),
                        "minQueries": 1,
                    },
                )
                turns[_side(measurand.name, way)] = partial(_measure, load_run, place.client_core)
        yield turns


def _measure(load_run: LoadRun, core: int | None) -> Figures:
    step = only_step(run_scenario(load_run, core))
    if step.latency is None:
        raise BenchError("No latency was measured.")
    if "tracing" in load_run.load and (step.tracing is None or not step.tracing.joined):
        raise BenchError("No query was traced.")
    return {_MEAN: step.latency.mean_nanoseconds * 1e-9}


TRACING = Case(
    name="tracing",
    title="What tracing every 100th query costs",
    text="""\
The mean latency of one query after another over HTTP, with `load.tracing.sampleEvery: 100` and
without, on the same server. Turns with and without tracing alternate, so that a busy minute
disturbs both. The tiny model adds four numbers, so that nearly all of its latency is the server and
the client themselves; squeezenet1_1 computes for some milliseconds.""",
    commands=(".venv/bin/python bench/run.py --case tracing",),
    sides=tuple(Side(_side(each.name, way)) for each in _MEASURANDS for way in _LOADS),
    stage=_stage,
    minutes=5,
    rounds=5,
    rows=tuple(
        Row(
            f"Mean latency of {each.name}, traced, next to untraced",
            Source(_side(each.name, _TRACED), _MEAN),
            _MICROSECONDS,
            Source(_side(each.name, _PLAIN), _MEAN),
            goal=(Bound("ratio", "at most", 1.01),),
        )
        for each in _MEASURANDS
    ),
)
