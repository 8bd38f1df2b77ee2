"""Does each rule break just past its limit, say so, and stand in the documentation?"""

import re
from pathlib import Path
from typing import Any

import pytest

from inferometer_api.results.result import ClientHealth, Energy, Step
from inferometer_loadgen.schedule.steps import End
from inferometer_loadgen.verdict.rules import RULES, Rule
from support.judged_steps import (
    CLOSED,
    MS,
    SECOND,
    a_node,
    a_peak,
    a_step,
    client,
    held_down,
    lagging,
    names,
    rising,
    silent,
    stopped,
    throttled,
    times,
    verdict,
    with_errors,
    workers,
)

PAGE = Path(__file__).parents[3] / "docs/reference/verdict.md"


def test_a_step_without_fault_is_valid() -> None:
    """Nothing is found in a measurement that keeps every limit."""
    judged = verdict()
    assert judged.state == "VALID"
    assert names(judged) == []


def slept(nanoseconds: int, **errors: int) -> Step:
    """Return a step without an answer for 2 s, for so long of which its client stood still."""
    facts = ClientHealth(wake_up_lag_max_nanoseconds=nanoseconds)
    return silent(2000 * MS, client=facts, counts=with_errors(**errors).counts)


BREACHES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    # the rule, what just keeps it, what just breaks it
    (
        "MinDuration",
        {"step": a_step(duration_nanoseconds=10 * SECOND)},
        {"step": a_step(duration_nanoseconds=10 * SECOND - 1, scheduled_qps=None)},
    ),
    (
        "MinQueries",
        {"step": a_step(succeeded=1000)},
        {"step": a_step(succeeded=999)},
    ),
    (
        "ErrorRate",
        {"step": a_step(succeeded=999, failed=1)},
        {"step": a_step(succeeded=998, failed=2)},
    ),
    (
        "LatencyBound",
        {"bound_ns": 100 * MS},
        {"bound_ns": 100 * MS - 1},
    ),
    (
        "AchievedRate",
        {"unanswered": (0, 9), "step": a_step(drain_nanoseconds=SECOND)},
        {"unanswered": (0, 10), "step": a_step(drain_nanoseconds=SECOND)},
    ),
    (
        "AchievedRate",  # what is left over is worked off at once
        {"unanswered": (0, 100), "step": a_step(drain_nanoseconds=100 * MS)},
        {"unanswered": (0, 100), "step": a_step(drain_nanoseconds=101 * MS)},
    ),
    (
        "DispatchLag",
        {"step": a_step(dispatch_lag=times(5 * MS))},
        {"step": a_step(dispatch_lag=times(5 * MS + 1))},
    ),
    (
        "DispatchLag",
        {"step": a_step(dispatch_lag=times(MS), latency=times(MS))},
        {"step": a_step(dispatch_lag=times(MS + 1), latency=times(MS))},
    ),
    (
        "RepliesChanged",
        {"step": with_errors(status=1)},
        {"step": with_errors(content=1)},
    ),
    (
        "EarlyStopping",
        {"step": a_step(early_stopping=stopped(700)), "bound_ns": 100 * MS},
        {"step": a_step(early_stopping=stopped(699)), "bound_ns": 100 * MS},
    ),
    (
        "EarlyStopping",
        {"step": a_step(early_stopping=stopped(700, bounded=False)), "rules": "MLPerf"},
        {
            "step": a_step(early_stopping=stopped(699, bounded=False), latency=times(MS)),
            "rules": "MLPerf",
            **CLOSED,
        },
    ),
    (
        "BoundCannotBeMet",
        {"peak": a_peak("Resolved"), "kind": "findPeak"},
        {"peak": a_peak("CannotBeMet"), "kind": "findPeak"},
    ),
    (
        "PeakNotFound",
        {"peak": a_peak("Indistinguishable"), "kind": "findPeak"},
        {"peak": a_peak("OutOfTime", confidence=None), "kind": "findPeak"},
    ),
    (
        "PeakNotFound",
        {"peak": a_peak("Resolved"), "kind": "findPeak"},
        {"peak": a_peak("ProbesTooShort", qps=None, high_qps=None), "kind": "findPeak"},
    ),
    (
        "Unsteady",
        {"step": a_step(windows=rising(0.09))},
        {"step": a_step(windows=rising(0.12))},
    ),
    ("Unsteady", {"warmed_up": True}, {"warmed_up": False}),
    (
        "ServerStall",
        {"step": silent(1049 * MS), **CLOSED},
        {"step": silent(1050 * MS), **CLOSED},
    ),
    (
        "ServerStall",
        {"step": with_errors(timeout=1)},
        {"step": with_errors(timeout=1), **CLOSED},
    ),
    (
        "ServerStall",  # the load generator stood still for most of it
        {"step": slept(1000 * MS), **CLOSED},
        {"step": slept(999 * MS), **CLOSED},
    ),
    (
        "ServerStall",  # nor does it blame the server for what timed out meanwhile
        {"step": slept(1000 * MS, timeout=1), **CLOSED},
        {"step": slept(999 * MS, timeout=1), **CLOSED},
    ),
    (
        "ClientStall",
        {"step": slept(999 * MS), **CLOSED},
        {"step": slept(1000 * MS), **CLOSED},
    ),
    (
        "ClientStall",  # in an open loop everything that was due meanwhile is in the latency
        {"step": slept(2000 * MS)},
        {"step": slept(2000 * MS), **CLOSED},
    ),
    ("LagElsewhere", {"step": lagging(5 * MS)}, {"step": lagging(5 * MS + 1)}),
    (
        "LagElsewhere",  # a percentile without bounds is not known anyway
        {"step": lagging(SECOND, bounded=False)},
        {"step": lagging(SECOND)},
    ),
    (
        "ClientThrottled",
        {"step": client(throttled_seconds=0.01)},
        {"step": client(throttled_seconds=0.0101)},
    ),
    (
        "ClientStarved",
        {"step": client(runnable_wait_seconds=1.0)},
        {"step": client(runnable_wait_seconds=1.01)},
    ),
    (
        "ClientStarved",
        {"step": client(wake_up_lag_nanoseconds=5 * MS), **CLOSED},
        {"step": client(wake_up_lag_nanoseconds=5 * MS + 1), **CLOSED},
    ),
    (
        "ClientStarved",  # its own work made it late: it waited for no CPU
        {"step": client(wake_up_lag_nanoseconds=6 * MS, runnable_wait_seconds=0.099), **CLOSED},
        {"step": client(wake_up_lag_nanoseconds=6 * MS, runnable_wait_seconds=0.101), **CLOSED},
    ),
    (
        "ClientCpu",
        {"step": client(wake_up_lag_nanoseconds=6 * MS, runnable_wait_seconds=0.101), **CLOSED},
        {"step": client(wake_up_lag_nanoseconds=6 * MS, runnable_wait_seconds=0.099), **CLOSED},
    ),
    (
        "ClientStarved",  # an open loop has its dispatch lag
        {"step": client(wake_up_lag_nanoseconds=SECOND)},
        {"step": client(wake_up_lag_nanoseconds=SECOND), **CLOSED},
    ),
    ("WorkerLost", {"step": a_step(workers=workers(0, 0))}, {"end": End.WORKER_LOST}),
    (
        "WorkerLost",
        {"step": a_step(workers=workers(0, 0))},
        {"step": a_step(workers=workers(0, 0, lost=1))},
    ),
    (
        "WorkerStart",
        {"step": a_step(workers=workers(-MS, 4 * MS))},
        {"step": a_step(workers=workers(-MS, 4 * MS + 1))},
    ),
    (
        "ClientSteal",
        {"step": client(steal_seconds=0.4, cpu_count=4), "cpu_count": 2},
        {"step": client(steal_seconds=0.41, cpu_count=4), "cpu_count": 64},
    ),
    (
        "ClockJump",
        {"step": client(clock_jump_nanoseconds=-5 * MS)},
        {"step": client(clock_jump_nanoseconds=-5 * MS - 1)},
    ),
    ("ServerRestarted", {}, {"server_restarted": True}),
    ("EndedEarly", {}, {"cut_short": End.INTERRUPTED}),
    ("EndedEarly", {}, {"cut_short": End.WORKER_LOST}),
    (
        "GrowingBacklog",
        {"unanswered": (0, 7), "step": a_step(drain_nanoseconds=SECOND)},
        {"unanswered": (0, 8), "step": a_step(drain_nanoseconds=SECOND)},
    ),
    (
        "SmallSample",
        {"step": a_step(latency=times(100 * MS))},
        {"step": a_step(latency=times(100 * MS, bounded=False))},
    ),
    ("ConnectionWait", {"step": a_step(waited=10)}, {"step": a_step(waited=11)}),
    (
        "ClientCpu",
        {"step": a_step(client_cpu_seconds=9.0)},
        {"step": a_step(client_cpu_seconds=9.01)},
    ),
    (
        "ClientCpu",
        {"step": a_step(client_cpu_seconds=9.01), "spins": True},
        {"step": a_step(client_cpu_seconds=18.0, workers=workers(0, 0, cpu_seconds=9.01))},
    ),
    (
        "BracketOpen",
        {"peak": a_peak("Indistinguishable"), "kind": "findPeak"},
        {"peak": a_peak("OutOfTime"), "kind": "findPeak"},
    ),
    ("ServerColocated", {}, {"colocated": True, "cpu_count": 2}),
    ("ServerNotGuaranteed", {}, {"not_guaranteed": ("Burstable",)}),
    ("ComputeFellBack", {}, {"compute_nodes_fell_back": 1}),
    (
        "ServerThrottled",
        {"step": a_step(telemetry=[throttled(0.1, used=9.9)])},
        {"step": a_step(telemetry=[throttled(0.102, used=9.9)])},
    ),
    (
        "CpuSteal",
        {"step": a_step(telemetry=[a_node(cpu_count=4, steal_seconds=0.4)])},
        {"step": a_step(telemetry=[a_node(cpu_count=4, steal_seconds=0.41)])},
    ),
    (
        "GpuThrottled",
        {"step": a_step(telemetry=[held_down(1, of=10)])},
        {"step": a_step(telemetry=[held_down(2, of=10)])},
    ),
    (
        "EnergyUnavailable",
        {"power_asked": True, "step": a_step(energy=Energy(attribution="node"))},
        {"power_asked": True},
    ),
    ("EnergyUnavailable", {"power_asked": False}, {"power_asked": True}),
    (
        "EnergyIncomplete",
        {"step": a_step(energy=Energy(attribution="node"))},
        {"step": a_step(energy=Energy(attribution="node", not_covered=["gpu-0 has no counter"]))},
    ),
]


@pytest.mark.parametrize(("rule", "kept", "broken"), BREACHES)
def test_a_rule_breaks_just_past_its_limit(
    rule: str, kept: dict[str, Any], broken: dict[str, Any]
) -> None:
    """At the limit a rule is kept; past it it is the one finding, a sentence with the remedy."""
    assert rule not in names(verdict(**kept))
    judged = verdict(**broken)
    assert names(judged) == [rule]
    (finding,) = judged.reasons + judged.cautions
    (told,) = [each for each in RULES if each.name == rule]
    assert (judged.state == "INVALID") == (told.effect == "reason")
    assert finding.message.endswith(told.remedy)
    assert finding.figure
    assert finding.limit
    assert re.match(r"^[A-Z0-9].*\.$", finding.message)


def test_every_rule_is_tried() -> None:
    """No rule is without a test of its limit."""
    tried = {rule for rule, *_ in BREACHES} | {"NoReply"}
    assert tried == {rule.name for rule in RULES}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_every_limit_has_a_source(rule: Rule) -> None:
    """It is somebody's, or follows from the words, or is our choice: then it says why."""
    assert len(rule.source.split()) > 4
    assert all(", " in choice for choice in re.findall(r"chosen: ([^;]*)", rule.source))


def test_the_documentation_has_every_rule() -> None:
    """The page has each rule, in the table's order, with the code's limit, source and remedy."""
    text = PAGE.read_text()
    sections = dict(re.findall(r"^### (\w+)\n(.*?)(?=^##|\Z)", text, re.MULTILINE | re.DOTALL))
    assert list(sections) == [rule.name for rule in RULES]
    cautions = text.index("## Cautions")
    for rule in RULES:
        section = " ".join(sections[rule.name].split())
        words = re.findall(r"\* \*\*(\w+)\*\*: ", section)
        assert words == ["Figure", "Limit", "Source", "Why", "Remedy"]
        assert f"* **Limit**: {rule.limit} * **Source**: {rule.source} * **Why**: " in section
        assert section.endswith(f"* **Remedy**: {rule.remedy}")
        assert (text.index(f"### {rule.name}\n") > cautions) == (rule.effect == "caution")
