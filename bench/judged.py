"""What do we say of a server that an outside judge measures as well?"""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.case import Place
from bench.processes import ROOT, BenchError, Child, on_core, started

from inferometer_api.launch import load_command, load_plan
from inferometer_api.plan import PlannedServer
from inferometer_api.resolve import resolved
from inferometer_api.result import ScenarioResult, Step
from inferometer_api.run import BenchmarkRun

NO_MORE = {"warmUpSeconds": 0, "minDurationSeconds": 1, "minQueries": 1, "maxDurationSeconds": 120}
"""What is not said otherwise: no warm-up, and no minimum of its own."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One scenario of ours."""

    port: int
    model: str
    scenario: Mapping[str, Any]
    connections: int = 8
    validity: Mapping[str, Any] | None = None
    trace: Sequence[float] = ()
    """Arrivals in seconds, of a trace."""


def run_ours(place: Place, asked: Asked) -> ScenarioResult:
    """Run a scenario over HTTP. Raises BenchError where it does not come to its end."""
    url = f"http://127.0.0.1:{asked.port}"
    plan = load_plan(
        resolved(_run(url, asked)), place="Local", servers=[PlannedServer(url=url)]
    ).model_copy(update={"trace_files": {"judged": str(_trace(place, asked))}})
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
    return ScenarioResult.model_validate(found[0])


def only_step(scenario: ScenarioResult) -> Step:
    """Return the step of a scenario that has one; all of its queries must have succeeded."""
    [step] = scenario.steps
    if step.counts.failed:
        raise BenchError(f"{step.counts.failed} queries failed: {step.error_examples}")
    return step


def percentile_seconds(scenario: ScenarioResult, percentile: float) -> float:
    """Return a percentile of the latency."""
    latency = only_step(scenario).latency
    for each in latency.percentiles if latency else ():
        if each.percentile == percentile:
            return each.nanoseconds * 1e-9
    raise BenchError(f"There is no {percentile:g}th percentile.")


@contextmanager
def oracle(place: Place) -> Iterator["Oracle"]:
    """Run the tests' oracle on the server's core: it delays each reply as it is told."""
    with started(
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
        self.process.ask(delays=list(delays_ns), isQueue=False, stall=None)


def _trace(place: Place, asked: Asked) -> Path:
    file = place.folder / "arrivals.csv"
    file.write_text("".join(f"{each:.9f}\n" for each in asked.trace), encoding="utf-8")
    return file


def _run(url: str, asked: Asked) -> BenchmarkRun:
    return BenchmarkRun.model_validate(
        {
            "apiVersion": "inferometer.dev/v1alpha1",
            "kind": "BenchmarkRun",
            "metadata": {"name": "judged"},
            "spec": {
                "model": {"name": asked.model},
                "server": {"runtime": "External", "external": {"url": url}},
                "load": {"protocol": "HTTP", "connections": asked.connections},
                "scenarios": [{"name": "judged", **asked.scenario}],
                "validity": {**NO_MORE, **(asked.validity or {})},
            },
        }
    )
