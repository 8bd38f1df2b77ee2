"""The case peak: does a fresh run agree with the peak that a search found?"""

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from bench.case import Case, Figures, Place, Row, Side, Source, Turn, Unit
from bench.figures import Bound
from bench.model_files import SHUFFLENET
from bench.processes import BenchError, on_core
from bench.servers import Server, inferometer_server

from inferometer_api.launch import load_command, load_plan
from inferometer_api.plan import PlannedServer
from inferometer_api.resolve import resolved
from inferometer_api.run import BenchmarkRun

_SIDE = "findPeak"
_BOUND_MICROSECONDS = 20_000
_QUERIES = 8192
_BELOW, _ABOVE = 0.85, 1.2
_MOST_MINUTES = 10

_PEAK = "peak in queries per second"
_WIDTH = "width of the bracket"
_PROBES = "probes"
_MINUTES = "minutes"
_VALID = "VALID below the peak"
_INVALID = "INVALID above the peak"
_PER_SECOND = Unit(" /s", 0)
_MINUTE = Unit(" min", 1)
_PER_CENT = Unit(" %", 1, scale=100)
_COUNT = Unit("", 0)


@contextmanager
def _stage(place: Place, sides: frozenset[str]) -> Iterator[Mapping[str, Turn]]:
    with inferometer_server(place, SHUFFLENET) as server:
        turns: dict[str, Turn] = {_SIDE: lambda: _searched(place, server)}
        yield {name: turn for name, turn in turns.items() if name in sides}


def _searched(place: Place, server: Server) -> Figures:
    began = time.monotonic()
    probe = {"minQueries": _QUERIES, "maxSeconds": 60}
    bound = {"latencyBoundMicroseconds": _BOUND_MICROSECONDS, "percentile": "P99"}
    peak = _measured(place, server, {"findPeak": {**bound, "probe": probe}})["peak"]
    minutes = (time.monotonic() - began) / 60
    if peak.get("qps") is None:
        raise BenchError(f"The search found no peak: {peak['stopped']}.")
    below, above = (
        _measured(place, server, {"server": {**bound, "targetQps": _rate(factor * peak["qps"])}})
        for factor in (_BELOW, _ABOVE)
    )
    known = peak.get("confidence") is not None
    return {
        _PEAK: peak["qps"],
        _WIDTH: (peak["highQps"] - peak["lowQps"]) / peak["qps"] if known else 1.0,
        _PROBES: len(peak["probes"]),
        _MINUTES: minutes,
        _VALID: float(below["verdict"]["state"] == "VALID"),
        _INVALID: float(above["verdict"]["state"] == "INVALID"),
    }


def _rate(qps: float) -> str:
    return f"{qps:.3f}"


def _measured(place: Place, server: Server, scenario: dict[str, Any]) -> dict[str, Any]:
    """Run one scenario at the server and return its result; raises BenchError without one."""
    url = f"grpc://127.0.0.1:{server.grpc_port}"
    plan = load_plan(resolved(_run(url, scenario)), place="Local", servers=[PlannedServer(url=url)])
    with on_core(place.client_core):
        done = subprocess.run(
            load_command(sys.executable),
            input=plan.model_dump_json(by_alias=True, exclude_none=True),
            capture_output=True,
            text=True,
            check=False,
        )
    reports = [json.loads(line) for line in done.stdout.splitlines()]
    found = [each["scenario"] for each in reports if each["report"] == "measured"]
    if done.returncode != 0 or len(found) != 1:
        last = reports[-1] if reports else done.stderr[-800:]
        raise BenchError(f"The load generator measured nothing: {last}")
    result: dict[str, Any] = found[0]
    return result


def _run(url: str, scenario: dict[str, Any]) -> BenchmarkRun:
    return BenchmarkRun.model_validate(
        {
            "apiVersion": "inferometer.dev/v1alpha1",
            "kind": "BenchmarkRun",
            "metadata": {"name": "peak"},
            "spec": {
                "model": {"name": SHUFFLENET.name},
                "server": {"runtime": "External", "external": {"url": url}},
                # Time gives each search, and each run after it, a schedule of its own.
                "load": {"protocol": "GRPC", "seed": time.time_ns() % 2**32},
                "scenarios": [{"name": "capacity", **scenario}],
                "validity": {
                    "warmUpSeconds": 3,
                    "minDurationSeconds": 10,
                    "minQueries": _QUERIES,
                    "maxDurationSeconds": _MOST_MINUTES * 60,
                },
            },
        }
    )


def _row(what: str, figure: str, unit: Unit, *goal: Bound) -> Row:
    return Row(what, Source(_SIDE, figure), unit, None, goal)


PEAK = Case(
    name="peak",
    title="Whether a fresh run agrees with the peak that a search found",
    text=f"""\
`findPeak` of {SHUFFLENET.name} (about 1.5 ms on one core) over gRPC with {_QUERIES:,} queries a
probe: the rate at which the P99 is just {_BOUND_MICROSECONDS // 1000} ms, by the bracket's stated
confidence of 95 %. Then two fresh `server` runs with schedules of their own and the same bound, one
at {_BELOW} of that rate and one at {_ABOVE} of it: the first must be VALID and the second INVALID.
Each repeat is a search of its own, with a fresh server and seeds of its own; the spread beside a
figure is over the searches.""",
    commands=(".venv/bin/python bench/run.py --case peak",),
    sides=(Side(_SIDE),),
    stage=_stage,
    rows=(
        _row("peak", _PEAK, _PER_SECOND),
        _row("width of its bracket (95 %)", _WIDTH, _PER_CENT),
        _row("probes of a search", _PROBES, _COUNT),
        _row("how long a search takes", _MINUTES, _MINUTE, Bound("figure", "at most", 10.0)),
        _row(f"VALID at {_BELOW} x peak (1: yes)", _VALID, _COUNT, Bound("figure", "at least", 1)),
        _row(
            f"INVALID at {_ABOVE} x peak (1: yes)", _INVALID, _COUNT, Bound("figure", "at least", 1)
        ),
    ),
)
