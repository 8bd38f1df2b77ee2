"""A local load generator's metrics can be read while it measures."""

import http.client
import json
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from inferometer_api.plan.load_plan import LoadPlan
from inferometer_api.plan.reports import (
    FinalReport,
    ListeningReport,
    ProgressReport,
    Report,
    ScenarioReport,
)
from support.exposed import Series, samples
from support.load_runs import COMMAND, a_plan, reports
from support.oracle_process import oracle_process
from support.oracle_script import Script, delayed
from support.waiting import wait_until

OPEN: dict[str, Any] = {"server": {"targetQps": 200}}
CLOSED: dict[str, Any] = {"singleStream": {}}
RUN = {"run_namespace": "local", "run": "test"}


@dataclass(frozen=True, slots=True)
class Shown:
    """A local load generator that shows its metrics."""

    process: "subprocess.Popen[str]"
    reports: Iterator[Report]
    port: int

    def ask(self, method: str = "GET", path: str = "/metrics") -> tuple[int, str, str]:
        """Send a request; return the status, the type of the answer and the answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            return answer.status, answer.headers["Content-Type"], answer.read().decode()
        finally:
            connection.close()

    def metrics(self) -> dict[Series, float]:
        """Return every sample there is now."""
        return samples(self.ask()[2])

    def until(self, wanted: Callable[[Report], bool]) -> Report:
        """Read reports until one is wanted."""
        return next(report for report in self.reports if wanted(report))


@contextmanager
def showing(plan: LoadPlan, *options: str) -> Iterator[Shown]:
    """Start a load generator that shows its metrics, at a free port of its own choice."""
    with subprocess.Popen(
        (*COMMAND, "--metrics-listen", "0", *options),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdin is not None
            process.stdin.write(plan.model_dump_json(exclude_none=True))
            process.stdin.close()
            process_reports = reports(process)
            first = next(process_reports)
            assert isinstance(first, ListeningReport)
            assert first.metrics_port is not None
            yield Shown(process, process_reports, first.metrics_port)
        finally:
            process.kill()


def value(found: dict[Series, float], name: str, scenario: str, **labels: str) -> float:
    """Return the value of a scenario's series."""
    key = {**RUN, "scenario": scenario, "step": "", **labels}
    return found[f"inferometer_load_{name}", frozenset(key.items())]


def measuring(shown: Shown, scenario: str) -> dict[Series, float]:
    """Return the metrics as soon as a second of a scenario's window has been reported."""
    found: dict[Series, float] = {}

    def has_achieved_rate() -> bool:
        found.clear()
        found.update(shown.metrics())
        rate = "inferometer_load_achieved_queries_per_second"
        return any(name == rate and ("scenario", scenario) in pairs for name, pairs in found)

    wait_until(has_achieved_rate, f"The first second of {scenario}")
    return found


def test_metrics_equal_the_result(require_quiet: Callable[[], None]) -> None:
    """While it measures the figures rise; once a scenario is over they are the result's own."""
    with oracle_process(delayed(0.002)) as oracle:
        plan = a_plan(oracle.url("HTTP"), OPEN, CLOSED, validity={"minDurationSeconds": 4})
        with showing(plan) as shown:
            early = measuring(shown, "s0")
            result = shown.until(lambda report: isinstance(report, ScenarioReport))
            late = measuring(shown, "s1")
            ended = shown.until(lambda report: isinstance(report, FinalReport))
            assert shown.process.wait(60) == 0
    assert isinstance(ended, FinalReport)
    assert ended.outcome.state == "Complete"
    assert isinstance(result, ScenarioReport)
    (step,) = result.scenario.steps
    assert value(early, "stage", "s0", stage="Measuring") == 1
    assert value(early, "target_queries_per_second", "s0") == 200
    achieved_qps = value(early, "achieved_queries_per_second", "s0")
    assert achieved_qps > 0
    assert 0 < value(early, "queries_total", "s0", result="ok") < step.counts.succeeded
    assert value(late, "queries_total", "s0", result="ok") == step.counts.succeeded
    assert value(late, "scheduled_queries_total", "s0") == step.counts.scheduled
    assert value(late, "samples_total", "s0") == step.counts.samples
    assert step.latency is not None
    assert value(late, "latency_seconds_count", "s0") == step.latency.count
    mean_ns = value(late, "latency_seconds_sum", "s0") / step.latency.count * 1e9
    assert mean_ns == pytest.approx(step.latency.mean_nanoseconds, abs=1)
    assert value(late, "stage", "s0", stage="Measuring") == 0
    assert value(late, "stage", "s1", stage="Measuring") == 1
    assert value(late, "queries_total", "s1", result="ok") > 0
    assert late["process_cpu_seconds_total", frozenset()] > 0
    require_quiet()
    assert achieved_qps < 400


def test_nothing_else_is_answered() -> None:
    """GET /metrics is answered in Prometheus's format, every other request with 404."""
    with (
        oracle_process(Script(ready=False)) as oracle,
        showing(a_plan(oracle.url("HTTP"), CLOSED)) as it,
    ):
        status, kind, text = it.ask()
        assert (status, kind) == (200, "text/plain; version=0.0.4; charset=utf-8")
        stage = {**RUN, "scenario": "", "step": "", "stage": "WaitingForServer"}
        it.until(lambda report: isinstance(report, ProgressReport))
        assert it.metrics()["inferometer_load_stage", frozenset(stage.items())] == 1
        assert text.startswith("# HELP inferometer_load_")
        for method, path in (("POST", "/metrics"), ("GET", "/progress"), ("POST", "/stop")):
            assert it.ask(method, path)[0] == 404


def test_a_port_in_use_is_reported() -> None:
    """If requested metrics cannot be served, it ends before it measures."""
    with socket.create_server(("127.0.0.1", 0)) as taken, oracle_process() as oracle:
        port = taken.getsockname()[1]
        ended = subprocess.run(
            (*COMMAND, "--metrics-listen", str(port)),
            input=a_plan(oracle.url("HTTP"), CLOSED).model_dump_json(exclude_none=True),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert oracle.received == 0
    assert ended.returncode == 1
    (line,) = ended.stdout.splitlines()
    outcome = json.loads(line)["outcome"]
    assert (outcome["state"], outcome["reason"]) == ("Failed", "SystemError")
    assert str(port) in outcome["message"]


def test_a_pods_port_has_the_metrics_already() -> None:
    """--listen and --metrics-listen together are refused."""
    ended = subprocess.run(
        (*COMMAND, "--metrics-listen", "0", "--listen", "0"),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 2
    assert "not allowed with argument" in ended.stderr
