"""The load generator refuses what it cannot know, for the right reason, or shows it in full.

Real processes, real limits: nothing here is simulated.
"""

import os
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest

from inferometer_api.plan.load_plan import LoadPlan
from inferometer_api.plan.reports import ProgressReport, Report, ScenarioReport
from inferometer_api.results.result import ScenarioResult
from inferometer_loadgen.schedule.arrivals import Poisson, Stream, generator
from support.hostile import a_group, spinning
from support.load_runs import LoadRun, a_plan, finished, measure, reports, started
from support.oracle_process import oracle_process
from support.oracle_script import delayed
from support.requirements import cannot_run
from support.waiting import wait_until

CLOSED: dict[str, Any] = {"singleStream": {}}
OPEN: dict[str, Any] = {"server": {"targetQps": 150}}
MEASURED = {"warmUpSeconds": 1, "minDurationSeconds": 2}
SECOND_NS = 1_000_000_000
STALL_NS = 2 * SECOND_NS

Note = Callable[[str], None]


def reason(scenario: ScenarioResult, rule: str, note: Note) -> str:
    """Return the sentence of a reason, which must be there, and note it."""
    assert scenario.verdict.state == "INVALID"
    found = {finding.rule: finding.message for finding in scenario.verdict.reasons}
    assert rule in found, found
    note(f"{rule}: {found[rule]}")
    return found[rule]


def measured_under(
    plan: LoadPlan, take: Callable[[int], None], give: Callable[[], None]
) -> LoadRun:
    """Take something from a run's process from its warm-up on until a scenario is measured."""
    before: list[Report] = []
    taken = False
    with started(plan) as process:
        for report in reports(process):
            before.append(report)
            if isinstance(report, ScenarioReport):
                give()
                break
            if not taken and isinstance(report, ProgressReport) and report.stage == "WarmUp":
                taken = True
                take(process.pid)
        return finished(process, *before)


@pytest.mark.parametrize("scenario", [CLOSED, OPEN], ids=["closed", "open"])
def test_a_client_starved_by_a_busy_loop_on_its_core_is_refused(
    note: Note, scenario: dict[str, Any]
) -> None:
    """Whose core other processes keep busy, it measures its own waiting, and says so.

    In an open loop mostly by its dispatch lag as well, unless queries wait far longer for a
    connection.
    """
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        cannot_run("this machine has one CPU, which server and load generator share anyway")
    with ExitStack() as spinners, oracle_process(delayed(0.005)) as oracle:

        def take(process_id: int) -> None:
            os.sched_setaffinity(process_id, {cpus[-1]})
            # Some schedulers let a mostly sleeping process go first, unless its weight is low.
            os.setpriority(os.PRIO_PROCESS, process_id, 19)
            spinners.enter_context(spinning(cpus[-1], processes=3))

        plan = a_plan(oracle.url("HTTP"), scenario, validity=MEASURED)
        run = measured_under(plan, take, spinners.close)
    reason(run.scenarios[0], "ClientStarved", note)


@pytest.mark.parametrize("scenario", [CLOSED, OPEN], ids=["closed", "open"])
def test_a_throttled_load_pod_is_refused(note: Note, scenario: dict[str, Any]) -> None:
    """What a CPU limit keeps from the load generator is seen, in closed loops as in open ones."""
    with a_group() as group, oracle_process(delayed(0.001)) as oracle:

        def take(process_id: int) -> None:
            group.take(process_id)
            group.limit(0.01)

        plan = a_plan(oracle.url("HTTP"), scenario, validity=MEASURED)
        run = measured_under(plan, take, lambda: group.limit(1))
    reason(run.scenarios[0], "ClientThrottled", note)
    (step,) = run.scenarios[0].steps
    assert (step.client.throttled_seconds or 0) > 0.1


def test_a_rate_that_the_server_cannot_hold_is_refused(note: Note) -> None:
    """A server that needs 20 ms for each of 100 queries a second never works them off."""
    settings = {"targetQps": 100, "latencyBoundMicroseconds": 100_000, "percentile": "P90"}
    with oracle_process(delayed(0.02)) as oracle:
        plan = a_plan(
            oracle.url("HTTP"),
            {"server": settings},
            load={"connections": 1},
            validity={"minDurationSeconds": 2},
        )
        (scenario,) = measure(plan).scenarios
    reason(scenario, "AchievedRate", note)
    reason(scenario, "LatencyBound", note)


def test_an_open_loop_shows_a_stall_in_full(note: Note) -> None:
    """No percentile is below what the schedule alone says that the stall makes of it."""
    rate, after = 100, 200
    stalling = delayed(0.001, stall=(after, STALL_NS))
    with oracle_process(stalling) as oracle:
        plan = a_plan(
            oracle.url("HTTP"),
            {"server": {"targetQps": rate, "latencyBoundMicroseconds": 100_000}},
            load={"seed": 3},
            validity={"minDurationSeconds": 8},
        )
        (scenario,) = measure(plan).scenarios
    reason(scenario, "LatencyBound", note)
    (step,) = scenario.steps
    due = Poisson(rate * 1000, generator(3, Stream.MEASURED)).take(2 * rate * 8)
    due = due[due < step.duration_nanoseconds]
    assert step.counts.succeeded == len(due)
    # The stall began no earlier than its query was due, and each query due within it waited for
    # what was left of it at least.
    since = due - due[after - step.warm_up_queries]
    left = np.where(since >= 0, STALL_NS - since, 0)
    least = np.sort(left.clip(0))
    assert step.latency is not None
    for value in step.latency.percentiles:
        rank = int(np.ceil(round(value.percentile * len(due) / 100, 6)))
        bound = least[rank - 1]
        note(
            f"P{value.percentile:g}: {value.nanoseconds / 1e6:.1f} ms, by the schedule at least "
            f"{bound / 1e6:.1f} ms"
        )
        assert value.nanoseconds >= bound
    assert step.latency.max_nanoseconds >= STALL_NS


@pytest.mark.parametrize("protocol", ["HTTP", "GRPC"])
def test_a_stall_in_a_closed_loop_is_refused(
    note: Note, require_quiet: Callable[[], None], protocol: str
) -> None:
    """A closed loop sends nothing while the server stands still, so no P99 shows it."""
    with oracle_process(delayed(0.002, stall=(150, STALL_NS))) as oracle:
        plan = a_plan(
            oracle.url(protocol), CLOSED, validity={"minDurationSeconds": 4, "minQueries": 300}
        )
        (scenario,) = measure(plan).scenarios
    found = reason(scenario, "ServerStall", note)
    (step,) = scenario.steps
    assert step.latency is not None
    assert step.latency.max_nanoseconds >= STALL_NS
    require_quiet()
    assert "No query was answered for 2." in found
    hidden = [value for value in step.latency.percentiles if value.percentile == 99.0]
    assert hidden[0].nanoseconds < STALL_NS / 10


def test_a_stalled_load_generator_is_distinguished_from_a_stalled_server(note: Note) -> None:
    """Stopped for 2 s in a closed loop, it blames itself, and no healthy server."""
    with oracle_process(delayed(0.002)) as oracle:
        plan = a_plan(
            oracle.url("HTTP"), CLOSED, validity={"minDurationSeconds": 4, "minQueries": 300}
        )
        with started(plan) as process:
            wait_until(lambda: oracle.received > 150, "150 queries")
            process.send_signal(signal.SIGSTOP)
            time.sleep(STALL_NS / SECOND_NS)
            process.send_signal(signal.SIGCONT)
            (scenario,) = finished(process).scenarios
    assert "itself stood still for " in reason(scenario, "ClientStall", note)
    assert "ServerStall" not in {finding.rule for finding in scenario.verdict.reasons}


def test_an_outage_in_a_closed_loop_is_refused(
    note: Note, require_quiet: Callable[[], None]
) -> None:
    """A server that is away, and back before it counts as lost, costs each client one query."""
    # The client dials 2.2 s after the loss.
    with oracle_process(delayed(0.002, away=(300, 1_800_000_000))) as oracle:
        load = {"concurrency": {"clients": [2]}}
        plan = a_plan(
            oracle.url("HTTP"), load, validity={"minDurationSeconds": 4, "minQueries": 600}
        )
        (scenario,) = measure(plan).scenarios
    found = reason(scenario, "ServerStall", note)
    (step,) = scenario.steps
    assert step.counts.failed <= 2
    assert step.counts.reconnects == 2
    assert step.latency is not None
    require_quiet()
    assert "No query was answered successfully for 2." in found
    assert step.latency.max_nanoseconds < SECOND_NS
