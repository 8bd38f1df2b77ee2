"""One scenario measured by the load generator in a process of its own."""

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import psutil
from bench.model_files import Protocol
from bench.processes import BenchError, Child, on_core
from bench.servers import Server

from inferometer_api.plan.launch import load_command, load_plan
from inferometer_api.plan.load_plan import LoadPlan, PlannedFleet, PlannedServer
from inferometer_api.results.result import ScenarioResult, Step
from inferometer_api.spec.resolve import fill_defaults
from inferometer_api.spec.run import BenchmarkRun

OnProgress = Callable[[int, int], None]
"""Callback with the queries so far and the memory in bytes, about twice a second."""
_NAME = "bench"


@dataclass(frozen=True, slots=True)
class LoadRun:
    """One scenario of ours: the parts of a run's document."""

    url: str
    model: str
    scenario: Mapping[str, Any]
    load: Mapping[str, Any]
    validity: Mapping[str, Any]
    trace: Path | None = None
    """The file of arrivals, of a trace."""


def url_of(server: Server, protocol: Protocol) -> str:
    """Return where a server of this machine speaks a protocol."""
    if protocol == "HTTP":
        return f"http://127.0.0.1:{server.http_port}"
    return f"grpc://127.0.0.1:{server.grpc_port}"


def run_scenario(
    load_run: LoadRun, core: int | None, on_progress: OnProgress | None = None
) -> ScenarioResult:
    """Run a scenario on a core, and return its result, whatever its verdict.

    Raises BenchError if it did not come to its end.
    """
    with TemporaryFile("w+") as errors:
        with on_core(core):
            process = subprocess.Popen(
                load_command(sys.executable),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        with process:
            reports = _reports(process, _plan(load_run), on_progress)
        errors.seek(0)
        stderr_text = errors.read()
    found = [each["scenario"] for each in reports if each["report"] == "scenario"]
    if process.returncode != 0 or len(found) != 1:
        last = reports[-1] if reports else stderr_text[-800:]
        raise BenchError(f"The load generator measured nothing: {last}")
    return ScenarioResult.model_validate(found[0])


def run_in_series(series: Child, load_run: LoadRun) -> ScenarioResult:
    """Return the result of a scenario that a process of `bench.load_series` measures.

    Raises BenchError if it did not come to its end.
    """
    plan = _plan(load_run).model_dump(mode="json", by_alias=True, exclude_none=True)
    answer = series.ask(**plan)
    if "scenario" not in answer:
        raise BenchError(f"The load generator measured nothing: {answer}")
    return ScenarioResult.model_validate(answer["scenario"])


def only_step(scenario: ScenarioResult) -> Step:
    """Return the step of a scenario that has one; all of its queries must have succeeded."""
    [step] = scenario.steps
    if step.counts.failed:
        raise BenchError(f"{step.counts.failed} queries failed: {step.error_examples}")
    return step


def _reports(
    process: "subprocess.Popen[str]", plan: LoadPlan, on_progress: OnProgress | None
) -> list[dict[str, Any]]:
    """Return its reports except progress, which goes to `on_progress`."""
    if process.stdin is None or process.stdout is None:
        return []
    process.stdin.write(plan.model_dump_json(by_alias=True, exclude_none=True))
    process.stdin.close()
    watched = psutil.Process(process.pid)
    reports: list[dict[str, Any]] = []
    for line in process.stdout:
        report: dict[str, Any] = json.loads(line)
        if report["report"] != "progress":
            reports.append(report)
        elif on_progress is not None:
            on_progress(report.get("queries", 0), watched.memory_info().rss)
    return reports


def _plan(load_run: LoadRun) -> LoadPlan:
    document = {
        "apiVersion": "inferometer.dev/v1alpha1",
        "kind": "BenchmarkRun",
        "metadata": {"name": _NAME},
        "spec": {
            "model": {"name": load_run.model},
            "server": {"runtime": "External", "external": {"url": load_run.url}},
            "load": dict(load_run.load),
            "scenarios": [{"name": _NAME, **load_run.scenario}],
            "validity": dict(load_run.validity),
        },
    }
    return load_plan(
        fill_defaults(BenchmarkRun.model_validate(document)),
        place="Local",
        servers=[PlannedServer(url=load_run.url)],
        fleet=PlannedFleet() if load_run.load.get("workers", 1) > 1 else None,
        trace_files={} if load_run.trace is None else {_NAME: str(load_run.trace)},
    )
