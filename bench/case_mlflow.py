"""The case results-mlflow: the same search here and in MLflow's tracking server."""

import json
import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from statistics import median
from urllib.parse import urlencode

from bench.case import Case, Figures, PeerMissingError, Place, Row, Side, Source, Turn, Unit
from bench.figures import Bound
from bench.processes import ROOT, BenchError, start_child, wait_for_http
from bench.results_data import bulk_load, scaled
from bench.results_service import percentile95, response_seconds, results_service

from inferometer_results.store.query import Search
from inferometer_results.store.store import Store
from support.fake_load import free_port

_OURS, _PEER = "Inferometer", "MLflow"
_RUNS = scaled(10_000)
_LIMIT, _ROUNDS = 50, 20
_MEDIAN, _P95 = "median", "p95"
_MILLISECONDS = Unit(" ms", 1, 1000)
_SEARCHES: tuple[tuple[str, str], ...] = (
    ("model=model-7", "params.model = 'model-7'"),
    ("p99<5ms", "metrics.p99 < 5"),
    ("model=model-7 and p99<20ms", "params.model = 'model-7' and metrics.p99 < 20"),
    ("", ""),
)
"""The same conditions in both languages; MLflow's figures are in milliseconds."""


def _home() -> Path:
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(caches) / "inferometer" / "bench" / "mlflow"


def _require() -> None:
    if not (_home() / "bin" / "mlflow").is_file():
        raise PeerMissingError(
            "MLflow is not installed: run bench/install-tools --mlflow, which installs it into "
            "an environment of its own."
        )


@contextmanager
def _stage(place: Place, sides: frozenset[str]) -> Iterator[Mapping[str, Turn]]:
    address = str(place.folder / "results.db")
    with Store(address) as store:
        bulk_load(store, _RUNS)
        runs = list(_runs(store))
    with ExitStack() as stack:
        _, port = stack.enter_context(results_service(address, place.folder))
        turns: dict[str, Turn] = {_OURS: partial(_ours, port)}
        if _PEER in sides:
            turns[_PEER] = partial(_peer, *stack.enter_context(_mlflow(place, runs)))
        yield turns


def _runs(store: Store) -> Iterator[str]:
    """Yield each result as a run of MLflow, which has one figure of each name."""
    for result in store.find(Search("", "started")):
        first = result["measurements"][0]
        names = ("model", "node", "runtime", "protocol", "verdict", "namespace")
        metrics = {
            "qps": first["qps"],
            "p50": first["p50_nanoseconds"] / 1e6,
            "p99": first["p99_nanoseconds"] / 1e6,
        }
        params = {name: str(result[name]) for name in names}
        yield json.dumps({"name": result["name"], "params": params, "metrics": metrics})


@contextmanager
def _mlflow(place: Place, runs: list[str]) -> Iterator[tuple[int, str]]:
    """Fill MLflow's database and start its server; yield its port and the experiment."""
    address, artifacts = f"sqlite:///{place.folder}/mlflow.db", str(place.folder / "artifacts")
    filled = subprocess.run(
        [
            str(_home() / "bin" / "python"),
            str(ROOT / "bench" / "mlflow_runs.py"),
            address,
            artifacts,
        ],
        input="\n".join(runs),
        capture_output=True,
        text=True,
        check=False,
    )
    if filled.returncode:
        raise BenchError(f"MLflow's database could not be filled: {filled.stderr[-2000:]}")
    experiment = str(json.loads(filled.stdout.splitlines()[-1])["experiment"])
    port = free_port()
    command = [str(_home() / "bin" / "mlflow"), "server", "--backend-store-uri", address]
    command += ["--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    with start_child("MLflow", command, core=None, folder=place.folder) as child:
        wait_for_http(child, port, "/health")
        yield port, experiment


def _ours(port: int) -> Figures:
    paths = [
        f"/api/v1/results?{urlencode({'where': ours, 'limit': _LIMIT})}" for ours, _ in _SEARCHES
    ]
    found = response_seconds(port, paths, _ROUNDS)
    return _figures([each for times in found.values() for each in times])


def _peer(port: int, experiment: str) -> Figures:
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    seconds = []
    for number in range(_ROUNDS + 1):
        for _, condition in _SEARCHES:
            criteria = {
                "experiment_ids": [experiment],
                "filter": condition,
                "max_results": _LIMIT,
                "order_by": ["attributes.start_time DESC"],
            }
            began = time.monotonic()
            connection.request(
                "POST",
                "/api/2.0/mlflow/runs/search",
                json.dumps(criteria),
                {"Content-Type": "application/json"},
            )
            answer = connection.getresponse()
            body = answer.read()
            if answer.status != 200:
                raise BenchError(f"MLflow answered {answer.status}: {body[:500]!r}")
            if number:
                seconds.append(time.monotonic() - began)
    connection.close()
    return _figures(seconds)


def _figures(seconds: list[float]) -> Figures:
    return {_MEDIAN: median(seconds), _P95: percentile95(seconds)}


def _row(what: str, figure: str) -> Row:
    return Row(
        what,
        Source(_OURS, figure),
        _MILLISECONDS,
        Source(_PEER, figure),
        (Bound("ratio", "at most", 0.1),),
    )


RESULTS_MLFLOW = Case(
    name="results-mlflow",
    title=f"The same search in MLflow's tracking server, {_RUNS:,} runs",
    text=f"""\
{_RUNS:,} results in our store, and the same in MLflow: a run for each, with six parameters and
three metrics, those of the result's first measurement. Ours has all five measurements and the
document besides. Both use SQLite and one worker. A search is requested over HTTP on one connection:
{len(_SEARCHES)} conditions, {_ROUNDS} times each in turn, the newest {_LIMIT} results that match;
ours also counts all that match.""",
    commands=("bench/install-tools --mlflow", "make bench CASE=results-mlflow"),
    sides=(Side(_OURS), Side(_PEER, _require)),
    stage=_stage,
    minutes=8,
    rows=(_row("A search, median", _MEDIAN), _row("A search, p95", _P95)),
    repeats=1,
    rounds=3,
    is_pinned=False,
)
