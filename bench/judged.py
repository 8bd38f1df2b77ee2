"""Our measurement of a server that an outside instrument measures as well."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.case import Place
from bench.load_generator import LoadRun, only_step, run_scenario
from bench.processes import ROOT, BenchError, Child, start_child

from inferometer_api.results.result import ScenarioResult

NO_MORE = {"warmUpSeconds": 0, "minDurationSeconds": 1, "minQueries": 1, "maxDurationSeconds": 120}
"""What is not said otherwise: no warm-up, and no minimum of its own."""


@dataclass(frozen=True, slots=True)
class Judged:
    """One scenario of ours."""

    port: int
    model: str
    scenario: Mapping[str, Any]
    connections: int = 8
    validity: Mapping[str, Any] | None = None
    trace: Sequence[float] = ()
    """Arrivals in seconds, of a trace."""


def run_ours(place: Place, judged: Judged) -> ScenarioResult:
    """Run a scenario over HTTP. Raises BenchError if it does not come to its end."""
    load_run = LoadRun(
        f"http://127.0.0.1:{judged.port}",
        judged.model,
        judged.scenario,
        load={"protocol": "HTTP", "connections": judged.connections},
        validity={**NO_MORE, **(judged.validity or {})},
        trace=_trace(place, judged) if judged.trace else None,
    )
    return run_scenario(load_run, place.client_core)


def percentile_seconds(scenario: ScenarioResult, percentile: float) -> float:
    """Return a percentile of the latency."""
    latency = only_step(scenario).latency
    for each in latency.percentiles if latency else ():
        if each.percentile == percentile:
            return each.nanoseconds * 1e-9
    raise BenchError(f"There is no {percentile:g}th percentile.")


@contextmanager
def oracle(place: Place) -> Iterator["Oracle"]:
    """Run the tests' oracle on the server's core: it delays each reply by the given law."""
    with start_child(
        "oracle",
        [sys.executable, "-m", "support.oracle_server"],
        core=place.server_core,
        folder=place.folder,
        environment={"PYTHONPATH": str(ROOT / "tests")},
    ) as process:
        yield Oracle(process, process.read()["httpPort"])


@dataclass(frozen=True, slots=True)
class Oracle:
    """A running oracle."""

    process: Child
    http_port: int

    def obey(self, delays_ns: Sequence[int]) -> None:
        """Delay the replies from now on by so much, in turn and round and round."""
        self.process.ask(script={"delays": list(delays_ns)})


def _trace(place: Place, judged: Judged) -> Path:
    file = place.folder / "arrivals.csv"
    file.write_text("".join(f"{each:.9f}\n" for each in judged.trace), encoding="utf-8")
    return file
