"""The cases pace and memory: punctuality, kept rate and memory of one process."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from bench.case import Case, Figures, Place, Row, Side, Source, Turn, Unit
from bench.figures import Bound
from bench.model_files import TINY, Protocol
from bench.null_server import null_server, require_null_server
from bench.paced import Rate, send_paced
from bench.processes import BenchError, Child, start_child
from bench.servers import Server, inferometer_server

from inferometer_api.results.result import nanoseconds_at

_BARE = "bare timerfd loop"
_QPS = 1000
_PROTOCOLS: tuple[Protocol, ...] = ("HTTP", "GRPC")
_NEAR = {
    "HTTP, 1,000/s": Rate("HTTP", _QPS),
    "gRPC, 1,000/s": Rate("GRPC", _QPS),
    "HTTP, 1,000/s, Spin": Rate("HTTP", _QPS, "Spin"),
    "gRPC, 1,000/s, Spin": Rate("GRPC", _QPS, "Spin"),
}
"""Rates at which the lag is reported."""
_OWN = {f"{name}, our server": rate for name, rate in _NEAR.items()}
_FAR = {
    f"{'HTTP' if protocol == 'HTTP' else 'gRPC'}, {qps:,}/s": Rate(protocol, qps)
    for qps in (_QPS, 5000, 20_000)
    for protocol in _PROTOCOLS
}
"""Rates at which the kept share is reported."""
_RATES = {**_NEAR, **_FAR}
_LAG, _LATE, _ACHIEVED = "lag p50", "lag p99", "kept"
_MICROSECONDS = Unit(" µs", 1, scale=1e6)
_PERCENT = Unit(" %", 2, scale=100)
_MEBIBYTES = Unit(" MiB", 1, scale=2.0**-20)

_LEAST_SECONDS = 8.0
"""Long enough to make the drain (the last reply's latency) a negligible share."""

_MILLIONS = 10
_MANY = "10 million requests"
_EARLY, _MOST, _GROWN = "after 1 million", "at most", "grown since"


@contextmanager
def _stage(place: Place, sides: frozenset[str]) -> Iterator[Mapping[str, Turn]]:
    command = [sys.executable, "-m", "bench.bare_timer"]
    with (
        null_server(place, TINY) as server,
        inferometer_server(place, TINY) as own,
        start_child("bare timer", command, core=place.client_core, folder=place.folder) as bare,
    ):
        turns: dict[str, Turn] = {_BARE: partial(_bare, place, bare)}
        longer = replace(place, turn_seconds=max(_LEAST_SECONDS, place.turn_seconds))
        for name, rate in _RATES.items():
            turns[name] = partial(_measure, longer if name in _FAR else place, server, rate)
        for name, rate in _OWN.items():
            turns[name] = partial(_measure, place, own, rate)
        yield {name: turn for name, turn in turns.items() if name in sides}


def _bare(place: Place, bare: Child) -> Figures:
    figures = bare.ask(seconds=place.turn_seconds, qps=_QPS)
    return {_LAG: figures["p50Seconds"], _LATE: figures["p99Seconds"]}


def _measure(place: Place, server: Server, rate: Rate) -> Figures:
    step = send_paced(place, server, rate)
    median, late = (nanoseconds_at(step.dispatch_lag, each) for each in (50.0, 99.0))
    if median is None or late is None or not step.scheduled_qps:
        raise BenchError("Nothing was scheduled.")
    achieved_share = step.achieved_qps / step.scheduled_qps
    return {_LAG: median * 1e-9, _LATE: late * 1e-9, _ACHIEVED: achieved_share}


def _lag(side: str, *goal: Bound) -> Row:
    return Row(
        f"{side}: dispatch lag, p50", Source(side, _LAG), _MICROSECONDS, Source(_BARE, _LAG), goal
    )


def _achieved_row(side: str) -> Row:
    return Row(
        f"{side}: achieved of scheduled",
        Source(side, _ACHIEVED),
        _PERCENT,
        goal=(Bound("figure", "at least", 0.999),),
    )


_AS_A_TIMER = Bound("ratio", "at most", 1.5)
_PUNCTUAL = Bound("figure", "at most", 10e-6)

PACE = Case(
    name="pace",
    title="How punctual one process is, and which rate it keeps",
    text="""\
The load generator sends Poisson arrivals to a server in Go that answers without looking, or,
where a row says so, to our own server; each has a core. *Dispatch lag* is the time from when a
query was due to when it was taken up, with the replies of all others read and checked in between.

The *bare timerfd loop* takes the same arrivals on the same core and does nothing at them: it
sleeps on an absolute timer and looks at the clock, so it shows what this machine needs to wake a
process. *Spin* (`load.pacing: Spin`) burns the core instead of sleeping through the last quarter
of a millisecond. *Achieved of scheduled* is answers by window and drain over what was due in the
window.""",
    commands=(".venv/bin/python bench/run.py --case pace",),
    sides=(
        Side(_BARE),
        *(Side(name, require_null_server) for name in _RATES),
        *map(Side, _OWN),
    ),
    stage=_stage,
    minutes=8,
    rows=(
        *(_lag(side, _PUNCTUAL if "Spin" in side else _AS_A_TIMER) for side in (*_NEAR, *_OWN)),
        *(_achieved_row(name) for name in _FAR),
    ),
)


@contextmanager
def _stage_of_many(place: Place, sides: frozenset[str]) -> Iterator[Mapping[str, Turn]]:
    with null_server(place, TINY) as server:
        turns: dict[str, Turn] = {_MANY: partial(_many, place, server)}
        yield {name: turn for name, turn in turns.items() if name in sides}


def _many(place: Place, server: Server) -> Figures:
    resident: list[tuple[int, int]] = []
    rate = Rate("HTTP", 20_000)
    step = send_paced(
        place,
        server,
        rate,
        queries=_MILLIONS * 10**6,
        on_progress=lambda queries, memory: resident.append((queries, memory)),
    )
    if step.counts.succeeded < _MILLIONS * 10**6:
        raise BenchError(f"Only {step.counts.succeeded:,} queries were answered.")
    early = next(memory for queries, memory in resident if queries >= 10**6)
    most = max(memory for _, memory in resident)
    late = max(memory for queries, memory in resident if queries >= 10**6)
    return {_EARLY: early, _MOST: most, _GROWN: late - early}


MEMORY = Case(
    name="memory",
    title="Ten million requests in constant memory",
    text="""\
The resident memory of the load generator, read twice a second, while it sends 10 million requests
at 20,000 a second (Poisson, HTTP) to the server in Go: the schedule is made in blocks, and what
came of the requests is kept in histograms and at most 600 windows, none of them by itself. What
grows are the windows, one a second until there are 600. Measured once: it takes about nine
minutes.""",
    commands=(".venv/bin/python bench/run.py --case memory",),
    sides=(Side(_MANY, require_null_server),),
    stage=_stage_of_many,
    rows=(
        Row("Resident after 1 million requests", Source(_MANY, _EARLY), _MEBIBYTES),
        Row(
            "Resident at most",
            Source(_MANY, _MOST),
            _MEBIBYTES,
            goal=(Bound("figure", "at most", 150 * 2.0**20),),
        ),
        Row(
            "Grown from 1 to 10 million requests",
            Source(_MANY, _GROWN),
            _MEBIBYTES,
            goal=(Bound("figure", "at most", 16 * 2.0**20),),
        ),
    ),
    minutes=9,
    repeats=1,
)
