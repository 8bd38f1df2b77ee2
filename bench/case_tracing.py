"""The case tracing: what it costs to trace every 100th query."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from statistics import median
from typing import Any

from bench.case import Case, Figures, Place, Row, Side, Source, Turn, Unit
from bench.figures import Bound
from bench.load_generator import LoadRun, only_step, run_in_series, url_of
from bench.model_files import SQUEEZENET, TINY
from bench.processes import BenchError, Child, start_child
from bench.servers import inferometer_server

from inferometer_analysis.samples import median_interval
from inferometer_api.results.result import nanoseconds_at

_EVERY = 100
_PAIRS = 60
_MEASURANDS = (TINY, SQUEEZENET)
_TRACING: Mapping[str, Any] = {"tracing": {"sampleEvery": _EVERY}}
_MICROSECONDS = Unit(" us", 1, scale=1e-3)
_RATIO = Unit(" x", 4)


@contextmanager
def _stage(place: Place, sides: frozenset[str]) -> Iterator[Mapping[str, Turn]]:
    del sides  # all of them can be run everywhere
    with ExitStack() as stack:
        turns: dict[str, Turn] = {}
        for measurand in _MEASURANDS:
            server = stack.enter_context(inferometer_server(place, measurand))
            plain, traced = (
                LoadRun(
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
                for load in ({}, _TRACING)
            )
            turns[measurand.name] = partial(_compare, plain, traced, place)
        yield turns


def _compare(plain: LoadRun, traced: LoadRun, place: Place) -> Figures:
    """Measure pairs of runs, in each of which the other one comes first."""
    pairs = []
    command = (sys.executable, "-m", "bench.load_series")
    with start_child(
        "load generator", command, core=place.client_core, folder=place.folder
    ) as series:
        for number in range(_PAIRS):
            order = (plain, traced) if number % 2 else (traced, plain)
            latencies = {each is traced: _latency_ns(each, series) for each in order}
            pairs.append((latencies[False], latencies[True]))
    ratio = median_interval([with_tracing / without for without, with_tracing in pairs])
    if ratio.low is None or ratio.high is None:
        raise BenchError(f"{_PAIRS} pairs are too few for an interval.")
    return {
        "plain": median(without for without, _ in pairs),
        "ratio": ratio.value,
        "low": ratio.low,
        "high": ratio.high,
    }


def _latency_ns(load_run: LoadRun, series: Child) -> float:
    """Return the median latency; the traced queries, the slower ones, count by their share."""
    step = only_step(run_in_series(series, load_run))
    latency_ns = nanoseconds_at(step.latency, 50)
    if latency_ns is None:
        raise BenchError("No latency was measured.")
    if load_run.load.keys().isdisjoint(_TRACING):
        return latency_ns
    if step.tracing is None or not step.tracing.joined:
        raise BenchError("No query was traced.")
    share = 1 / _EVERY
    return (1 - share) * latency_ns + share * step.tracing.median_latency_nanoseconds


TRACING = Case(
    name="tracing",
    title="What tracing every 100th query costs",
    text=f"""\
The latency of one query after another over HTTP, with `load.tracing.sampleEvery: {_EVERY}` and
without, on the same server: {_PAIRS} pairs of runs by one process, whose order alternates. The
latency is the median of a run; with tracing, the median of its traced queries counts by their share
of 1 %, so that what they cost is not lost. The ratio is the median over the pairs, with its 95 %
interval.

The tiny model adds four numbers, so that nearly all of its latency is the server and the client;
squeezenet1_1 computes for some milliseconds.""",
    commands=(".venv/bin/python bench/run.py --case tracing",),
    sides=tuple(Side(each.name) for each in _MEASURANDS),
    stage=_stage,
    minutes=8,
    repeats=1,
    seconds=2.0,
    rows=tuple(
        row
        for each in _MEASURANDS
        for row in (
            Row(f"Latency of {each.name}", Source(each.name, "plain"), _MICROSECONDS),
            Row(f"{each.name}, traced next to untraced", Source(each.name, "ratio"), _RATIO),
            Row("The least that is likely", Source(each.name, "low"), _RATIO),
            Row(
                "The most that is likely",
                Source(each.name, "high"),
                _RATIO,
                goal=(Bound("figure", "at most", 1.01),),
            ),
        )
    ),
)
