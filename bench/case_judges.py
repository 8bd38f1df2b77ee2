"""The cases mlperf-judge and perf-analyzer-judge: agreement with outside instruments.

A turn measures by both, one after the other, since a judge's figure and ours belong together.
"""

import importlib.util
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count

import numpy as np
from bench.case import Case, Figures, PeerMissingError, Place, Row, Side, Source, Turn, Unit
from bench.figures import Bound
from bench.judged import Judged, Oracle, oracle, percentile_seconds, run_ours
from bench.load_generator import only_step
from bench.mlperf_loadgen import JudgedBy, Judgement, run_loadgen
from bench.model_files import SQUEEZENET, TINY, Measurand
from bench.perf_analyzer import Clients, PerfOptions, require_perf_analyzer, run_perf_analyzer
from bench.servers import inferometer_server

_MS = 1_000_000
_SEED = 20_261_121
_OURS, _THEIRS, _APART = "Inferometer", "the judge", "apart"
_AGREED = "verdicts that agree"
_SECONDS = Unit(" ms", 2, scale=1000)
_PER_SECOND = Unit(" /s", 1)
_SHARE = Unit(" %", 2, scale=100)
_WITHIN = Bound("figure", "at most", 0.05)

_ORACLE_SINGLE = "the oracle, SingleStream"
_ORACLE_SERVER = "the oracle, Server"
_ORACLE_OFFLINE = "the oracle, Offline"
_OWN_SINGLE = "our server, SingleStream"
_OWN_SERVER = "our server, Server"
_OWN_OFFLINE = "our server, Offline"
_VERDICTS = "verdicts"
_PERF_HTTP = "perf_analyzer, 8 clients, HTTP"
_PERF_ONE = "perf_analyzer, 1 client, HTTP"

_MANY = 64
"""Connections to a server in open loops: so many that no query waits for one."""
_ORACLE_TENSOR = ("oracle", "x", (1, 4))


def _delays(seed: int = _SEED) -> list[int]:
    """Return exponential delays of 3 ms and more."""
    random = np.random.default_rng(seed)
    return [int(each) for each in 3 * _MS + random.exponential(4 * _MS, 4096)]


@dataclass(frozen=True, slots=True)
class _Both:
    """Both instruments, at one server."""

    place: Place
    port: int
    model: tuple[str, str, tuple[int, ...]]
    """Name, input and its shape."""
    fresh: Callable[[], None]
    """Called before either measures."""

    def loadgen(self, scenario: str, queries: int, **more: object) -> Judgement:
        self.fresh()
        options = JudgedBy(self.port, *self.model, scenario, queries, **more)  # type: ignore[arg-type]  # by name
        return run_loadgen(options, self.place.client_core)

    def ours(self, scenario: Mapping[str, object], queries: int = 1, **more: object) -> Judged:
        self.fresh()
        validity = {"minQueries": queries}
        return Judged(self.port, self.model[0], scenario, validity=validity, **more)  # type: ignore[arg-type]  # by name

    def single_stream(self, queries: int) -> Figures:
        theirs = self.loadgen("SingleStream", queries)
        ours = run_ours(self.place, self.ours({"singleStream": {}}, queries))
        return _figures(percentile_seconds(ours, 90.0), theirs.figure)

    def server(self, queries: int, qps: float) -> Figures:
        """Compare open loops: the oracle deals both the same delays, whatever their schedules."""
        theirs = self.loadgen("Server", queries, qps=qps, bound_ms=1000, connections=_MANY)
        scenario = {"server": {"targetQps": qps}}
        ours = run_ours(self.place, self.ours(scenario, queries, connections=_MANY))
        return _figures(percentile_seconds(ours, 99.0), theirs.figure)

    def replay(self, queries: int, qps: float) -> Figures:
        """Compare open loops where queries wait for another: ours replays LoadGen's arrivals."""
        theirs = self.loadgen("Server", queries, qps=qps, bound_ms=1000, connections=_MANY)
        scenario = {"trace": {"uri": "file:arrivals.csv"}}
        options = self.ours(scenario, connections=_MANY, trace=theirs.issued_seconds)
        return _figures(percentile_seconds(run_ours(self.place, options), 99.0), theirs.figure)

    def offline(self, samples: int, batch_size: int, connections: int) -> Figures:
        more = {"batch_size": batch_size, "connections": connections}
        theirs = self.loadgen("Offline", samples, **more)
        scenario = {"offline": {"samples": samples, "batchSize": batch_size}}
        ours = only_step(run_ours(self.place, self.ours(scenario, connections=connections)))
        return _figures(ours.achieved_samples_per_second, theirs.figure)


def _figures(ours: float, theirs: float) -> Figures:
    return {_OURS: ours, _THEIRS: theirs, _APART: abs(ours / theirs - 1)}


@dataclass(frozen=True, slots=True)
class _Built:
    """A run of the Server scenario that is built to pass or to fail."""

    passes: bool
    delays_ns: Sequence[int]
    queries: int
    bound_ms: int


def _mixed(slow_of_1000: int) -> list[int]:
    """Return delays of 5 ms, and 80 ms for so many of 1,000, evenly."""
    slow = {round((each + 0.5) * 1000 / slow_of_1000) for each in range(slow_of_1000)}
    return [80 * _MS if place in slow else 5 * _MS for place in range(1000)]


_BUILT = (
    _Built(True, [5 * _MS], 600, 50),
    _Built(False, [5 * _MS], 600, 2),
    _Built(True, _mixed(2), 1500, 50),
    _Built(False, _mixed(30), 1500, 50),
    _Built(False, [5 * _MS], 300, 50),  # keeps the bound, but 300 are too few to know it
)
_VERDICT_QPS = 400


def _verdicts(both: _Both, server: Oracle) -> Figures:
    agreed = 0
    for built in _BUILT:
        server.obey(built.delays_ns)
        bound = {"latencyBoundMicroseconds": built.bound_ms * 1000}
        theirs = both.loadgen(
            "Server",
            built.queries,
            qps=_VERDICT_QPS,
            bound_ms=built.bound_ms,
            connections=_MANY,
        )
        server.obey(built.delays_ns)
        scenario = {"server": {"targetQps": _VERDICT_QPS, **bound}}
        options = both.ours(scenario, built.queries, connections=_MANY)
        ours = run_ours(both.place, options).verdict.state == "VALID"
        agreed += ours == theirs.valid == built.passes
    return {_AGREED: agreed}


def _require_loadgen() -> None:
    if importlib.util.find_spec("mlperf_loadgen") is None:
        raise PeerMissingError(
            "MLPerf LoadGen is not installed: make install takes it (mlcommons-loadgen, which "
            "needs a C++ compiler where there is no wheel)."
        )


@contextmanager
def _mlperf_stage(place: Place, sides: frozenset[str]) -> Iterator[Mapping[str, Turn]]:
    with ExitStack() as stack:
        known = stack.enter_context(oracle(place))
        own = stack.enter_context(inferometer_server(place, SQUEEZENET))
        at_oracle = _Both(place, known.http_port, _ORACLE_TENSOR, lambda: known.obey(_delays()))
        at_own = _Both(place, own.http_port, _tensor(SQUEEZENET), lambda: None)
        plain = _Both(place, known.http_port, _ORACLE_TENSOR, lambda: None)
        turns: dict[str, Turn] = {
            _ORACLE_SINGLE: lambda: at_oracle.single_stream(400),
            _ORACLE_SERVER: lambda: at_oracle.server(1500, 300),
            _ORACLE_OFFLINE: lambda: at_oracle.offline(8000, 4, 8),
            _OWN_SINGLE: lambda: at_own.single_stream(600),
            _OWN_SERVER: lambda: at_own.replay(400, 40),
            _OWN_OFFLINE: lambda: at_own.offline(600, 4, 2),
            _VERDICTS: lambda: _verdicts(plain, known),
        }
        yield {name: turn for name, turn in turns.items() if name in sides}


def _tensor(measurand: Measurand) -> tuple[str, str, tuple[int, ...]]:
    return measurand.name, measurand.input.name, measurand.shape


@contextmanager
def _perf_stage(place: Place, sides: frozenset[str]) -> Iterator[Mapping[str, Turn]]:
    with ExitStack() as stack:
        known = stack.enter_context(oracle(place))
        known.obey([5 * _MS])
        turns = {
            _PERF_ONE: partial(_closed_loop, place, known, 1, count()),
            _PERF_HTTP: partial(_closed_loop, place, known, 8, count()),
        }
        yield {name: turn for name, turn in turns.items() if name in sides}


def _closed_loop(place: Place, known: Oracle, clients: int, turns: Iterator[int]) -> Figures:
    def ours() -> float:
        scenario = {"concurrency": {"clients": [clients]}}
        validity = {"minDurationSeconds": max(1, round(place.turn_seconds)), "minQueries": 100}
        options = Judged(known.http_port, "oracle", scenario, validity=validity)
        return only_step(run_ours(place, options)).achieved_qps

    def theirs() -> float:
        options = PerfOptions(
            known.http_port, Clients(clients), measurand=ORACLE, seconds=place.turn_seconds
        )
        return run_perf_analyzer(options, place.client_core).requests_per_second

    if next(turns) % 2:
        judged = theirs()
        return _figures(ours(), judged)
    return _figures(ours(), theirs())


ORACLE = Measurand("oracle", TINY.input, TINY.output, TINY.shape)


def _rows(side: str, what: str, unit: Unit) -> tuple[Row, ...]:
    return (
        Row(what, Source(side, _OURS), unit, Source(side, _THEIRS)),
        Row(f"{what}: how far apart", Source(side, _APART), _SHARE, goal=(_WITHIN,)),
    )


MLPERF_JUDGE = Case(
    name="mlperf-judge",
    title="MLPerf LoadGen as a judge: the same scenario, rate and server",
    text="""\
MLPerf's own LoadGen (the package `mlcommons-loadgen`) and Inferometer measure the same server one
after the other over HTTP: SingleStream by its 90th percentile, Server (Poisson) by its 99th,
Offline by its samples per second. LoadGen's system under test is as thin as it can be: threads
that send prepared bytes on blocking sockets.

The oracle is a server of the tests that delays each reply by a known time (here 3 ms and an
exponential time of 4 ms, dealt to both in the same order, so that their percentiles are of the
same times). Our own server serves squeezenet1_1 with one thread; there queries wait for one
another, so for Server we replay, as a trace, the very arrivals that LoadGen made.

Verdicts: five runs of Server at 400/s, three of which are built to be INVALID: a bound below the
delay, 3 % of slow replies under a bound on the 99th percentile, and 300 queries, which are too
few to know it; two to be VALID: all within the bound, and 0.2 % of slow replies.""",
    commands=(".venv/bin/python bench/run.py --case mlperf-judge",),
    sides=tuple(
        Side(name, _require_loadgen)
        for name in (
            _ORACLE_SINGLE,
            _ORACLE_SERVER,
            _ORACLE_OFFLINE,
            _OWN_SINGLE,
            _OWN_SERVER,
            _OWN_OFFLINE,
            _VERDICTS,
        )
    ),
    stage=_mlperf_stage,
    minutes=9,
    rows=(
        *_rows(_ORACLE_SINGLE, "The oracle, SingleStream, 90th percentile", _SECONDS),
        *_rows(_ORACLE_SERVER, "The oracle, Server at 300/s, 99th percentile", _SECONDS),
        *_rows(_ORACLE_OFFLINE, "The oracle, Offline, batch 4 on 8 connections", _PER_SECOND),
        *_rows(_OWN_SINGLE, "Our server, SingleStream, 90th percentile", _SECONDS),
        *_rows(_OWN_SERVER, "Our server, Server at 40/s, 99th percentile", _SECONDS),
        *_rows(_OWN_OFFLINE, "Our server, Offline, batch 4 on 2 connections", _PER_SECOND),
        Row(
            "Verdicts of five built runs that agree",
            Source(_VERDICTS, _AGREED),
            Unit(" of 5", 0),
            goal=(Bound("figure", "at least", len(_BUILT)),),
        ),
    ),
)

PERF_ANALYZER_JUDGE = Case(
    name="perf-analyzer-judge",
    title="perf_analyzer as a judge: closed-loop throughput",
    text="""\
A server that answers every request after 5 ms (the oracle of the tests), and clients with one
request outstanding each, by perf_analyzer's `--concurrency-range` and by our `concurrency`, over
HTTP. With 8 clients no instrument can find more than 1,600 requests a second, with one no more than
200.""",
    commands=(".venv/bin/python bench/run.py --case perf-analyzer-judge",),
    sides=(Side(_PERF_ONE, require_perf_analyzer), Side(_PERF_HTTP, require_perf_analyzer)),
    stage=_perf_stage,
    minutes=2,
    rows=(
        *_rows(_PERF_ONE, "1 client", _PER_SECOND),
        *_rows(_PERF_HTTP, "8 clients", _PER_SECOND),
    ),
)
