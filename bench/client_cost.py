"""CPU of the whole load generator per query."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bench.case import Place
from bench.load_generator import LoadRun, only_step, run_scenario, url_of
from bench.model_files import TINY, Measurand, Protocol
from bench.servers import Server

_WARM_UP_SECONDS = 1


@dataclass(frozen=True, slots=True)
class LoadCost:
    """What one scenario cost in its measured window."""

    client_cpu_seconds_per_query: float
    """User and system."""
    queries_per_second: float
    answered_share: float
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
    scenario: Mapping[str, Any],
    layout: Layout = Layout(),
    measurand: Measurand = TINY,
) -> LoadCost:
    """Run one scenario at a server, and return what it cost.

    Raises BenchError if the scenario did not come to its end, or a query failed.
    """
    load_run = LoadRun(
        url_of(server, protocol),
        measurand.name,
        scenario,
        load={
            "protocol": protocol,
            "connections": layout.connections,
            "streamsPerConnection": layout.streams,
            # The peers send one request again and again; more would leave the core's caches.
            "inputs": {"random": {"poolSize": 1}},
        },
        validity={
            "warmUpSeconds": _WARM_UP_SECONDS,
            "minDurationSeconds": max(1, round(place.turn_seconds)),
            "minQueries": 10,
        },
    )
    step = only_step(run_scenario(load_run, place.client_core))
    cost = step.client_cpu_seconds / step.counts.queries
    scheduled = step.scheduled_qps
    return LoadCost(cost, step.achieved_qps, step.achieved_qps / scheduled if scheduled else 1)
