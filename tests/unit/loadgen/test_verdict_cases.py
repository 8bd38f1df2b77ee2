"""Is each rule judged where it should be, and not where it should not?"""

from dataclasses import replace

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
from inferometer_api.scenarios.step_setting import Bursts, Closed, JudgedPercentile, Open, Recorded
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
    """Nothing answered is INVALID for that reason and for the errors, and breaks nothing else."""
    step = a_step(succeeded=0, failed=1000, latency=None, dispatch_lag=None)
    judged = verdict(step, bound_ns=1)
    assert names(judged) == ["NoReply", "ErrorRate"]


def test_a_maximum_that_came_first_is_named() -> None:
    """Too few queries because of maxDurationSeconds say that it ended the scenario early."""
    (finding,) = verdict(a_step(succeeded=999), end=End.MAX_DURATION).reasons
    assert "60 s ended it early" in finding.message


@pytest.mark.parametrize(
    ("seconds", "used", "share"),
    [
        (40.0, 10.0, "80 %"),  # four times the window, on four CPUs
        (3.0, 0.0, "100 %"),
        (40.0, None, "50 %"),  # of all CPU time that there was
        (0.4, None, ""),
        (0.0, 0.0, ""),
    ],
)
def test_no_more_is_withheld_than_could_be_used(
    seconds: float, used: float | None, share: str
) -> None:
    """Throttled CPU seconds of several CPUs and servers are a share of CPU seconds, not of time."""
    cautions = verdict(a_step(telemetry=[throttled(seconds, used=used)])).cautions
    assert [finding.figure for finding in cautions] == ([share] if share else [])


def test_a_clock_that_somebody_has_set_is_not_held_down() -> None:
    """An administrator's clock is the GPU's own as long as nothing else is in its way."""

    def found(*reasons: str) -> list[str]:
        sample = NodeSample(at_milliseconds=0, gpu_throttle_reasons={"gpu-0": list(reasons)})
        step = a_step(telemetry=[a_node(samples=[sample])])
        return [finding.message for finding in verdict(step).cautions]

    assert found("ApplicationsClocksSetting") == []
    (told,) = found("ApplicationsClocksSetting", "HwSlowdown")
    assert "(HwSlowdown)" in told


def test_an_interrupted_step_is_not_blamed_on_the_server() -> None:
    """What was outstanding at a signal is no sign of a server that does not keep up."""
    step = a_step(succeeded=1000, scheduled_qps=200.0)
    judged = verdict(step, end=End.INTERRUPTED, cut_short=End.INTERRUPTED)
    assert names(judged) == ["EndedEarly"]


def test_rules_look_at_the_percentile_that_is_asked() -> None:
    """Asked for P90, neither bound nor lag are judged at P99."""

    def at(percentile: float, nanoseconds: int) -> PercentileValue:
        return PercentileValue(percentile=percentile, nanoseconds=nanoseconds)

    base = times(0)
    latency = base.model_copy(update={"percentiles": [at(90, 50 * MS), at(99, 500 * MS)]})
    lag = base.model_copy(update={"percentiles": [at(90, 2 * MS), at(99, 400 * MS)]})
    step = a_step(latency=latency, dispatch_lag=lag)
    rules = {"LatencyBound", "DispatchLag"}
    assert not rules & set(names(verdict(step, bound_ns=60 * MS, percentile=90.0)))
    assert rules <= set(names(verdict(step, bound_ns=60 * MS)))


def test_percentiles_that_are_the_load_generators_own_are_named() -> None:
    """The one that is asked is right; of the others the lowest is told with its figures."""

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
        "The P99 and P99.9 are not the server's alone: the P99 of the dispatch lag is 35 ms, at "
        "most 2.35 ms is allowed beside a P99 latency of 47 ms."
    )


@pytest.mark.parametrize(
    ("said", "quoted"),
    [
        (
            "HTTP status 503 Busy: try later",
            "The first of kind status: HTTP status 503 Busy: try later.",
        ),
        ("It was refused.", "The first of kind status: It was refused. Look at the errors"),
        ("x" * 500, f"The first of kind status: {'x' * 200}... Look at the errors"),
        ("", "at most 0.1 % may. Look at the errors"),
    ],
)
def test_errors_are_told_with_the_first_of_the_most_frequent_kind(said: str, quoted: str) -> None:
    """In its own words, as far as a sentence bears them."""
    counts = a_step(failed=12).counts.model_copy(update={"errors": {"timeout": 5, "status": 7}})
    examples = [
        ErrorExample(kind="status", message=said),
        ErrorExample(kind="timeout", message="It took too long."),
    ]
    (reason,) = verdict(a_step(counts=counts, error_examples=examples)).reasons
    assert reason.rule == "ErrorRate"
    assert quoted in reason.message


def test_a_trace_that_is_cut_is_invalid_however_many_queries_it_had() -> None:
    """What was recorded is replayed whole, or it is another load."""
    loop = Open(Recorded("a.csv", 1000))
    assert names(verdict(kind="trace", loop=loop)) == []
    (finding,) = verdict(kind="trace", loop=loop, end=End.MAX_DURATION).reasons
    assert (finding.rule, finding.figure) == ("MinQueries", "1000")
    assert "1000 queries of the trace were measured before the maximum dur" in finding.message


def test_batch_is_not_judged_by_its_percentile() -> None:
    """Throughput by batch size needs no bounds of P99."""
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


def test_what_every_step_has_is_told_once() -> None:
    """A finding that is the same for every step is the scenario's; one that differs is a step's."""
    plans = [StepPlan(f"batch {n}", n, 0, SECOND, SECOND, 1000) for n in (1, 8)]
    reasons = ("there is no agent", "the agent was restarted")

    def told(*each: str) -> list[tuple[str, str]]:
        energies = [Energy(attribution="unavailable", reason=reason) for reason in each]
        steps = [
            Measurement(plan, a_step(energy=energy), End.DONE)
            for plan, energy in zip(plans, energies, strict=True)
        ]
        cautions = judge(steps, ScenarioConditions(kind="batch", energy_requested=True)).cautions
        return [(finding.rule, finding.step) for finding in cautions]

    assert told(reasons[0], reasons[0]) == [("EnergyUnavailable", "")]
    assert told(*reasons) == [("EnergyUnavailable", "batch 1"), ("EnergyUnavailable", "batch 8")]


def test_an_estimate_that_is_missing_is_a_caution() -> None:
    """Without a bound too few queries for an estimate are told, and make nothing INVALID."""
    step = a_step(early_stopping=stopped(699, bounded=False))
    for each in (CLOSED, {}):
        judged = verdict(step, **each)
        assert names(judged) == ["SmallSample"]
        assert judged.cautions[0].limit == "700 answers"


def test_more_queries_are_no_remedy_for_a_bound_that_is_missed() -> None:
    """Where the percentile is beyond its bound, that is the one reason."""
    step = a_step(early_stopping=stopped(699), latency=times(101 * MS))
    assert names(verdict(step, bound_ns=100 * MS)) == ["LatencyBound"]


def test_a_slow_query_of_an_open_loop_is_no_hidden_stall() -> None:
    """Where every query that was due meanwhile is in the latency, a stall is shown in full."""
    latency = times(50 * MS).model_copy(update={"max_nanoseconds": 2 * SECOND})
    assert names(verdict(a_step(latency=latency))) == []
    assert names(verdict(a_step(latency=times(2 * SECOND)), **CLOSED)) == []


def test_answers_that_become_rarer_are_unsteady() -> None:
    """A closed loop is judged by the rate of its answers, not by their median."""
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
def test_what_is_no_trend_is_steady(windows: list[Window]) -> None:
    """Short runs, noise and few answers are never called unsteady."""
    assert names(verdict(a_step(windows=windows))) == []


@pytest.mark.parametrize("drain", [0.0, 0.006, 0.4, 0.7, 1.2])
@pytest.mark.parametrize("closed", [False, True])
def test_twenty_seconds_are_judged_whatever_the_drain(drain: float, *, closed: bool) -> None:
    """A drain that joins the last second makes that no less of a window; one by itself is none."""
    windows, second = Windows(), Second()
    for at in range(20):
        answers = 200 - 4 * at if closed else 100
        second.add(np.full(answers, MS * (1 if closed else 100 + at)))
        windows.add(second.close(1.0))
    if drain > 1:
        windows.add(second.close(1.0))
    windows.add_last(second.close(drain % 1))
    told = windows.report(open_loop=not closed)
    step = a_step(windows=told, duration_nanoseconds=20 * SECOND)
    (reason,) = verdict(step, **(CLOSED if closed else {})).reasons
    assert reason.rule == "Unsteady"


def test_seconds_of_the_drain_alone_make_no_rate_fall() -> None:
    """Of a trend that is just not certain, a last answer that is long in coming makes none."""
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
def test_a_trend_is_certain_where_41_pairs_of_45_agree(
    swapped: int, way: int, *, certain: bool
) -> None:
    """Each swap of neighbours is one pair in the other order."""
    parts = [float(100 + 2 * way * at) for at in range(10)]
    for at in range(swapped):
        parts[2 * at], parts[2 * at + 1] = parts[2 * at + 1], parts[2 * at]
    found = trend(parts)
    assert (found is not None) == certain
    if found is not None:
        assert found.change * way == pytest.approx(0.18, abs=0.03)


def test_noise_is_seldom_called_unsteady() -> None:
    """Of 1,000 runs of a minute that scatter by a third none has a trend, but by rare chance."""
    found = 0
    for seed in range(1000):
        scatter = np.random.default_rng(seed).lognormal(0, 0.3, 60)
        judged = verdict(a_step(windows=course([round(MS * each) for each in scatter])))
        found += judged.state == "INVALID"
    assert found <= 2  # 1 in 2,800 is to be expected, seeds are fixed


def test_a_load_that_is_meant_to_change_is_not_judged_by_its_trend() -> None:
    """Bursts make the latency rise and fall."""
    bursts = Open(Bursts(1000, 2000, SECOND, 2 * SECOND))
    assert names(verdict(a_step(windows=rising(0.5)), loop=bursts, kind="burst")) == []


def test_waiting_counts_while_queries_are_under_way() -> None:
    """A client that mostly sleeps may not wait long for its CPU when it is needed."""
    latency = times(MS)  # 1,000 of them: 1 s of 10
    rare = a_step(latency=latency, client=ClientHealth(runnable_wait_seconds=0.101))
    assert names(verdict(rare)) == ["ClientStarved"]
    often = a_step(client=ClientHealth(runnable_wait_seconds=0.101))
    assert names(verdict(often)) == []


@pytest.mark.parametrize(
    ("failed", "waited_seconds", "figure"),
    [
        (0, 0.5, "50 %"),
        (0, 1.6, "more than 100 %"),  # most of it while none was under way
        (500, 0.5, ""),
        (500, 1.6, "16 %"),
        (1, 0.5, "50 %"),  # so few hide no more than may fail
        (2, 9.0, "90 %"),
    ],
)
def test_queries_that_failed_may_have_been_under_way_all_the_time(
    failed: int, waited_seconds: float, figure: str
) -> None:
    """Their time is not known: the share is of the whole measurement, and told as the least."""
    facts = ClientHealth(runnable_wait_seconds=waited_seconds)
    judged = verdict(a_step(latency=times(MS), failed=failed, client=facts))  # 1 s of 10
    found = [each for each in judged.reasons if each.rule == "ClientStarved"]
    assert [each.figure for each in found] == ([figure] if figure else [])
    for each in found:
        least = "at least " if failed > 1 else ""
        assert f"for a CPU, {least}{figure} of the time in which queries were" in each.message


def test_a_little_waiting_at_a_low_rate_starves_nobody() -> None:
    """At a query a second of 1 ms 10 ms of waiting in a minute are of all that wakes it."""

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
        # A worker that answered nothing is none without a part.
        last = shares[-1].model_copy(update={"queries": 0})
        step = a_step(workers=[*shares[:-1], last], client=worst(facts))
        assert names(verdict(step, **CLOSED)) == rules


def test_workers_without_a_part_count_for_nothing() -> None:
    """One client's worker is not starved by waiting that would be too long for an eighth of it."""
    waited = ClientHealth(runnable_wait_seconds=0.15)
    step = a_step(latency=times(10 * MS), workers=fleet(waited, *[None] * 7), client=waited)
    assert names(verdict(step, **CLOSED)) == []
    late = [each.model_copy(update={"start_offset_nanoseconds": 7 * MS}) for each in fleet(waited)]
    assert names(verdict(a_step(workers=[*late, *fleet(None)]))) == []


def test_a_worker_that_waits_for_half_of_its_queries_time_is_starved_beside_others() -> None:
    """Its time is that of its own queries: a tenth of all, whatever the others have."""
    waited = [ClientHealth(runnable_wait_seconds=0.05), ClientHealth(runnable_wait_seconds=0.4)]
    shares = [
        share.model_copy(update={"queries": queries})
        for share, queries in zip(fleet(*waited), (900, 100), strict=True)
    ]
    step = a_step(latency=times(8 * MS), workers=shares, client=worst(waited))
    (told,) = verdict(step, **CLOSED).reasons
    assert (told.rule, told.figure) == ("ClientStarved", "50 %")


def test_what_workers_clocks_may_be_off_counts_as_apart() -> None:
    """Workers on their own clocks, whose offsets are known to 2 and 3 ms, may be 5 ms apart."""

    def found(*uncertain_ns: int) -> list[str]:
        shares = [
            share.model_copy(update={"clock_uncertainty_nanoseconds": each})
            for share, each in zip(workers(0, 0, 0), uncertain_ns, strict=True)
        ]
        return [each.message for each in verdict(a_step(workers=shares)).cautions]

    assert found(0, 2 * MS, 3 * MS) == []
    assert found(5 * MS, 0, 0) == []
    (told,) = found(0, 2 * MS, 3 * MS + 1)
    assert "Worker 1 may have begun" in told or "Worker 2 may have begun" in told
    assert "their clocks are known to 5" in told


def test_a_search_without_a_peak_is_never_valid() -> None:
    """Where the closed loop was answered nothing, no probe is judged and the peak is unknown."""
    unknown = {"qps": None, "low_qps": None, "high_qps": None, "confidence": None}
    for more, words in (
        ({"closed_loop_qps": 0.0, "probes": []}, "answered nothing, with the peak unknown."),
        ({}, "The search ended early, with the peak unknown."),
    ):
        peak = a_peak("EndedEarly", **unknown).model_copy(update=more)
        (found,) = verdict(a_step(), peak=peak, kind="findPeak").reasons
        assert found.rule == "PeakNotFound"
        assert words in found.message


def test_only_the_probe_at_the_peak_is_judged() -> None:
    """Probes beyond the peak miss the bound, end early and need no minimum."""

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


def test_a_worker_that_is_lost_in_any_probe_is_named() -> None:
    """A peak that was estimated before is that of a search that did not come to its end."""
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


def test_a_bound_that_cannot_be_met_is_told_by_what_showed_it() -> None:
    """Where one query at a time kept the bound, the lowest rate tells, and not that query."""
    tried = a_peak("CannotBeMet", qps=None, low_qps=None, step=None)
    alone = tried.model_copy(update={"probes": []})
    kept = tried.model_copy(update={"service_time_nanoseconds": 3 * MS})
    messages = [
        judge([], ScenarioConditions(kind="findPeak", peak=peak)).reasons[0].message
        for peak in (alone, kept)
    ]
    assert "10 ms: not even one query at a time does, whose P99 is 12 ms." in messages[0]
    assert "10 ms: one query at a time may, whose P99 is 3 ms, but no probe did," in messages[1]
    assert "down to 100 queries a second." in messages[1]


def test_offline_says_how_many_samples_would_do() -> None:
    """Too short an offline run names the number of samples that lasts."""
    plan = replace(A_PLAN, loop=Closed(None, 1000), batch_size=4, min_queries=1000)
    step = a_step(duration_nanoseconds=5 * SECOND, scheduled_qps=None)
    (reason,) = judge(
        [Measurement(plan, step, End.DONE)], ScenarioConditions(kind="offline")
    ).reasons
    assert "about 8,800 samples would do" in reason.message
