"""One cause is one finding: over all steps of a scenario, and for all rules that it explains."""

from dataclasses import replace
from typing import Any

from inferometer_api.results.result import Finding, Step
from inferometer_loadgen.schedule.steps import End
from inferometer_loadgen.verdict.judge import judge
from inferometer_loadgen.verdict.measurement import Measurement, ScenarioConditions
from support.judged_steps import (
    A_PLAN,
    CLOSED,
    MS,
    a_peak,
    a_step,
    client,
    names,
    others,
    times,
    verdict,
)

LATE = times(6 * MS)


def reasons_of(*steps: Step) -> list[Finding]:
    """Return the reasons of a sweep with these steps: clients 1, 2, ..."""
    measured = [
        Measurement(replace(A_PLAN, label=f"clients {number}"), step, End.DONE)
        for number, step in enumerate(steps, 1)
    ]
    return judge(measured, ScenarioConditions(kind="concurrency")).reasons


def a_late_step(milliseconds: int, **changed: Any) -> Step:
    """Return a step with such a dispatch lag."""
    return a_step(dispatch_lag=times(milliseconds * MS), **changed)


def test_different_figures_of_one_rule_are_one_finding_of_the_worst_step() -> None:
    """Eight late steps give one sentence with the worst figure and the names of the others."""
    (finding,) = reasons_of(*(a_late_step(number) for number in (7, 9, 8)), a_step())
    assert (finding.rule, finding.step, finding.figure) == ("DispatchLag", "clients 2", "9 ms")
    assert finding.steps == ["clients 1", "clients 2", "clients 3"]
    assert (
        "This is clients 2, the worst of 3 steps; the others are clients 1, clients 3."
        in finding.message
    )


def test_many_steps_are_counted_instead_of_listed() -> None:
    """A message names eight other steps and counts the rest."""
    (finding,) = reasons_of(*(a_late_step(number) for number in range(20, 5, -1)), a_step())
    assert len(finding.steps) == 15
    assert "clients 9 and 6 more." in finding.message


def test_a_busy_machine_takes_the_place_of_what_it_explains() -> None:
    """Steps that were late on a busy machine have one reason, with the names of processes."""
    (finding,) = reasons_of(
        a_late_step(9, other_load=[others(1.1)]),
        a_late_step(7, other_load=[others(1.0)]),
        client(runnable_wait_seconds=2.0).model_copy(update={"other_load": [others(1.2)]}),
        a_step(),
    )
    assert (finding.rule, finding.step, finding.figure) == (
        "BusyMachine",
        "clients 3",
        "1.2 of 2 CPUs",
    )
    assert finding.message.startswith(
        "Other processes used 1.2 of the 2 CPUs of this machine: python3 train.py (2 processes) "
        "1.2. The load generator was late (ClientStarved). This is clients 3, the worst of 3 steps"
    )
    assert "core of its own" not in finding.message


def test_steps_that_others_did_not_disturb_keep_their_reason() -> None:
    """Only the busy steps lose the reason that the machine explains."""
    found = reasons_of(a_late_step(9, other_load=[others(1.1)]), a_late_step(7), a_step())
    assert [(each.rule, each.step) for each in found] == [
        ("BusyMachine", "clients 1"),
        ("DispatchLag", "clients 2"),
    ]


def test_a_slow_server_keeps_its_reason_next_to_the_busy_machine() -> None:
    """A full machine may be the cause of a slow server, which is said first; others are not."""
    slow = 100 * MS - 1
    full = verdict(a_step(other_load=[others(0.9, busy=1.8)]), bound_ns=slow)
    assert names(full) == ["BusyMachine", "LatencyBound"]
    assert "This may be the cause of LatencyBound." in full.reasons[0].message
    busy = verdict(a_step(other_load=[others(0.9, busy=1.7)]), bound_ns=slow)
    assert names(busy) == ["LatencyBound", "OtherProcesses"]


def test_a_busy_machine_alone_makes_nothing_invalid() -> None:
    """Without a rule that it explains, the use of the CPUs by others is a caution."""
    found = verdict(a_step(other_load=[others(1.0)]))
    assert names(found) == ["OtherProcesses"]
    assert found.state == "VALID"
    assert found.cautions[0].message.startswith(
        "Other processes used 1.0 of the 2 CPUs of this machine: python3 train.py (2 processes) "
        "1.0. A server next to other work is slower"
    )
    failing = verdict(a_step(succeeded=900, failed=100, other_load=[others(1.9)]))
    assert names(failing) == ["ErrorRate", "OtherProcesses"]


def test_a_search_without_a_peak_is_explained_by_its_probes() -> None:
    """No probe is judged if there is no peak; others on the machine are named all the same."""
    probe = Measurement(
        replace(A_PLAN, label="probe 1", is_probe=True),
        a_step(other_load=[others(1.1)]),
        End.DONE,
    )
    peak = a_peak("ProbesTooShort", qps=None, high_qps=None, confidence=None, step=None)
    found = judge([probe], ScenarioConditions(kind="findPeak", peak=peak))
    assert names(found) == ["BusyMachine", "PeakNotFound"]


def test_the_use_of_processes_without_a_name_is_reported() -> None:
    """A build's compilers end before they can be named; their share is not hidden."""
    load = others(0.6).model_copy(update={"other_cores": 1.6})
    (finding,) = verdict(a_late_step(9, other_load=[load])).reasons
    assert "train.py (2 processes) 0.6, processes that ended or used little 1.0. The" in (
        finding.message
    )


def test_processes_of_a_cluster_are_not_named() -> None:
    """In a cluster the node is named, and no process of another pod."""
    step = a_late_step(9, other_load=[others(1.1, node="worker-1")])
    (finding,) = verdict(step).reasons
    assert finding.message.startswith(
        "Other pods and processes used 1.1 of the 2 CPUs of worker-1. The load"
    )


def test_a_closed_loop_is_explained_too() -> None:
    """A late timer of a closed loop has the same cause as a late schedule."""
    step = client(wake_up_lag_nanoseconds=9 * MS).model_copy(update={"other_load": [others(1.1)]})
    assert names(verdict(step, **CLOSED)) == ["BusyMachine"]
