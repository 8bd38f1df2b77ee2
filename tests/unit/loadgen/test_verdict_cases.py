"""Special cases of the verdict's rules: when each applies, and when it does not."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from inferometer_api.results.result import (
    ClientHealth,
    Distribution,
    Energy,
    ErrorExample,
    NodeSample,
    PercentileValue,
    Step,
    Window,
    WorkerShare,
)
from inferometer_api.results.search import ProbeRecord
from inferometer_api.scenarios.step_setting import (
    Bursts,
    Closed,
    JudgedPercentile,
    Open,
    TraceArrivals,
)
from inferometer_loadgen.client.watch import worst
from inferometer_loadgen.record.windows import Second, Windows
from inferometer_loadgen.schedule.steps import End, StepPlan
from inferometer_loadgen.verdict.judge import judge
from inferometer_loadgen.verdict.measurement import Measurement, ScenarioConditions
from inferometer_loadgen.verdict.trend import trend
from support.judged_steps import (
    A_PLAN,
    CLOSED,
    MS,
    SECOND,
    a_node,
    a_peak,
    a_step,
    course,
    names,
    rising,
    stopped,
    throttled,
    times,
    verdict,
    workers,
)


def test_without_an_answer_there_is_no_latency_to_judge() -> None:
    """A step without an answer violates NoReply and ErrorRate only."""
    step = a_step(succeeded=0, failed=1000, latency=None, dispatch_lag=None)
    judged = verdict(step, bound_ns=1)
    assert names(judged) == ["NoReply", "ErrorRate"]
    found = judged.reasons[0]
    assert found.message.startswith("None of 1000 queries was answered successfully.")
    assert (found.figure, found.limit) == ("0 answers", "1 answer")


def test_a_maximum_duration_that_came_first_is_named() -> None:
    """MinQueries names the maximum duration if that ended the step."""
    (finding,) = verdict(a_step(succeeded=999), end=End.MAX_DURATION).reasons
    assert "60 s ended the step" in finding.message


@pytest.mark.parametrize(
    ("seconds", "used", "share"),
    [
        (40.0, 10.0, "80 %"),  # four times the window, on four CPUs
        (3.0, 0.0, "100 %"),
        (40.0, None, "50 %"),  # of all CPU time of the node
        (0.4, None, ""),
        (0.0, 0.0, ""),
    ],
)
def test_throttled_time_is_a_share_of_usable_cpu_time(
    seconds: float, used: float | None, share: str
) -> None:
    """Throttled CPU seconds of several CPUs and servers are a share of CPU seconds."""
    cautions = verdict(a_step(telemetry=[throttled(seconds, used=used)])).cautions
    assert [finding.figure for finding in cautions] == ([share] if share else [])


def test_a_clock_that_an_administrator_set_is_not_throttled() -> None:
    """A configured clock counts as throttled only with another reason."""

    def found(*reasons: str) -> list[str]:
        sample = NodeSample(at_milliseconds=0, gpu_throttle_reasons={"gpu-0": list(reasons)})
        step = a_step(telemetry=[a_node(samples=[sample])])
        return [finding.message for finding in verdict(step).cautions]

    assert found("ApplicationsClocksSetting") == []
    (message,) = found("ApplicationsClocksSetting", "HwSlowdown")
    assert "(HwSlowdown)" in message


def test_an_interrupted_step_is_not_blamed_on_the_server() -> None:
    """Queries outstanding at a signal are no sign that the server falls behind."""
    step = a_step(succeeded=1000, scheduled_qps=200.0)
    judged = verdict(step, end=End.INTERRUPTED, cut_short=End.INTERRUPTED)
    assert names(judged) == ["EndedEarly"]


def test_rules_judge_the_configured_percentile() -> None:
    """With percentile P90, bound and lag are not judged at P99."""

    def at(percentile: float, nanoseconds: int) -> PercentileValue:
        return PercentileValue(percentile=percentile, nanoseconds=nanoseconds)

    base = times(0)
    latency = base.model_copy(update={"percentiles": [at(90, 50 * MS), at(99, 500 * MS)]})
    lag = base.model_copy(update={"percentiles": [at(90, 2 * MS), at(99, 400 * MS)]})
    step = a_step(latency=latency, dispatch_lag=lag)
    rules = {"LatencyBound", "DispatchLag"}
    assert not rules & set(names(verdict(step, bound_ns=60 * MS, percentile=90.0)))
    assert rules <= set(names(verdict(step, bound_ns=60 * MS)))


def test_percentiles_with_delays_of_the_load_generator_are_named() -> None:
    """The judged percentile is correct; the caution gives the figures of the lowest other one."""

    def at(*nanoseconds: int) -> Distribution:
        values = [
            PercentileValue(percentile=p, nanoseconds=ns, low_nanoseconds=ns, high_nanoseconds=ns)
            for p, ns in zip((90, 99, 99.9), nanoseconds, strict=True)
        ]
        return times(0).model_copy(update={"percentiles": values})

    step = a_step(latency=at(7 * MS, 47 * MS, 53 * MS), dispatch_lag=at(0, 35 * MS, 46 * MS))
    judged = verdict(step, percentile=90.0)
    assert judged.state == "VALID"
    (caution,) = judged.cautions
    assert caution.message.startswith(
        "The P99 and P99.9 include delays of the load generator: the P99 of the dispatch lag is "
        "35 ms; with a P99 latency of 47 ms, the limit is 2.35 ms."
    )


_OTHER_KIND = " First error of kind timeout: It took too long. Failed queries have"


@pytest.mark.parametrize(
    ("message", "quoted"),
    [
        (
            "HTTP status 503 Busy: try later",
            "First error of kind status: HTTP status 503 Busy: try later.",
        ),
        ("It was refused.", f"First error of kind status: It was refused.{_OTHER_KIND}"),
        (
            "Error: " + "x" * 500 + " the cause",
            f"First error of kind status: Error: {'x' * 92} … {'x' * 88} the cause.{_OTHER_KIND}",
        ),
        ("", f"the limit is 0.1 %.{_OTHER_KIND}"),
    ],
)
def test_error_rate_quotes_the_first_error_of_every_kind(message: str, quoted: str) -> None:
    """A long message loses its middle: the cause of a traceback stands at its end."""
    counts = a_step(failed=12).counts.model_copy(update={"errors": {"timeout": 5, "status": 7}})
    examples = [
        ErrorExample(kind="status", message=message),
        ErrorExample(kind="timeout", message="It took too long."),
    ]
    (reason,) = verdict(a_step(counts=counts, error_examples=examples)).reasons
    assert reason.rule == "ErrorRate"
    assert quoted in reason.message


def test_a_truncated_trace_is_invalid_whatever_its_number_of_queries() -> None:
    """A trace that the maximum duration ends violates MinQueries."""
    loop = Open(TraceArrivals("a.csv", 1000))
    assert names(verdict(kind="trace", loop=loop)) == []
    (finding,) = verdict(kind="trace", loop=loop, end=End.MAX_DURATION).reasons
    assert (finding.rule, finding.figure) == ("MinQueries", "1000")
    assert "1000 queries of the trace were measured before the maximum dur" in finding.message


def test_throughput_scenarios_need_no_percentile() -> None:
    """Batch and offline get no SmallSample for a P99 without bounds."""
    step = a_step(latency=times(MS, bounded=False))
    for kind in ("batch", "offline"):
        assert names(verdict(step, kind=kind, loop=Closed())) == []


def test_each_step_is_judged_by_itself() -> None:
    """A finding of one batch size names that step."""
    first, second = (StepPlan(f"batch {n}", n, 0, SECOND, SECOND, 1000) for n in (1, 8))
    steps = [
        Measurement(first, a_step(), End.DONE),
        Measurement(second, a_step(succeeded=500, scheduled_qps=None), End.DONE),
    ]
    (finding,) = judge(steps, ScenarioConditions(kind="batch")).reasons
    assert (finding.rule, finding.step) == ("MinQueries", "batch 8")


def test_a_finding_of_every_step_is_reported_once() -> None:
    """The same finding in every step belongs to the scenario; a different one to its step."""
    plans = [StepPlan(f"batch {n}", n, 0, SECOND, SECOND, 1000) for n in (1, 8)]
    reasons = ("there is no agent", "the agent was restarted")

    def found(*each: str) -> list[tuple[str, str]]:
        energies = [Energy(attribution="unavailable", reason=reason) for reason in each]
        steps = [
            Measurement(plan, a_step(energy=energy), End.DONE)
            for plan, energy in zip(plans, energies, strict=True)
        ]
        cautions = judge(steps, ScenarioConditions(kind="batch", energy_requested=True)).cautions
        return [(finding.rule, finding.step) for finding in cautions]

    assert found(reasons[0], reasons[0]) == [("EnergyUnavailable", "")]
    assert found(*reasons) == [("EnergyUnavailable", "batch 1"), ("EnergyUnavailable", "batch 8")]


def test_a_missing_estimate_is_a_caution() -> None:
    """Without a bound, too few queries for an estimate are a SmallSample caution."""
    step = a_step(early_stopping=stopped(699, bounded=False))
    for each in (CLOSED, {}):
        judged = verdict(step, **each)
        assert names(judged) == ["SmallSample"]
        assert judged.cautions[0].limit == "700 answers"


def test_a_missed_bound_is_not_an_early_stopping_fault() -> None:
    """If the percentile exceeds its bound, LatencyBound is the one reason."""
    step = a_step(early_stopping=stopped(699), latency=times(101 * MS))
    assert names(verdict(step, bound_ns=100 * MS)) == ["LatencyBound"]


def test_an_open_loop_has_no_hidden_stall() -> None:
    """The latencies of an open loop include every query that was due during a stall."""
    latency = times(50 * MS).model_copy(update={"max_nanoseconds": 2 * SECOND})
    assert names(verdict(a_step(latency=latency))) == []
    assert names(verdict(a_step(latency=times(2 * SECOND)), **CLOSED)) == []


def test_a_falling_rate_of_answers_is_unsteady() -> None:
    """A closed loop is judged by the rate of its answers, not by their median latency."""
    windows = [
        window.model_copy(update={"succeeded": 200 - 2 * at})
        for at, window in enumerate(course([MS] * 40))
    ]
    (reason,) = verdict(a_step(windows=windows), **CLOSED).reasons
    assert reason.rule == "Unsteady"
    assert "rate of answers fell steadily, by 4" in reason.message


@pytest.mark.parametrize(
    "windows",
    [
        rising(0.5, windows=19),
        course([MS * (100 + 50 * (at % 2)) for at in range(60)]),
        course([MS * at for at in range(1, 41)], answered=2),
        [],
    ],
    ids=["too short", "up and down", "too few answers", "none"],
)
def test_windows_without_a_trend_are_steady(windows: list[Window]) -> None:
    """Short runs, noise and few answers do not violate Unsteady."""
    assert names(verdict(a_step(windows=windows))) == []


@pytest.mark.parametrize("drain", [0.0, 0.006, 0.4, 0.7, 1.2])
@pytest.mark.parametrize("closed", [False, True])
def test_twenty_seconds_are_judged_whatever_the_drain(drain: float, *, closed: bool) -> None:
    """A drain that joins the last second leaves it a whole window; a drain alone is none."""
    windows, second = Windows(), Second()
    for at in range(20):
        answers = 200 - 4 * at if closed else 100
        second.add(np.full(answers, MS * (1 if closed else 100 + at)))
        windows.add(second.close(1.0))
    if drain > 1:
        windows.add(second.close(1.0))
    windows.add_last(second.close(drain % 1))
    reported = windows.report(open_loop=not closed)
    step = a_step(windows=reported, duration_nanoseconds=20 * SECOND)
    (reason,) = verdict(step, **(CLOSED if closed else {})).reasons
    assert reason.rule == "Unsteady"


def test_seconds_of_the_drain_do_not_lower_the_rate() -> None:
    """A late last answer does not turn an uncertain trend into a certain one."""
    tenths = [200 - 4 * at for at in range(10)]
    for at in range(0, 10, 2):
        tenths[at], tenths[at + 1] = tenths[at + 1], tenths[at]
    windows, second = Windows(), Second()
    for at in range(20):
        second.add(np.full(tenths[at // 2], MS))
        windows.add(second.close(1.0))
    windows.add(second.close(1.0))
    second.add(np.array([1200 * MS]))
    windows.add_last(second.close(0.2))
    step = a_step(windows=windows.report(open_loop=False), duration_nanoseconds=20 * SECOND)
    assert names(verdict(step, **CLOSED)) == []


@pytest.mark.parametrize(("swapped", "certain"), [(4, True), (5, False)])
@pytest.mark.parametrize("way", [1, -1])
def test_a_trend_is_certain_if_41_pairs_of_45_agree(
    swapped: int, way: int, *, certain: bool
) -> None:
    """Each swap of neighbours puts one pair in the other order."""
    parts = [float(100 + 2 * way * at) for at in range(10)]
    for at in range(swapped):
        parts[2 * at], parts[2 * at + 1] = parts[2 * at + 1], parts[2 * at]
    found = trend(parts)
    assert (found is not None) == certain
    if found is not None:
        assert found.change * way == pytest.approx(0.18, abs=0.03)


@pytest.mark.parametrize("way", [1, -1])
def test_equal_parts_are_no_trend(way: int) -> None:
    """A tie counts for neither direction: one step of ten parts is less than certain."""
    assert trend([10.0] * 10) is None
    assert trend([10.0] * 5 + [10.0 + way] * 5) is None


def test_noise_is_rarely_unsteady() -> None:
    """At most 2 of 1,000 runs of a minute that scatter by a third violate Unsteady."""
    found = 0
    for seed in range(1000):
        scatter = np.random.default_rng(seed).lognormal(0, 0.3, 60)
        judged = verdict(a_step(windows=course([round(MS * each) for each in scatter])))
        found += judged.state == "INVALID"
    assert found <= 2  # expected: 1 in 2,800; the seeds are fixed


def test_a_load_that_is_meant_to_change_is_not_judged_by_its_trend() -> None:
    """Bursts make the latency rise and fall, and do not violate Unsteady."""
    bursts = Open(Bursts(1000, 2000, SECOND, 2 * SECOND))
    assert names(verdict(a_step(windows=rising(0.5)), loop=bursts, kind="burst")) == []


def test_waiting_for_a_cpu_is_a_share_of_the_time_with_queries_under_way() -> None:
    """The same waiting starves a client with few queries under way, not one with many."""
    latency = times(MS)  # 1,000 of them: 1 s of 10
    rare = a_step(latency=latency, client=ClientHealth(runnable_wait_seconds=0.101))
    assert names(verdict(rare)) == ["ClientStarved"]
    often = a_step(client=ClientHealth(runnable_wait_seconds=0.101))
    assert names(verdict(often)) == []


@pytest.mark.parametrize(
    ("failed", "waited_seconds", "figure"),
    [
        (0, 0.5, "50 %"),
        (0, 1.6, "more than 100 %"),  # most of it without a query under way
        (500, 0.5, ""),
        (500, 1.6, "16 %"),
        (1, 0.5, "50 %"),  # within the limit of ErrorRate
        (2, 9.0, "90 %"),
    ],
)
def test_failed_queries_make_the_share_of_waiting_a_lower_bound(
    failed: int, waited_seconds: float, figure: str
) -> None:
    """Their time is not known, so the share is of the whole measurement."""
    facts = ClientHealth(runnable_wait_seconds=waited_seconds)
    judged = verdict(a_step(latency=times(MS), failed=failed, client=facts))  # 1 s of 10
    found = [each for each in judged.reasons if each.rule == "ClientStarved"]
    assert [each.figure for each in found] == ([figure] if figure else [])
    for each in found:
        least = "at least " if failed > 1 else ""
        assert f"for a CPU, {least}{figure} of the time in which queries were" in each.message


def test_a_little_waiting_at_a_low_rate_is_not_starvation() -> None:
    """With one query a second, little waiting in a minute belongs to wake-ups without a query."""

    def found(waited_seconds: float) -> list[str]:
        facts = ClientHealth(runnable_wait_seconds=waited_seconds)
        latency = times(MS, count=60)
        return names(
            verdict(
                a_step(
                    duration_nanoseconds=60 * SECOND,
                    latency=latency,
                    client=facts,
                    scheduled_qps=1.0,
                )
            )
        )

    assert "ClientStarved" not in found(0.010)
    assert "ClientStarved" not in found(0.060)
    assert "ClientStarved" in found(0.061)  # a millisecond for each query of one


def fleet(*facts: ClientHealth | None) -> list[WorkerShare]:
    """Return workers with what became of each; None of one that had no part."""
    return [
        share.model_copy(update={"client": each, "queries": 0 if each is None else 500})
        for share, each in zip(workers(*[0] * len(facts)), facts, strict=True)
    ]


def test_each_worker_is_judged_by_its_own_facts() -> None:
    """One that is late by its own work and one that waits a little are no starved one."""
    busy = ClientHealth(runnable_wait_seconds=0.0, wake_up_lag_nanoseconds=20 * MS)
    waiting = ClientHealth(runnable_wait_seconds=0.5, wake_up_lag_nanoseconds=100_000)
    starved = ClientHealth(runnable_wait_seconds=0.5, wake_up_lag_nanoseconds=20 * MS)
    for facts, rules in (
        ([busy, waiting], ["ClientCpu"]),
        ([waiting, waiting], []),
        ([busy, starved], ["ClientStarved", "ClientCpu"]),
    ):
        shares = fleet(*facts)
        step = a_step(workers=shares, client=worst(facts))
        assert names(verdict(step, **CLOSED)) == rules
        # A worker without an answer still has a share.
        last = shares[-1].model_copy(update={"queries": 0})
        step = a_step(workers=[*shares[:-1], last], client=worst(facts))
        assert names(verdict(step, **CLOSED)) == rules


def test_workers_without_a_part_count_for_nothing() -> None:
    """Idle workers do not reduce the share of the one worker with queries."""
    waited = ClientHealth(runnable_wait_seconds=0.15)
    step = a_step(latency=times(10 * MS), workers=fleet(waited, *[None] * 7), client=waited)
    assert names(verdict(step, **CLOSED)) == []
    late = [each.model_copy(update={"start_offset_nanoseconds": 7 * MS}) for each in fleet(waited)]
    assert names(verdict(a_step(workers=[*late, *fleet(None)]))) == []


def test_a_worker_is_starved_by_its_own_share_of_the_time() -> None:
    """A worker that waits for half of its own queries' time is starved, whatever the others do."""
    waited = [ClientHealth(runnable_wait_seconds=0.05), ClientHealth(runnable_wait_seconds=0.4)]
    shares = [
        share.model_copy(update={"queries": queries})
        for share, queries in zip(fleet(*waited), (900, 100), strict=True)
    ]
    step = a_step(latency=times(8 * MS), workers=shares, client=worst(waited))
    (reason,) = verdict(step, **CLOSED).reasons
    assert (reason.rule, reason.figure) == ("ClientStarved", "50 %")


def test_clock_uncertainty_counts_as_a_difference_of_starts() -> None:
    """Workers on their own clocks, whose offsets are known to 2 and 3 ms, may be 5 ms apart."""

    def found(*uncertain_ns: int) -> list[str]:
        shares = [
            share.model_copy(update={"clock_uncertainty_nanoseconds": each})
            for share, each in zip(workers(0, 0, 0), uncertain_ns, strict=True)
        ]
        return [each.message for each in verdict(a_step(workers=shares)).cautions]

    assert found(0, 2 * MS, 3 * MS) == []
    assert found(5 * MS, 0, 0) == []
    (message,) = found(0, 2 * MS, 3 * MS + 1)
    assert "Worker 1 may have started" in message or "Worker 2 may have started" in message
    assert "their clocks are known to 5" in message


def test_a_search_without_a_peak_is_never_valid() -> None:
    """A search without any answer, or with an early end, violates PeakNotFound."""
    unknown = {"qps": None, "low_qps": None, "high_qps": None, "confidence": None}
    for more, words in (
        ({"closed_loop_qps": 0.0, "probes": []}, "busy, got no answer."),
        ({}, "ended early, before it confirmed a peak: no probe decided whether the bound is kept"),
    ):
        peak = a_peak("EndedEarly", **unknown).model_copy(update=more)
        (found,) = verdict(a_step(), peak=peak, kind="findPeak").reasons
        assert found.rule == "PeakNotFound"
        assert words in found.message


def not_found(stopped: str, **figures: Any) -> str:
    """Return the sentence about a search without a bracket."""
    unknown = {"qps": None, "low_qps": None, "high_qps": None, "confidence": None}
    limits = {"probe_queries": 1000, "probe_max_seconds": 15, "max_duration_seconds": 300}
    peak = a_peak(stopped, **unknown).model_copy(update=limits | figures)
    (found,) = verdict(a_step(), peak=peak, kind="findPeak").reasons
    assert found.rule == "PeakNotFound"
    return found.message


def cut_off(qps: float, queries: int) -> ProbeRecord:
    """Return a probe that probe.maxSeconds cut off."""
    return ProbeRecord(
        step="", seed=1, target_qps=qps, decided_by="Unfinished", queries=queries, overshoots=0
    )


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (83.21, 101.0, "at least 83.21/s; not confirmed above 101/s."),
        (5120.4, None, "at least 5,120/s; no probe missed the bound at a higher rate."),
        (None, 12.5, "no probe kept the bound; the lowest rate that missed it is 12.5/s."),
        (None, None, "no probe decided whether the bound is kept."),
    ],
)
def test_a_search_without_a_bracket_says_what_it_knows(
    low: float | None, high: float | None, words: str
) -> None:
    """The highest rate that kept the bound, and the lowest one above it that did not."""
    message = not_found("OutOfTime", low_qps=low, high_qps=high)
    assert f"The search has not confirmed a peak: {words}" in message
    assert "The limit validity.maxDurationSeconds (300 s) ended the search." in message


@pytest.mark.parametrize(
    ("stopped", "figures", "remedy"),
    [
        ("OutOfTime", {}, "Raise validity.maxDurationSeconds."),
        ("ProbesCutOff", {}, "Raise probe.maxSeconds, or lower probe.minQueries."),
        ("ProbesTooShort", {}, "Raise probe.minQueries."),
        ("Indistinguishable", {}, "Search on an idle machine, and raise probe.minQueries."),
        ("Indistinguishable", {"qps": 90.0}, "Raise probe.minQueries, or search for a lower"),
        ("EndedEarly", {}, "Run it again to its end."),
        ("EndedEarly", {"closed_loop_qps": 0.0}, "Look at the server's log."),
    ],
)
def test_the_advice_fits_the_end_of_the_search(
    stopped: str, figures: dict[str, Any], remedy: str
) -> None:
    """No advice speaks of a limit that the search did not hit."""
    assert f" the peak is a guess. {remedy}" in not_found(stopped, **figures)


def test_the_limit_that_a_search_hit_is_named() -> None:
    """Probes that probe.maxSeconds cut off are undecided; the setting that would do is named."""
    probes = [cut_off(2.0, 17), cut_off(4.0, 40), a_peak("OutOfTime").probes[0]]
    message = not_found("OutOfTime", probes=probes)
    assert (
        "2 of 3 probes are undecided: probe.maxSeconds (15 s) was over after 17 to 40 of 1,000 "
        "queries; set probe.maxSeconds to at least 625." in message
    )
    assert "undecided" not in not_found("OutOfTime")
    assert "maxDurationSeconds" not in not_found("EndedEarly", probes=probes)


@pytest.mark.parametrize(
    ("closed_loop_qps", "settings"),
    [
        (100.0, "set probe.maxSeconds to at least 25, or probe.minQueries to at most 600."),
        (60.0, "set probe.maxSeconds to at least 42."),
    ],
)
def test_probes_that_cannot_finish_are_refused_with_settings_that_would_do(
    closed_loop_qps: float, settings: str
) -> None:
    """At half the throughput; fewer queries than early stopping needs (459) would not do."""
    message = not_found("ProbesCutOff", closed_loop_qps=closed_loop_qps, probes=[])
    assert message.startswith("The search ended before its first probe. At the first rate, ")
    assert f"{closed_loop_qps / 2:g}/s (half of what the closed loop reached)" in message
    assert settings in message


def test_only_the_probe_at_the_peak_is_judged() -> None:
    """Other probes may miss the bound, end early and have no minimum."""

    def probe(label: str, step: Step) -> Measurement:
        plan = replace(A_PLAN, label=label, is_probe=True, judged=JudgedPercentile(99.0, 100 * MS))
        return Measurement(plan, step, End.DECIDED)

    short = a_step(succeeded=500, duration_nanoseconds=5 * SECOND)
    beyond = probe("200 qps", a_step(latency=times(SECOND), dispatch_lag=times(SECOND)))
    late = probe("", a_step(dispatch_lag=times(SECOND), early_stopping=stopped(699)))
    peak = ScenarioConditions(kind="findPeak", peak=a_peak("Resolved"))
    assert names(judge([beyond, probe("", short)], peak)) == []
    above = probe("", a_step(latency=times(101 * MS)))  # the nearest probe may be above the peak
    assert names(judge([beyond, above], peak)) == []
    assert names(judge([beyond, late], peak)) == ["DispatchLag"]
    unmet = a_peak("CannotBeMet", qps=None, low_qps=None, step=None)
    assert names(judge([beyond], ScenarioConditions(kind="findPeak", peak=unmet))) == [
        "BoundCannotBeMet"
    ]


def test_a_worker_lost_in_any_probe_is_named() -> None:
    """The verdict of a search names the probe in which a worker was lost."""
    probe = replace(A_PLAN, is_probe=True)
    kept = Measurement(probe, a_step(), End.DONE)
    cut = Measurement(
        replace(probe, label="probe 20"), a_step(workers=workers(0, 0, lost=1)), End.WORKER_LOST
    )
    lost = ScenarioConditions(kind="findPeak", cut_short=End.WORKER_LOST, peak=a_peak("EndedEarly"))
    ended, named = judge([kept, cut], lost).reasons
    assert ended.rule == "EndedEarly"
    assert (named.rule, named.step) == ("WorkerLost", "probe 20")
    assert "Worker 1 of the fleet was lost" in named.message


def test_a_bound_that_cannot_be_met_names_the_evidence() -> None:
    """The evidence is one query at a time, or else the lowest rate that was tried."""
    tried = a_peak("CannotBeMet", qps=None, low_qps=None, step=None)
    alone = tried.model_copy(update={"probes": []})
    kept = tried.model_copy(update={"service_time_nanoseconds": 3 * MS})
    messages = [
        judge([], ScenarioConditions(kind="findPeak", peak=peak)).reasons[0].message
        for peak in (alone, kept)
    ]
    assert "10 ms: not even one query at a time does (P99: 12 ms)." in messages[0]
    assert "10 ms: one query at a time may meet it (P99: 3 ms), but no probe did," in messages[1]
    assert "down to 100 queries a second." in messages[1]


def test_offline_reports_how_many_samples_suffice() -> None:
    """A short offline run names a sufficient number of samples."""
    plan = replace(A_PLAN, loop=Closed(None, 1000), batch_size=4, min_queries=1000)
    step = a_step(duration_nanoseconds=5 * SECOND, scheduled_qps=None)
    (reason,) = judge(
        [Measurement(plan, step, End.DONE)], ScenarioConditions(kind="offline")
    ).reasons
    assert "about 8,800 samples would suffice" in reason.message
