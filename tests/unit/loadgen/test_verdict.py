"""Each rule of the verdict is violated just past its limit, and is documented."""

import re
from pathlib import Path
from typing import Any

import pytest

from inferometer_api.plan.load_plan import LoadNodeFault
from inferometer_api.results.accuracy import AccuracyResult, EvaluatedDataset, SampleFailure
from inferometer_api.results.cold_start import IMAGE_PULLED, ColdStartRecord, StartPhase
from inferometer_api.results.result import ClientHealth, Counts, Energy, Step
from inferometer_loadgen.schedule.steps import End
from inferometer_loadgen.verdict.measurement import NotObtained
from inferometer_loadgen.verdict.rule_table import RULES, VerdictRule
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
    others,
    rising,
    silent,
    stopped,
    throttled,
    times,
    verdict,
    with_errors,
    workers,
)

DOCS = Path(__file__).parents[3] / "docs"
PAGE = DOCS / "reference/verdict.md"
HOW_TO = DOCS / "how-to/invalid.md"


def test_a_step_without_fault_is_valid() -> None:
    """A measurement within every limit has no findings."""
    judged = verdict()
    assert judged.state == "VALID"
    assert names(judged) == []


_PULLED = StartPhase(
    name=IMAGE_PULLED, start_nanoseconds=0, duration_nanoseconds=9, evidence="an event"
)


_LATE = LoadNodeFault(
    node="node-7", sentence="A timer of 1 ms was late by 2 ms.", figure="2 ms", limit="1 ms"
)


def a_start(**changed: Any) -> ColdStartRecord:
    """Return a start at all limits, with some figures changed."""
    start = ColdStartRecord(
        state="ModelCached",
        total_nanoseconds=1000,
        phases=[],
        gap_nanoseconds=0,
        client_delay_nanoseconds=0,
        first_queries_nanoseconds=[],
        model_bytes=1000,
        resident_bytes=10,
    )
    return start.model_copy(update=changed)


def with_sleeping_client(nanoseconds: int, **errors: int) -> Step:
    """Return a step without an answer for 2 s; its client stood still for this part of it."""
    facts = ClientHealth(wake_up_lag_max_nanoseconds=nanoseconds)
    return silent(2000 * MS, client=facts, counts=with_errors(**errors).counts)


def evaluated(processed: int, failed: int) -> AccuracyResult:
    """Return what was found over the samples of a load, with so many of them."""
    return AccuracyResult(
        dataset=EvaluatedDataset(name="d", version="1", license="CC", uri="file:d", samples=2000),
        requested=2000,
        processed=processed,
        failed=failed,
        figures=[],
        failures=[SampleFailure(sample="s0", stage="Output", message="It has no label.")] * failed,
    )


def resent(queries: int) -> Counts:
    """Return the counts of a step in which so many of 1,000 queries were sent twice."""
    return a_step(succeeded=1000).counts.model_copy(update={"resent": queries})


VIOLATIONS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    # rule, arguments just within the limit, arguments just beyond it
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
        "TooManyResent",
        {"step": a_step(counts=resent(1))},
        {"step": a_step(counts=resent(2))},
    ),
    ("QueriesResent", {"step": a_step(counts=resent(0))}, {"step": a_step(counts=resent(1))}),
    (
        "OutputShape",
        {},
        {"step": a_step(output_deviations=["The output 'y' has the shape [1, 1]."])},
    ),
    ("JsonReplies", {"step": a_step(json_replies=0)}, {"step": a_step(json_replies=3)}),
    (
        "ServerNotReady",
        {},
        {"unready_server": "it answered 503 Service Unavailable to GET /v2/health/ready"},
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
        "AchievedRate",  # the rest is answered at once
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
        {
            "peak": a_peak("ProbesTooShort", qps=None, high_qps=None, confidence=None),
            "kind": "findPeak",
        },
    ),
    (
        "Unsteady",
        {"step": a_step(windows=rising(0.09))},
        {"step": a_step(windows=rising(0.12))},
    ),
    ("Unsteady", {"warmed_up": True}, {"warmed_up": False}),
    ("ColdStartState", {"cold_start": a_start()}, {"cold_start": a_start(resident_bytes=11)}),
    (
        "ColdStartState",
        {"cold_start": a_start(state="Nothing", phases=[_PULLED])},
        {"cold_start": a_start(state="Nothing")},
    ),
    (
        "ColdStartGap",
        {"cold_start": a_start(gap_nanoseconds=50)},
        {"cold_start": a_start(gap_nanoseconds=51)},
    ),
    ("ColdStartUnproven", {"cold_start": a_start()}, {"cold_start": a_start(resident_bytes=None)}),
    ("SingleWindow", {"single_window": False}, {"single_window": True}),
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
        {"step": with_sleeping_client(1000 * MS), **CLOSED},
        {"step": with_sleeping_client(999 * MS), **CLOSED},
    ),
    (
        "ServerStall",  # time-outs meanwhile are not the server's fault either
        {"step": with_sleeping_client(1000 * MS, timeout=1), **CLOSED},
        {"step": with_sleeping_client(999 * MS, timeout=1), **CLOSED},
    ),
    (
        "ClientStall",
        {"step": with_sleeping_client(999 * MS), **CLOSED},
        {"step": with_sleeping_client(1000 * MS), **CLOSED},
    ),
    (
        "ClientStall",  # in an open loop the latency includes every query that was due
        {"step": with_sleeping_client(2000 * MS)},
        {"step": with_sleeping_client(2000 * MS), **CLOSED},
    ),
    (
        "BusyMachine",
        {"step": a_step(dispatch_lag=times(6 * MS), other_load=[others(0.2)])},
        {"step": a_step(dispatch_lag=times(6 * MS), other_load=[others(0.21)])},
    ),
    (
        "BusyMachine",  # enough of the CPUs were free
        {"step": a_step(dispatch_lag=times(6 * MS), other_load=[others(0.9, busy=0.99)])},
        {"step": a_step(dispatch_lag=times(6 * MS), other_load=[others(0.9, busy=1.0)])},
    ),
    (
        "OtherProcesses",
        {"step": a_step(other_load=[others(0.2)])},
        {"step": a_step(other_load=[others(0.21)])},
    ),
    (
        "OtherProcesses",  # enough of the CPUs were free
        {"step": a_step(other_load=[others(0.9, busy=0.99)])},
        {"step": a_step(other_load=[others(0.9, busy=1.0)])},
    ),
    ("LagElsewhere", {"step": lagging(5 * MS)}, {"step": lagging(5 * MS + 1)}),
    (
        "LagElsewhere",  # a percentile without bounds is not known
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
    ("SamplesFailed", {"sampled": evaluated(999, 1)}, {"sampled": evaluated(998, 1)}),
    ("SamplesFailed", {"sampled": None}, {"sampled": evaluated(0, 60)}),
    ("SamplesFailed", {"sampled": evaluated(1, 0)}, {"sampled": evaluated(0, 0)}),
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
    ("LoadNodeUnfit", {}, {"load_node_faults": (_LATE,)}),
    ("ServerNotGuaranteed", {}, {"not_guaranteed": ("Burstable",)}),
    ("ComputeFellBack", {}, {"compute_nodes_fell_back": 1}),
    ("UnexpectedPrediction", {}, {"expectation_broken": "1 of 2 predictions differ"}),
    ("ConstraintUnchecked", {}, {"unchecked_constraint": "onnxruntime >=1.20"}),
    ("EngineSetting", {}, {"not_obtained": (NotObtained("precision", "FP32", "BF16"),)}),
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
        {"energy_requested": True, "step": a_step(energy=Energy(attribution="node"))},
        {"energy_requested": True},
    ),
    ("EnergyUnavailable", {"energy_requested": False}, {"energy_requested": True}),
    (
        "EnergyIncomplete",
        {"step": a_step(energy=Energy(attribution="node"))},
        {"step": a_step(energy=Energy(attribution="node", not_covered=["gpu-0 has no counter"]))},
    ),
]


@pytest.mark.parametrize(("rule", "within", "broken"), VIOLATIONS)
def test_a_rule_is_violated_just_past_its_limit(
    rule: str, within: dict[str, Any], broken: dict[str, Any]
) -> None:
    """At the limit a rule is kept; past it, it is the one finding, with reason and remedy."""
    assert rule not in names(verdict(**within))
    judged = verdict(**broken)
    assert names(judged) == [rule]
    (finding,) = judged.reasons + judged.cautions
    (entry,) = [each for each in RULES if each.name == rule]
    assert (judged.state == "INVALID") == (entry.effect == "reason")
    # A search has an advice for each of its ends.
    remedy = "" if rule == "PeakNotFound" else f"{entry.remedy}"
    assert f". {entry.why} {remedy}" in finding.message
    assert finding.message.endswith(remedy or ".")
    assert finding.figure
    assert finding.limit
    assert re.match(r"^[A-Z0-9].*\.$", finding.message)


def test_every_rule_has_a_case() -> None:
    """Every rule has a test of its limit."""
    cases = {rule for rule, *_ in VIOLATIONS} | {"NoReply"}
    assert cases == {rule.name for rule in RULES}


def test_the_how_to_page_has_a_section_for_each_reason() -> None:
    """Messages link to a section named after the rule; each reason has one, and no other rule."""
    sections = re.findall(r"^### (\w+)$", HOW_TO.read_text(), re.MULTILINE)
    assert sorted(sections) == sorted(rule.name for rule in RULES if rule.effect == "reason")


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_every_limit_has_a_source(rule: VerdictRule) -> None:
    """A limit has a named source, follows from a definition, or is chosen for a stated reason."""
    assert len(rule.source.split()) > 4
    assert all(", " in choice for choice in re.findall(r"chosen: ([^;]*)", rule.source))


def test_the_documentation_has_every_rule() -> None:
    """The page has each rule in the code's order, with its limit, remedy, source and reason."""
    text = PAGE.read_text()
    rows = re.findall(r"^\| \[(\w+)\]\(#(\w+)\) \| (\w+) \| (.*) \| (.*) \|$", text, re.MULTILINE)
    assert rows == [
        (
            rule.name,
            rule.name.lower(),
            "INVALID" if rule.effect == "reason" else "caution",
            rule.limit,
            rule.remedy,
        )
        for rule in RULES
    ]
    sections = dict(re.findall(r"^### (\w+)\n(.*?)(?=^##|\Z)", text, re.MULTILINE | re.DOTALL))
    assert list(sections) == [rule.name for rule in RULES]
    cautions = text.index("## Cautions")
    for rule in RULES:
        section = " ".join(sections[rule.name].split())
        assert re.findall(r"\* \*\*(\w+)\*\*: ", section) == ["Figure", "Source", "Why"]
        assert f"* **Source**: {rule.source} * **Why**: {rule.why}" in section
        assert (text.index(f"### {rule.name}\n") > cautions) == (rule.effect == "caution")
