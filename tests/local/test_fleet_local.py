"""A fleet of workers measures what one process would, and a lost worker is named."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import numpy as np
import psutil
import pytest

from inferometer_api.plan.launch import load_command
from inferometer_api.plan.load_plan import LoadPlan, PlannedFleet
from inferometer_api.plan.reports import ListeningReport, ProgressReport, Report
from inferometer_api.plan.result_folder import POD_INDEX_VARIABLE
from inferometer_api.scenarios.step_setting import Steady
from inferometer_loadgen.drive.prepare import schedules_of
from inferometer_loadgen.schedule.arrivals import MeasuredArrivals, WindowLimits
from inferometer_loadgen.schedule.steps import WHOLE_LOAD
from support.load_runs import LoadRun, a_plan, finished, measure, reports, started
from support.oracle_process import OracleProcess, oracle_process
from support.requirements import cannot_run
from support.waiting import wait_until

MS = 1_000_000
SECOND = 1_000_000_000
SEED = 4_711
FLEET = {"workers": 2, "connections": 4, "seed": SEED}
LONG = {"minDurationSeconds": 60, "maxDurationSeconds": 120}
OPEN: dict[str, Any] = {"server": {"targetQps": 90}}
_ENDS_WITHIN_SECONDS = 60.0
_RATE_WITHIN_SECONDS = 60.0
_MOST_BY_CHANCE = 1.5
"""Times the rate: random arrivals of a second or more, which counted twice would be 2."""


@pytest.fixture(scope="module")
def oracle() -> Iterator[OracleProcess]:
    """Give an oracle that all tests of this file give orders to in turn."""
    with oracle_process() as running:
        yield running


def test_the_union_of_the_shares_is_the_schedule(
    oracle: OracleProcess, require_quiet: Callable[[], None]
) -> None:
    """Every worker sends its share at its times, and both together are the one schedule."""
    oracle.obey([MS])
    validity = {"warmUpSeconds": 1, "minDurationSeconds": 3}
    scenario = {"server": {"targetQps": 80}}
    run = measure(a_plan(oracle.url("GRPC"), scenario, load=FLEET, validity=validity))
    assert run.exit_code == 0, run.outcome.message
    (step,) = run.scenarios[0].steps
    seen = np.sort(oracle.report().received)[step.warm_up_queries :]

    limits = WindowLimits(3 * SECOND, 1, 20 * SECOND)
    schedule = schedules_of(Steady("Poisson", 80_000), SEED, WHOLE_LOAD).measured
    expected = _all_of(MeasuredArrivals(schedule, limits))
    assert step.counts.scheduled == step.counts.queries == len(seen) == len(expected)
    late = seen - expected
    late -= late.min()
    first, second = step.workers
    assert (first.queries, second.queries) == (len(expected[::2]), len(expected[1::2]))
    assert (first.clock_offset_nanoseconds, first.clock_uncertainty_nanoseconds) == (0, 0)
    assert step.client_cpu_seconds == pytest.approx(
        first.client_cpu_seconds + second.client_cpu_seconds
    )
    assert sum(window.scheduled or 0 for window in step.windows) == len(expected)
    assert step.connections == 4
    require_quiet()
    assert np.median(late) < 50 * MS


def _all_of(arrivals: MeasuredArrivals) -> "np.ndarray[Any, np.dtype[np.int64]]":
    found = []
    while not arrivals.is_complete:
        found.append(arrivals.take())
    return np.concatenate(found)


def test_a_slow_query_of_each_worker_is_no_stall_while_others_are_answered(
    oracle: OracleProcess, require_quiet: Callable[[], None]
) -> None:
    """A server stands still that answers none of the workers, as it would to one process."""
    oracle.obey([*[5 * MS] * 600, 1_600 * MS])
    scenario = {"concurrency": {"clients": [2]}}
    validity = {"warmUpSeconds": 0, "minDurationSeconds": 20}
    run = measure(a_plan(oracle.url("GRPC"), scenario, load=FLEET, validity=validity))
    (step,) = run.scenarios[0].steps
    assert step.latency is not None
    assert step.latency.max_nanoseconds > 1_600 * MS
    assert step.longest_silence_nanoseconds is not None
    require_quiet()
    assert step.longest_silence_nanoseconds < 1_000 * MS
    assert "ServerStall" not in {reason.rule for reason in run.scenarios[0].verdict.reasons}


def test_every_kind_of_scenario_is_driven_by_a_fleet(oracle: OracleProcess, tmp_path: Path) -> None:
    """Counts equal the server's, whatever the scenario, and no worker has more than its part."""
    arrivals = tmp_path / "arrivals.csv"
    arrivals.write_text("".join(f"{k / 50}\n" for k in range(60)))
    scenarios: list[dict[str, Any]] = [
        {"singleStream": {}},
        {"batch": {"batchSizes": [1, 3]}},
        {"multiStream": {"samplesPerQuery": 4}},
        {"concurrency": {"clients": [1, 5]}},
        {"offline": {"samples": 100, "batchSize": 4}},
        {"burst": {"baseQps": 20, "burstQps": 60, "burstSeconds": 1, "periodSeconds": 2}},
        {"trace": {"uri": f"file:{arrivals}"}},
    ]
    oracle.obey([2 * MS])
    plan = a_plan(oracle.url("HTTP"), *scenarios, load=FLEET)
    plan = plan.model_copy(update={"trace_files": {"s6": str(arrivals)}})
    run = measure(plan)
    assert run.exit_code == 0, run.outcome.message
    seen = oracle.report()
    assert len(run.scenarios) == len(scenarios)
    steps = [step for scenario in run.scenarios for step in scenario.steps]
    assert all(step.counts.failed == 0 for step in steps)
    assert sum(step.warm_up_queries + step.counts.queries for step in steps) == len(seen)
    for step in steps:
        assert sum(worker.queries for worker in step.workers) == step.counts.queries
        assert [worker.worker for worker in step.workers] == [0, 1]
    single, *_, five, offline, _, trace = steps
    assert [worker.queries > 0 for worker in single.workers] == [True, False]
    assert [worker.client is not None for worker in single.workers] == [True, False]
    assert [worker.queries > 0 for worker in five.workers] == [True, True]
    assert (offline.counts.samples, trace.counts.queries) == (100, 60)


def _of(kind: str, process: "subprocess.Popen[str]") -> list[psutil.Process]:
    """Return the processes of a load generator whose command line has these words."""
    children = psutil.Process(process.pid).children(recursive=True)
    return sorted(
        (child for child in children if kind in " ".join(child.cmdline())), key=lambda one: one.pid
    )


WORKER = "inferometer_loadgen worker"
MEASURING = "inferometer_loadgen.fleet.measuring"
MASTER = "inferometer_loadgen.fleet.locust_bridge"


def _disturbed(
    plan: LoadPlan, how: Callable[["subprocess.Popen[str]", list[Report]], None]
) -> tuple[LoadRun, list[psutil.Process]]:
    """Do something to a fleet that measures; return how it ended, and the processes it had."""
    before: list[Report] = []
    with started(plan) as process:
        for report in reports(process):
            before.append(report)
            if isinstance(report, ProgressReport) and report.queries > 10:
                break
        processes = [found for kind in (WORKER, MEASURING, MASTER) for found in _of(kind, process)]
        how(process, before)
        return finished(process, *before), processes


def _assert_gone(processes: list[psutil.Process]) -> None:
    _, alive = psutil.wait_procs(processes, _ENDS_WITHIN_SECONDS)
    assert not alive


@pytest.mark.parametrize(
    ("kind", "number", "loss_reason"),
    [
        (WORKER, signal.SIGKILL, "its process ended"),
        (MEASURING, signal.SIGKILL, "its measuring process ended by signal SIGKILL"),
        (MEASURING, signal.SIGSTOP, "nothing was heard for 5 s"),
    ],
)
def test_a_lost_worker_makes_the_run_invalid_by_name(
    oracle: OracleProcess, kind: str, number: signal.Signals, loss_reason: str
) -> None:
    """What it measured until then is kept, INVALID, with the worker and what became of it."""
    oracle.obey([MS])
    plan = a_plan(oracle.url("HTTP"), OPEN, load=FLEET, validity=LONG)
    run, processes = _disturbed(plan, lambda process, _: os.kill(_of(kind, process)[1].pid, number))
    (result,) = run.scenarios
    (lost,) = [reason for reason in result.verdict.reasons if reason.rule == "WorkerLost"]
    (step,) = result.steps
    (worker,) = [worker for worker in step.workers if worker.lost]
    assert result.verdict.state == "INVALID"
    assert f"Worker {worker.worker} of the fleet was lost: {worker.loss_reason}" in lost.message
    assert loss_reason in worker.loss_reason
    assert step.counts.queries > 10
    _assert_gone(processes)


def test_the_rate_of_a_closed_loop_that_lost_a_worker_uses_its_reports(
    oracle: OracleProcess,
) -> None:
    """Only answers that the lost worker had not reported are missing from the window."""
    oracle.obey([MS])
    plan = a_plan(oracle.url("HTTP"), {"concurrency": {"clients": [4]}}, load=FLEET, validity=LONG)
    run, _ = _disturbed(
        plan, lambda process, _: os.kill(_of(WORKER, process)[1].pid, signal.SIGKILL)
    )
    ((step,),) = [scenario.steps for scenario in run.scenarios]
    answered = step.achieved_qps * step.duration_nanoseconds / SECOND
    outstanding = 4
    assert step.counts.succeeded - outstanding <= answered <= step.counts.succeeded + outstanding


def test_without_its_master_a_fleet_ends(oracle: OracleProcess) -> None:
    """Everybody ends, and the run is INVALID by name."""
    oracle.obey([MS])
    plan = a_plan(oracle.url("HTTP"), OPEN, load=FLEET, validity=LONG)
    run, processes = _disturbed(
        plan, lambda process, _: os.kill(_of(MASTER, process)[0].pid, signal.SIGKILL)
    )
    (result,) = run.scenarios
    assert "WorkerLost" in [reason.rule for reason in result.verdict.reasons]
    _assert_gone(processes)


def _page(before: list[Report], path: str, body: bytes | None = None) -> Any:
    (port,) = [each.fleet_web_port for each in before if isinstance(each, ListeningReport)]
    with urlopen(f"http://127.0.0.1:{port}{path}", body, timeout=60) as answer:
        return json.load(answer)


def _page_with_a_rate(before: list[Report]) -> Any:
    """Return what the page shows as soon as that has a rate: Locust leaves its last 2 s out."""
    shown: Any = None

    def has_rate() -> bool:
        nonlocal shown
        shown = _page(before, "/stats/requests")
        return bool(shown["current_rps"])

    wait_until(has_rate, "A rate on the page", deadline_seconds=_RATE_WITHIN_SECONDS)
    return shown


def test_a_signal_ends_a_fleet_that_locusts_page_shows(
    oracle: OracleProcess, require_quiet: Callable[[], None]
) -> None:
    """The page has our figures and starts nothing; what was measured is kept, and all end."""
    oracle.obey([3 * MS])
    plan = a_plan(oracle.url("HTTP"), OPEN, load=FLEET, validity=LONG)
    plan = plan.model_copy(update={"fleet": PlannedFleet(web_port=0)})
    rates: list[float] = []

    def look(process: "subprocess.Popen[str]", before: list[Report]) -> None:
        shown = _page_with_a_rate(before)
        (row, _) = shown["stats"]
        assert (row["name"], row["method"], shown["state"]) == ("s0", "HTTP", "running")
        assert row["num_requests"] > 10
        assert row["median_response_time"] >= 3.0
        rates.extend((row["current_rps"], row["total_rps"], shown["current_rps"]))
        assert min(rates) > 0
        assert len(shown["workers"]) == 2
        with pytest.raises(HTTPError, match="403"):
            _page(before, "/swarm", b"user_count=1")
        process.send_signal(signal.SIGTERM)

    run, processes = _disturbed(plan, look)
    assert (run.exit_code, run.outcome.state) == (143, "Terminated")
    (result,) = run.scenarios
    assert "EndedEarly" in [reason.rule for reason in result.verdict.reasons]
    assert not any(worker.lost for worker in result.steps[0].workers)
    assert result.steps[0].counts.queries > 10
    _assert_gone(processes)
    require_quiet()
    assert max(rates) < _MOST_BY_CHANCE * OPEN["server"]["targetQps"]


def test_a_killed_session_leaves_no_process(oracle: OracleProcess) -> None:
    """Master, workers and measuring processes end with it, without a signal of their own."""
    oracle.obey([MS])
    plan = a_plan(oracle.url("HTTP"), OPEN, load=FLEET, validity=LONG)
    with started(plan) as process:
        next(each for each in reports(process) if isinstance(each, ProgressReport) and each.queries)
        processes = [found for kind in (WORKER, MEASURING, MASTER) for found in _of(kind, process)]
        process.kill()
    assert len(processes) == 5
    _assert_gone(processes)


def _pod_fleet(**facts: Any) -> PlannedFleet:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    return PlannedFleet(port=port, starts_workers=False, token="a-token", **facts)  # noqa: S106


@contextmanager
def _pods(plan: LoadPlan, folder: Path, last: Sequence[str] = ()) -> Iterator[list[Any]]:
    """Start the pods of two workers and the leading one; `last` is what runs the last worker."""
    file = folder / "plan.json"
    file.write_text(plan.model_dump_json(exclude_none=True))
    command = load_command(sys.executable, plan_path=str(file))
    pods = [
        subprocess.Popen(
            (*(last if index == 2 else ()), *command),
            env={**os.environ, POD_INDEX_VARIABLE: str(index)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        for index in (0, 2, 1)
    ]
    try:
        yield pods
        # Killed, they would leave measuring processes whose CPU time counts as that of others.
        for pod in pods:
            pod.wait(_ENDS_WITHIN_SECONDS)
    finally:
        for pod in pods:
            pod.kill()
            pod.communicate()


def test_pods_of_one_command_find_each_other(oracle: OracleProcess, tmp_path: Path) -> None:
    """Index 0 leads and has the result; the others are workers, wherever, and end with 0."""
    oracle.obey([MS])
    plan = a_plan(oracle.url("GRPC"), {"server": {"targetQps": 50}}, load=FLEET)
    with _pods(plan.model_copy(update={"fleet": _pod_fleet()}), tmp_path) as pods:
        run = finished(pods[0])
        assert (run.exit_code, run.outcome.state) == (0, "Complete")
        (step,) = run.scenarios[0].steps
        assert all(worker.queries for worker in step.workers)
        assert [pod.wait(_ENDS_WITHIN_SECONDS) for pod in pods[1:]] == [0, 0]


AHEAD_SECONDS = 5000
ON_ANOTHER_CLOCK = (
    *("unshare", "--user", "--map-root-user"),
    *("--time", "--monotonic", str(AHEAD_SECONDS)),
)


def test_a_worker_on_another_clock_takes_its_share(
    oracle: OracleProcess, tmp_path: Path, require_quiet: Callable[[], None]
) -> None:
    """In a time namespace, the worker's clock offset is measured, and its queries are in time."""
    probe = subprocess.run((*ON_ANOTHER_CLOCK, "true"), check=False, capture_output=True)
    if probe.returncode:
        cannot_run(f"no time namespace may be made here: {probe.stderr.decode().strip()}")
    oracle.obey([MS])
    validity = {"warmUpSeconds": 1, "minDurationSeconds": 2}
    plan = a_plan(oracle.url("GRPC"), {"server": {"targetQps": 80}}, load=FLEET, validity=validity)
    plan = plan.model_copy(update={"fleet": _pod_fleet()})
    with _pods(plan, tmp_path, ON_ANOTHER_CLOCK) as pods:
        run = finished(pods[0])
    assert run.exit_code == 0, run.outcome.message
    (step,) = run.scenarios[0].steps
    near, far = step.workers
    assert near.clock_offset_nanoseconds == 0
    uncertain = far.clock_uncertainty_nanoseconds
    assert uncertain > 0
    assert abs(far.clock_offset_nanoseconds - AHEAD_SECONDS * SECOND) <= uncertain

    seen = np.sort(oracle.report().received)[step.warm_up_queries :]
    schedule = schedules_of(Steady("Poisson", 80_000), SEED, WHOLE_LOAD).measured
    expected = _all_of(MeasuredArrivals(schedule, WindowLimits(2 * SECOND, 1, 20 * SECOND)))
    assert len(seen) == len(expected)
    late = seen - expected
    require_quiet()
    assert uncertain < SECOND
    assert np.median(late - late.min()) < 50 * MS  # by a wrong sign it would be 10,000 s off


def test_workers_that_do_not_come_fail_the_run(oracle: OracleProcess) -> None:
    """A sentence says who is missing, after the deadline."""
    plan = a_plan(oracle.url("HTTP"), OPEN, load=FLEET)
    plan = plan.model_copy(update={"fleet": _pod_fleet(ready_deadline_seconds=1)})
    run = measure(plan)
    assert (run.exit_code, run.outcome.reason) == (1, "WorkersNotReady")
    assert "Of 2 workers (spec.load.workers), " in run.outcome.message
    assert "workers 0, 1 did not connect within 1 s" in run.outcome.message
    assert run.progress[-1].stage == "WaitingForWorkers"
