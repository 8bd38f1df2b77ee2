"""The case peak: fresh runs below and above the peak that a search found."""

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from bench.awake import awake
from bench.case import Case, Figures, Place, Row, Side, Source, Turn, Unit
from bench.figures import Bound
from bench.load_generator import LoadRun, run_scenario, url_of
from bench.model_files import SHUFFLENET, Measurand
from bench.processes import BenchError, start_child
from bench.servers import Server, inferometer_server

from inferometer_api.results.result import ScenarioResult
from inferometer_api.results.search import Peak

_SIDE = "findPeak"
_BOUND_MICROSECONDS = 20_000
_QUERIES = 8192
_BELOW, _ABOVE = 0.85, 1.2
_SERVICE_SECONDS = 0.001
_SIDES_PIXELS = (224, 192, 160, 128, 96, 64, 48, 32)
"""Of images: the model takes 5 ms for one on a slow core, 1.5 ms on a quick one, less for less."""
_INFERENCES = 200
_MOST_MINUTES = 10
_AROUND_SECONDS = 10
"""What a search takes in addition to its probes: the load generator's start, and its end."""
_CONNECTIONS = 64
"""So many that no query waits for one: at the peak about ten are under way."""

_SIDE_PIXELS = "pixels of a side"
_SERVICE = "seconds of an inference"
_PEAK = "peak in queries per second"
_WIDTH = "width of the bracket"
_PROBES = "probes"
_MINUTES = "minutes"
_FOUND = "the search is VALID"
_VALID = "VALID below the peak"
_INVALID = "INVALID above the peak, by its bound"
_PER_SECOND = Unit(" /s", 0)
_MILLISECONDS = Unit(" ms", 2, scale=1000)
_MINUTE = Unit(" min", 1)
_PER_CENT = Unit(" %", 1, scale=100)
_COUNT = Unit("", 0)
_SOON = Bound("figure", "at most", _MOST_MINUTES, over="every repeat")
_ALWAYS = Bound("figure", "at least", 1, over="every repeat")


@contextmanager
def _stage(place: Place, sides: frozenset[str]) -> Iterator[Mapping[str, Turn]]:
    with ExitStack() as stack:
        stack.enter_context(awake((place.server_core, place.client_core), place.folder))
        sized = {side: SHUFFLENET.of_side(side) for side in _SIDES_PIXELS}
        seconds = {side: _service_seconds(place, model) for side, model in sized.items()}
        side = min(seconds, key=lambda each: abs(seconds[each] - _SERVICE_SECONDS))
        model = {_SIDE_PIXELS: float(side), _SERVICE: seconds[side]}
        server = stack.enter_context(inferometer_server(place, sized[side]))
        turns: dict[str, Turn] = {_SIDE: lambda: {**model, **_search(place, server)}}
        yield {name: turn for name, turn in turns.items() if name in sides}


def _service_seconds(place: Place, model: Measurand) -> float:
    """Return the median of an inference in a process of its own, on the server's core."""
    name = "bench.in_process"
    command = [sys.executable, "-m", name, "--model", str(model.write(place.folder))]
    with start_child(name, command, core=place.server_core, folder=place.folder) as process:
        return float(process.ask(inferences=_INFERENCES)["medianSeconds"])


def _search(place: Place, server: Server) -> Figures:
    began = time.monotonic()
    probe = {"minQueries": _QUERIES, "maxSeconds": 60}
    bound = {"latencyBoundMicroseconds": _BOUND_MICROSECONDS, "percentile": "P99"}
    search = _measure(place, server, {"findPeak": {**bound, "probe": probe}})
    peak = search.peak
    minutes = (time.monotonic() - began) / 60
    if peak is None:
        raise BenchError(f"The search ended before its first probe: {search.verdict}.")
    if peak.qps is None:
        absent = dict.fromkeys((_PEAK, _FOUND, _VALID, _INVALID), 0.0)
        return {**absent, _WIDTH: 1.0, _PROBES: len(peak.probes), _MINUTES: minutes}
    below, above = (
        _measure(place, server, {"server": {**bound, "targetQps": f"{factor * peak.qps:.3f}"}})
        for factor in (_BELOW, _ABOVE)
    )
    return {
        _PEAK: peak.qps,
        _WIDTH: _width(peak),
        _PROBES: len(peak.probes),
        _MINUTES: minutes,
        _FOUND: float(search.verdict.state == "VALID"),
        _VALID: float(below.verdict.state == "VALID"),
        _INVALID: float("LatencyBound" in {reason.rule for reason in above.verdict.reasons}),
    }


def _width(peak: Peak) -> float:
    """Return how wide the bracket is, as a part of the peak: 1 where it is not known."""
    if not peak.qps or peak.confidence is None or peak.low_qps is None or peak.high_qps is None:
        return 1.0
    return (peak.high_qps - peak.low_qps) / peak.qps


def _measure(place: Place, server: Server, scenario: Mapping[str, Any]) -> ScenarioResult:
    load_run = LoadRun(
        url_of(server, "HTTP"),
        SHUFFLENET.name,
        scenario,
        # Time gives each search, and each run after it, a schedule of its own.
        load={"connections": _CONNECTIONS, "seed": time.time_ns() % 2**32},
        validity={
            "warmUpSeconds": 1,
            "minDurationSeconds": 10,
            "minQueries": _QUERIES,
            "maxDurationSeconds": _MOST_MINUTES * 60 - _AROUND_SECONDS,
        },
    )
    return run_scenario(load_run, place.client_core)


def _row(what: str, figure: str, unit: Unit, *goal: Bound) -> Row:
    return Row(what, Source(_SIDE, figure), unit, None, goal)


PEAK = Case(
    name="peak",
    title="Whether a fresh run agrees with the peak that a search found",
    text=f"""\
`findPeak` of {SHUFFLENET.name} over HTTP with {_QUERIES:,} queries a probe, for images of the
size (of {", ".join(map(str, _SIDES_PIXELS))} pixels a side) for which an inference comes nearest
to {_SERVICE_SECONDS * 1000:.0f} ms on this machine's core: the rate at which the P99 is just
{_BOUND_MICROSECONDS // 1000} ms, by the bracket's stated confidence of 95 %.

Then two fresh `server` runs with schedules of their own and the same bound, one at {_BELOW} of
that rate and one at {_ABOVE} of it: the first must be VALID and the second INVALID by its
LatencyBound.

Each repeat is a search of its own, with a fresh server, seeds of its own and the size chosen anew
(where the first row shows several, the peaks are those of several models); the spread next to a
figure is over the searches, and one that finds no peak counts as 0. Both cores are kept awake by
idle-priority loops (`bench/awake.py`): where they sleep between queries, the hypervisor of a
shared machine gives them to others, and the peak is that of its neighbours.""",
    commands=(".venv/bin/python bench/run.py --case peak",),
    sides=(Side(_SIDE),),
    stage=_stage,
    minutes=50,
    rows=(
        _row("pixels of an image's side", _SIDE_PIXELS, _COUNT),
        _row("an inference in a process of its own", _SERVICE, _MILLISECONDS),
        _row("peak", _PEAK, _PER_SECOND),
        _row("width of its bracket (95 %)", _WIDTH, _PER_CENT),
        _row("probes of a search", _PROBES, _COUNT),
        _row("how long a search takes", _MINUTES, _MINUTE, _SOON),
        _row("the search is VALID (1: yes)", _FOUND, _COUNT, _ALWAYS),
        _row(f"VALID at {_BELOW} x peak (1: yes)", _VALID, _COUNT, _ALWAYS),
        _row(f"INVALID at {_ABOVE} x peak by LatencyBound (1: yes)", _INVALID, _COUNT, _ALWAYS),
    ),
)
