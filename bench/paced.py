"""What does the load generator do at a rate: how late is it, how much of it does it keep?"""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import psutil
from bench.case import Place
from bench.model_files import TINY, Protocol
from bench.processes import BenchError, on_core
from bench.servers import Server

from inferometer_api.launch import load_command, load_plan
from inferometer_api.plan import LoadPlan, PlannedFleet, PlannedServer
from inferometer_api.resolve import resolved
from inferometer_api.result import Step
from inferometer_api.run import BenchmarkRun

_WARM_UP_SECONDS = 1
_MOST_SECONDS = 7200


@dataclass(frozen=True, slots=True)
class Rate:
    """Poisson arrivals at a server."""

    protocol: Protocol
    qps: int
    pacing: Literal["Timer", "Spin"] = "Timer"
    workers: int = 1


Heard = Callable[[int, int], None]
"""Told the queries so far and the memory in bytes, about twice a second."""


def paced(
    place: Place, server: Server, rate: Rate, queries: int = 1, heard: Heard | None = None
) -> Step:
    """Send at a rate for the turn's time, and for so many queries at least.

    The verdict does not matter here. Raises BenchError where nothing was measured or a query
    failed.
    """
    plan = _plan(place, server, rate, queries)
    with on_core(place.client_core):
        process = subprocess.Popen(
            load_command(sys.executable),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
    with process:
        step = _heard(process, plan, heard)
    if step is None or step.counts.failed:
        raise BenchError(f"The load generator measured nothing at {rate.qps} a second.")
    return step


def _heard(process: "subprocess.Popen[str]", plan: LoadPlan, heard: Heard | None) -> Step | None:
    if process.stdin is None or process.stdout is None:
        return None
    process.stdin.write(plan.model_dump_json(by_alias=True, exclude_none=True))
    process.stdin.close()
    watched = psutil.Process(process.pid)
    step: Step | None = None
    for line in process.stdout:
        report: dict[str, Any] = json.loads(line)
        match report["report"]:
            case "progress" if heard is not None:
                heard(report.get("queries", 0), watched.memory_info().rss)
            case "measured":
                [told] = report["scenario"]["steps"]
                step = Step.model_validate(told)
            case _:
                pass
    return step


def _plan(place: Place, server: Server, rate: Rate, queries: int) -> LoadPlan:
    http = rate.protocol == "HTTP"
    port = server.http_port if http else server.grpc_port
    url = f"{'http' if http else 'grpc'}://127.0.0.1:{port}"
    document = {
        "apiVersion": "inferometer.dev/v1alpha1",
        "kind": "BenchmarkRun",
        "metadata": {"name": "pace"},
        "spec": {
            "model": {"name": TINY.name},
            "server": {"runtime": "External", "external": {"url": url}},
            "load": {
                "protocol": rate.protocol,
                "connections": 64 if http else 4,
                "streamsPerConnection": 100,
                "pacing": rate.pacing,
                "workers": rate.workers,
            },
            "scenarios": [{"name": "pace", "server": {"targetQps": rate.qps}}],
            "validity": {
                "warmUpSeconds": _WARM_UP_SECONDS,
                "minDurationSeconds": max(1, round(place.turn_seconds)),
                "minQueries": queries,
                "maxDurationSeconds": _MOST_SECONDS,
            },
        },
    }
    run = resolved(BenchmarkRun.model_validate(document))
    fleet = PlannedFleet() if rate.workers > 1 else None
    return load_plan(run, place="Local", servers=[PlannedServer(url=url)], fleet=fleet)
