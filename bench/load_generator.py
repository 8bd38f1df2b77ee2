"""What does the whole load generator cost for each query?"""

import json
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

from bench.case import Place
from bench.model_files import TINY, Measurand, Protocol
from bench.processes import BenchError, on_core
from bench.servers import Server

from inferometer_api.launch import load_command, load_plan
from inferometer_api.plan import PlannedServer
from inferometer_api.resolve import resolved
from inferometer_api.run import BenchmarkRun

_WARM_UP_SECONDS = 1


@dataclass(frozen=True, slots=True)
class LoadCost:
    """What one scenario cost in its measured window."""

    client_cpu_seconds_per_query: float
    """User and system."""
    queries_per_second: float
    kept: float
    """In an open loop the part of what was due in the window that was answered; else 1."""


@dataclass(frozen=True, slots=True)
class Layout:
    """How queries lie on connections."""

    connections: int = 8
    streams: int = 8
    """Of each connection, over gRPC."""


def measured_load(
    place: Place,
    server: Server,
    protocol: Protocol,
    scenario: dict[str, Any],
    layout: Layout = Layout(),
    measurand: Measurand = TINY,
) -> LoadCost:
    """Run one scenario at a server, and return what it cost.

    Raises BenchError where the scenario did not come to its end, or a query failed.
    """
    http = protocol == "HTTP"
    url = f"http://127.0.0.1:{server.http_port}" if http else f"grpc://127.0.0.1:{server.grpc_port}"
    load = {
        "protocol": protocol,
        "connections": layout.connections,
        "streamsPerConnection": layout.streams,
    }
    plan = load_plan(
        resolved(_run(url, load, scenario, measurand, place.turn_seconds)),
        place="Local",
        servers=[PlannedServer(url=url)],
    )
    with on_core(place.client_core):
        done = subprocess.run(
            load_command(sys.executable),
            input=plan.model_dump_json(by_alias=True, exclude_none=True),
            capture_output=True,
            text=True,
            check=False,
        )
    reports = [json.loads(line) for line in done.stdout.splitlines()]
    steps = [
        step
        for report in reports
        if report["report"] == "measured"
        for step in report["scenario"]["steps"]
    ]
    if done.returncode != 0 or len(steps) != 1 or steps[0]["counts"]["failed"]:
        last = reports[-1] if reports else done.stderr[-800:]
        raise BenchError(f"The load generator measured nothing: {last}")
    [step] = steps
    cost = step["clientCpuSeconds"] / step["counts"]["queries"]
    scheduled = step.get("scheduledQps")
    return LoadCost(cost, step["achievedQps"], step["achievedQps"] / scheduled if scheduled else 1)


def _run(
    url: str,
    load: dict[str, Any],
    scenario: dict[str, Any],
    measurand: Measurand,
    seconds: float,
) -> BenchmarkRun:
    return BenchmarkRun.model_validate(
        {
            "apiVersion": "inferometer.dev/v1alpha1",
            "kind": "BenchmarkRun",
            "metadata": {"name": "client-cost"},
            "spec": {
                "model": {"name": measurand.name},
                "server": {"runtime": "External", "external": {"url": url}},
                "load": load,
                "scenarios": [{"name": "cost", **scenario}],
                "validity": {
                    "warmUpSeconds": _WARM_UP_SECONDS,
                    "minDurationSeconds": max(1, round(seconds)),
                    "minQueries": 10,
                },
            },
        }
    )
