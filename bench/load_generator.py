"""What does the whole load generator cost for each query?"""

import json
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

from bench.case import Place
from bench.model_files import TINY, Protocol
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


def measured_load(
    place: Place, server: Server, protocol: Protocol, scenario: dict[str, Any], connections: int = 8
) -> LoadCost:
    """Run one scenario at a server, and return what it cost.

    Raises BenchError where the scenario did not come to its end, or a query failed.
    """
    http = protocol == "HTTP"
    url = f"http://127.0.0.1:{server.http_port}" if http else f"grpc://127.0.0.1:{server.grpc_port}"
    plan = load_plan(
        resolved(_run(url, protocol, scenario, connections, place.turn_seconds)),
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
    return LoadCost(step["clientCpuSeconds"] / step["counts"]["queries"], step["achievedQps"])


def _run(
    url: str, protocol: Protocol, scenario: dict[str, Any], connections: int, seconds: float
) -> BenchmarkRun:
    return BenchmarkRun.model_validate(
        {
            "apiVersion": "inferometer.dev/v1alpha1",
            "kind": "BenchmarkRun",
            "metadata": {"name": "client-cost"},
            "spec": {
                "model": {"name": TINY.name},
                "server": {"runtime": "External", "external": {"url": url}},
                "load": {
                    "protocol": protocol,
                    "connections": connections,
                    "streamsPerConnection": 8,
                },
                "scenarios": [{"name": "cost", **scenario}],
                "validity": {
                    "warmUpSeconds": _WARM_UP_SECONDS,
                    "minDurationSeconds": max(1, round(seconds)),
                    "minQueries": 10,
                },
            },
        }
    )
