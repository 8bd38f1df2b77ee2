"""The service of the stored results under a client: how long its pages and filters take."""

import math
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from bench.figures import Bound
from bench.processes import BenchError, Child, start_child, wait_for_http
from bench.results_data import SUITE, spec_digest

from inferometer_results.store.query import Search
from inferometer_results.store.search_fields import SORTING
from inferometer_results.store.store import Store
from support.fake_load import free_port

_SEARCHES: tuple[tuple[str, str], ...] = (
    ("", "-started"),
    ("model=model-7", "-started"),
    ("p99<5ms", "-started"),
    ("p99<1ms and model=model-7", "p99"),
    ("verdict=INVALID and node=node-3", "-started"),
    ("model~el-7", "-qps"),
    ("label.team=t3 and qps>100", "p99"),
    ("", "p99"),
    ("", "-qps"),
    ("namespace=team-3 and started>=2026-05", "-started"),
    ("p99<100us", "-started"),
    ("not model=model-3", "-started"),
    ("run=run-17 or run=run-18", "run"),
    ("p99<50ms", "-started"),
    ("verdict=VALID and qps>50", "p99"),
    ("verdict=INVALID and p99<50ms", "-qps"),
    ("scenario~lat", "-started"),
    ("errors>0", "-started"),
)
"""Conditions and orders: common and rare values, figures, labels, text, none at all."""


def list_paths() -> list[str]:
    """Return the addresses of the list of runs, as pages and from the API, and of many results."""
    found = []
    for where, sort in _SEARCHES:
        query = urlencode({"where": where, "sort": sort})
        found += [f"/?{query}", f"/facets?{query}", f"/api/v1/results?{query}"]
    found += [f"/{name}" for name in ("facets", "models", "trends", "nodes", "suites")]
    found += [f"/{name}text=node-3+model-7" for name in ("?", "facets?")]
    spec = spec_digest(7)
    found += [
        f"/suites/{SUITE}",
        "/model?model=model-7&mixed=true",
        f"/node-figures?spec={spec}",
    ]
    return [*found, f"/?{urlencode({'offset': 10_000})}"]


def deep_paths(store: Store) -> list[str]:
    """Return pages in every order from the first result on, and on both sides of its middle."""
    found = []
    for where, sort in (
        *(("", f"{sign}{name}") for name in SORTING for sign in ("", "-")),
        ("label.team=t3 and qps>100", "p99"),
        ("verdict=INVALID", "p99"),
        ("p99<50ms", "-started"),
        ("model=model-7", "-started"),
    ):
        half = store.page(Search(where, limit=1)).total // 2
        (middle,) = store.find_ids(Search(where, sort, limit=1, offset=half))
        query = {"where": where, "sort": sort}
        found += [
            f"/?{urlencode(query | more)}" for more in ({}, {"after": middle}, {"before": middle})
        ]
    return found


def result_paths(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the addresses of the pages about these results, and of the trend of the first."""
    first, second = (row["id"] for row in rows[:2])
    series = f"spec={rows[0]['spec_digest']}&node={rows[0]['node']}"
    return [
        f"/results/{first}",
        f"/compare?id={first}&id={second}",
        f"/api/v1/results/{first}",
        f"/trend?{series}",
    ]


@contextmanager
def results_service(address: str, folder: Path) -> Iterator[tuple[Child, int]]:
    """Run `inferometer results serve`; yield it and its port."""
    port = free_port()
    command = [sys.executable, "-m", "inferometer_cli", "results", "serve"]
    command += ["--database", address, "--port", str(port)]
    with start_child("results service", command, core=None, folder=folder) as child:
        wait_for_http(child, port, "/readyz")
        yield child, port


def response_seconds(port: int, paths: Sequence[str], rounds: int) -> dict[str, list[float]]:
    """Request every path so often in turn, after once; return how long each answer took."""
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    found: dict[str, list[float]] = {path: [] for path in paths}
    for number in range(rounds + 1):
        for path in paths:
            began = time.monotonic()
            connection.request("GET", path)
            answer = connection.getresponse()
            answer.read()
            seconds = time.monotonic() - began
            if answer.status != 200:
                raise BenchError(f"{path} answered {answer.status}.")
            if number:
                found[path].append(seconds)
    connection.close()
    return found


def percentile95(seconds: Sequence[float]) -> float:
    """Return the 95th percentile: the smallest value that is not exceeded by 95 % of all."""
    ordered = sorted(seconds)
    return ordered[math.ceil(0.95 * len(ordered)) - 1]


def at_most(seconds: float) -> tuple[Bound, ...]:
    """Return the goal of a time."""
    return (Bound("figure", "at most", seconds),)
