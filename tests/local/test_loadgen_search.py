"""The load generator searches, repeats and warms up as the run says, at a known server."""

import math
from collections.abc import Mapping

import pytest

from support.load_runs import LoadRun, a_plan, measure
from support.oracle_process import oracle_process
from support.oracle_script import Script, delayed

_MS_NS = 1_000_000


def one_at_a_time(seconds: float) -> Script:
    """Return the script of a server that works on one request after the other."""
    return delayed(seconds, is_queue=True)


def run_of(script: Script, scenario: Mapping[str, object], **validity: object) -> LoadRun:
    """Measure one scenario over HTTP; the run must end well."""
    with oracle_process(script) as oracle:
        plan = a_plan(
            oracle.url("HTTP"),
            scenario,
            load={"connections": 32},
            validity={"warmUpSeconds": 0, **validity},
        )
        run = measure(plan)
    assert run.outcome.state == "Complete", run.outcome.message
    return run


def test_a_peak_is_searched_for_with_probes_that_all_stand_in_the_result() -> None:
    """Each probe has a step and a seed of its own, and the figures of the peak agree.

    A machine that is slower for a while makes the server another one: no peak is reported then, or,
    where that is at the beginning, that no rate keeps the bound.
    """
    probe = {"minQueries": 256, "maxSeconds": 5}
    scenario = {
        "findPeak": {"latencyBoundMicroseconds": 10_000, "percentile": "P50", "probe": probe}
    }
    run = run_of(one_at_a_time(0.002), scenario, maxDurationSeconds=300)
    (result,) = run.scenarios
    peak = result.peak
    assert peak is not None
    rules = [reason.rule for reason in result.verdict.reasons]
    if peak.stop_reason == "CannotBeMet":
        is_slow_alone = (peak.service_time_nanoseconds or 0) > peak.latency_bound_nanoseconds
        assert is_slow_alone or not any(each.within_bound for each in peak.probes)
        assert "BoundCannotBeMet" in rules
        return
    labels = [step.label for step in result.steps]
    assert labels[:2] == ["one at a time", "closed loop"]
    assert labels[2:] == [probe.step for probe in peak.probes]
    seeds = [probe.seed for probe in peak.probes]
    assert len(set(seeds)) == len(seeds)
    assert [step.seed for step in result.steps[2:]] == seeds
    assert peak.stop_reason in {"Resolved", "Indistinguishable"}
    assert peak.closed_loop_qps is not None
    assert 2 * peak.probes[0].target_qps == pytest.approx(peak.closed_loop_qps, abs=0.01)
    assert ("PeakNotFound" in rules) == (peak.confidence is None)
    if peak.confidence is not None:
        assert (peak.low_qps or math.inf) <= (peak.qps or 0) <= (peak.high_qps or 0)
    for step, found in zip(result.steps[2:], peak.probes, strict=True):
        assert (step.counts.overshoots or 0) == found.overshoots
        assert step.counts.queries <= found.queries  # those that were late and unanswered too
        assert step.scheduled_qps is not None


def test_a_probe_far_beyond_the_peak_ends_as_soon_as_it_is_decided() -> None:
    """Of the queries that it might send, few are sent once too many are beyond the bound."""
    probe = {"minQueries": 1000, "maxSeconds": 60}
    scenario = {
        "findPeak": {"latencyBoundMicroseconds": 100_000, "percentile": "P90", "probe": probe}
    }
    run = run_of(one_at_a_time(0.01), scenario, maxDurationSeconds=15)
    (result,) = run.scenarios
    assert result.peak is not None
    early = [each for each in result.peak.probes if each.decided_by == "Overshoots"]
    assert early
    assert all(each.queries < 1000 for each in early if not each.ran_to_completion)


def test_a_bound_below_the_service_time_cannot_be_met_at_any_rate() -> None:
    """One query at a time decides it, and the verdict says so by name."""
    scenario = {"findPeak": {"latencyBoundMicroseconds": 2_000, "percentile": "P90"}}
    run = run_of(delayed(0.01), scenario)
    (result,) = run.scenarios
    assert result.peak is not None
    assert (result.peak.stop_reason, result.peak.probes) == ("CannotBeMet", [])
    assert (result.peak.service_time_nanoseconds or 0) >= 10 * _MS_NS
    assert "BoundCannotBeMet" in [reason.rule for reason in result.verdict.reasons]


def test_a_search_out_of_time_reports_no_peak() -> None:
    """The maximum duration ends a search between two probes, and the verdict names it."""
    bound = {"latencyBoundMicroseconds": 500_000, "percentile": "P90"}
    scenario = {"findPeak": {**bound, "probe": {"minQueries": 1000, "maxSeconds": 60}}}
    run = run_of(one_at_a_time(0.005), scenario, maxDurationSeconds=3)
    (result,) = run.scenarios
    assert result.peak is not None
    assert result.peak.stop_reason == "OutOfTime"
    (reason,) = [each for each in result.verdict.reasons if each.rule == "PeakNotFound"]
    assert "The limit validity.maxDurationSeconds (3 s) ended the search" in reason.message


def test_probes_that_cannot_finish_at_the_first_rate_are_refused() -> None:
    """No probe is sent, and the verdict says which settings would do."""
    probe = {"minQueries": 1000, "maxSeconds": 1}
    scenario = {"findPeak": {"latencyBoundMicroseconds": 500_000, "probe": probe}}
    run = run_of(one_at_a_time(0.005), scenario)
    (result,) = run.scenarios
    assert result.peak is not None
    assert (result.peak.stop_reason, result.peak.probes) == ("ProbesCutOff", [])
    labels = [step.label for step in result.steps]
    assert labels == ["one at a time", "closed loop", "closed loop 2"]
    (reason,) = [each for each in result.verdict.reasons if each.rule == "PeakNotFound"]
    assert "set probe.maxSeconds to at least" in reason.message


def test_repeats_use_the_next_seeds_and_share_a_summary() -> None:
    """Repeats are results of their own, and progress says which one goes on."""
    run = run_of(delayed(0.005), {"server": {"targetQps": 50}}, repeats=3)
    assert [(each.repeat, each.seed) for each in run.scenarios] == [(1, 42), (2, 43), (3, 44)]
    scheduled = {each.steps[0].counts.scheduled for each in run.scenarios}
    assert len(scheduled) > 1
    assert {report.repeat for report in run.progress if report.scenario} >= {1, 3}
    (repeated,) = run.repeated
    assert (repeated.name, repeated.repeats) == ("s0", 3)
    achieved = next(each for each in repeated.figures if each.name == "achievedQps")
    assert achieved.values == [each.steps[0].achieved_qps for each in run.scenarios]


def test_a_sweep_over_clients_has_its_knee() -> None:
    """A server of one worker has its knee at one client: more only wait."""
    run = run_of(
        one_at_a_time(0.01),
        {"concurrency": {"clients": [1, 8]}},
        minDurationSeconds=4,
    )
    (result,) = run.scenarios
    assert [step.clients for step in result.steps] == [1, 8]
    assert result.knee is not None
    assert (result.knee.clients, result.knee.step) == (1, "clients 1")


def test_a_warm_up_goes_on_until_it_is_steady() -> None:
    """Three whole seconds are alike before the window opens."""
    run = run_of(delayed(0.02), {"singleStream": {}}, warmUp="UntilSteady")
    (result,) = run.scenarios
    assert result.steps[0].warm_up_nanoseconds >= 3_000_000_000
    assert result.steps[0].counts.queries > 0


def test_a_server_that_limits_requests_is_searched_for_the_rate_it_takes() -> None:
    """What it refuses of queries one at a time, and of the next step's first, ends no search."""
    probe = {"minQueries": 128, "maxSeconds": 5}
    scenario = {
        "findPeak": {"latencyBoundMicroseconds": 100_000, "percentile": "P90", "probe": probe}
    }
    run = run_of(Script(limit=(20, 100.0)), scenario, maxDurationSeconds=12)
    (result,) = run.scenarios
    alone, *_ = result.steps
    assert result.peak is not None
    assert alone.counts.failed > 0.2 * alone.counts.queries  # more than a P90 may lack
    assert result.peak.stop_reason != "CannotBeMet"
    assert result.peak.probes
