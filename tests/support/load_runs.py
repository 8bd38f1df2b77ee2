"""Runs the load generator as a process, and reads its reports."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import uvloop
from pydantic import TypeAdapter

from inferometer_api.plan.launch import load_plan
from inferometer_api.plan.load_plan import LoadPlan, PlannedAgent, PlannedServer
from inferometer_api.plan.reports import (
    EnvironmentReport,
    FinalReport,
    ProgressReport,
    RepeatsReport,
    Report,
    ScenarioReport,
)
from inferometer_api.results.result import Environment, Outcome, ScenarioResult
from inferometer_api.results.search import RepeatSummary
from inferometer_api.spec.run import BenchmarkRun
from inferometer_loadgen.reporting.report_writer import ReportWriter
from inferometer_loadgen.run.execution import PlanExecution, exit_code

COMMAND = (sys.executable, "-m", "inferometer_loadgen")
_REPORT: TypeAdapter[Report] = TypeAdapter(Report)
_ENDS_WITHIN_SECONDS = 60.0

SHORT = {"warmUpSeconds": 0, "minDurationSeconds": 1, "minQueries": 1, "maxDurationSeconds": 20}
"""The shortest run that the API allows."""

OF_THE_LOAD_GENERATOR = {"BusyMachine", "ClientStarved", "ClientStall", "DispatchLag"}
"""Rules by which it blames itself: other tests keep the machine busy, and it may stand still."""


def a_plan(
    url: str,
    *scenarios: Mapping[str, Any],
    model: str = "oracle",
    load: Mapping[str, Any] | None = None,
    validity: Mapping[str, Any] | None = None,
    spec: Mapping[str, Any] | None = None,
    inputs_file: str | None = None,
    server_process_ids: tuple[int, ...] = (),
    agents: Sequence[PlannedAgent] = (),
    unmetered: str = "",
) -> LoadPlan:
    """Build the plan of a short run against something that already serves at `url`."""
    protocol = "GRPC" if url.startswith("grpc") else "HTTP"
    document = {
        "apiVersion": "inferometer.dev/v1alpha1",
        "kind": "BenchmarkRun",
        "metadata": {"name": "test"},
        "spec": {
            "model": {"name": model},
            "server": {
                "runtime": "External",
                "external": {"url": url},
                "readyDeadlineSeconds": 60,
            },
            "load": {"protocol": protocol, **(load or {})},
            "scenarios": [{"name": f"s{i}", **each} for i, each in enumerate(scenarios)],
            "validity": {**SHORT, **(validity or {})},
            **(spec or {}),
        },
    }
    run = BenchmarkRun.model_validate_json(json.dumps(document))
    return load_plan(
        run,
        place="Local",
        servers=[PlannedServer(url=url)],
        inputs_file=inputs_file,
        server_process_ids=server_process_ids,
        agents=agents,
        unmetered=unmetered,
    )


@dataclass(frozen=True, slots=True)
class LoadRun:
    """What a load generator reported until its end."""

    exit_code: int
    progress: list[ProgressReport]
    environment: Environment | None
    scenarios: list[ScenarioResult]
    outcome: Outcome
    repeated: list[RepeatSummary] = field(default_factory=list)


def measure(plan: LoadPlan) -> LoadRun:
    """Run the load generator to its end, in this process."""
    reading, writing = os.pipe()
    with ThreadPoolExecutor(1) as pool, os.fdopen(reading) as reader:
        text = pool.submit(reader.read)
        try:
            final = uvloop.run(PlanExecution(plan, ReportWriter(writing)).run())
        finally:
            os.close(writing)
        return _run_of(_read(text.result()), final.outcome, exit_code(final.outcome))


@contextmanager
def started(plan: LoadPlan) -> Iterator["subprocess.Popen[str]"]:
    """Start the load generator; it is killed at the block's end if it still runs."""
    with subprocess.Popen(
        COMMAND,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            if process.stdin is not None:
                process.stdin.write(plan.model_dump_json(exclude_none=True))
                process.stdin.close()
                process.stdin = None
            yield process
        finally:
            process.kill()


def reports(process: "subprocess.Popen[str]") -> Iterator[Report]:
    """Yield the reports of a process as they come."""
    for line in process.stdout or ():
        yield _REPORT.validate_json(line)


def finished(process: "subprocess.Popen[str]", *before: Report) -> LoadRun:
    """Wait for the end of a process; `before` are reports that were read already."""
    watchdog = threading.Timer(_ENDS_WITHIN_SECONDS, process.kill)
    watchdog.start()
    try:
        # By the same stream: communicate() passes over what that has read ahead.
        found = [*before, *reports(process)]
        stderr = process.stderr.read() if process.stderr else ""
        process.wait()
    finally:
        watchdog.cancel()
    ended = [report for report in found if isinstance(report, FinalReport)]
    if len(ended) != 1 or found[-1] is not ended[0]:
        raise AssertionError(f"The reports do not end with one end: {found[-3:]}\n{stderr}")
    return _run_of(found, ended[0].outcome, process.returncode)


def measured_across(plan: LoadPlan, act: Callable[[], None]) -> LoadRun:
    """Carry out a plan, and act once more than 20 queries of it are measured."""
    before: list[Report] = []
    with started(plan) as process:
        for report in reports(process):
            before.append(report)
            if isinstance(report, ProgressReport) and report.queries > 20:
                break
        act()
        return finished(process, *before)


def _read(text: str) -> list[Report]:
    return [_REPORT.validate_json(line) for line in text.splitlines()]


def _run_of(found: Sequence[Report], outcome: Outcome, code: int) -> LoadRun:
    surroundings = [report for report in found if isinstance(report, EnvironmentReport)]
    return LoadRun(
        exit_code=code,
        progress=[report for report in found if isinstance(report, ProgressReport)],
        environment=surroundings[0].environment if surroundings else None,
        scenarios=[report.scenario for report in found if isinstance(report, ScenarioReport)],
        outcome=outcome,
        repeated=[report.summary for report in found if isinstance(report, RepeatsReport)],
    )
