"""The load generator at a fixed rate: its lag and the share of the rate that it keeps."""

from dataclasses import dataclass
from typing import Literal

from bench.case import Place
from bench.load_generator import LoadRun, OnProgress, only_step, run_scenario, url_of
from bench.model_files import TINY, Protocol
from bench.servers import Server

from inferometer_api.results.result import Step

_WARM_UP_SECONDS = 1
_MOST_SECONDS = 7200


@dataclass(frozen=True, slots=True)
class Rate:
    """Poisson arrivals at a server."""

    protocol: Protocol
    qps: int
    pacing: Literal["Timer", "Spin"] = "Timer"
    workers: int = 1
    seed: int = 0


def send_paced(
    place: Place,
    server: Server,
    rate: Rate,
    queries: int = 1,
    on_progress: OnProgress | None = None,
) -> Step:
    """Send at a rate for the turn's time, and for so many queries at least.

    The verdict does not matter here. Raises BenchError if nothing was measured or a query
    failed.
    """
    load_run = LoadRun(
        url_of(server, rate.protocol),
        TINY.name,
        {"server": {"targetQps": rate.qps}},
        load={
            "protocol": rate.protocol,
            "connections": 64 if rate.protocol == "HTTP" else 4,
            "streamsPerConnection": 100,
            "pacing": rate.pacing,
            "workers": rate.workers,
            "seed": rate.seed,
        },
        validity={
            "warmUpSeconds": _WARM_UP_SECONDS,
            "minDurationSeconds": max(1, round(place.turn_seconds)),
            "minQueries": queries,
            "maxDurationSeconds": _MOST_SECONDS,
        },
    )
    return only_step(run_scenario(load_run, place.client_core, on_progress))
