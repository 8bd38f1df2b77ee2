"""The search for a peak: how it decides its probes, chooses its rates and ends."""

import math
from collections.abc import Callable
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer_api.results.search import Peak
from inferometer_api.scenarios.step_setting import Closed, Open, Steady
from inferometer_api.scenarios.table import SCENARIOS
from inferometer_api.spec.scenario import FindPeak, Validity
from inferometer_loadgen.schedule.steps import SECOND_NS
from inferometer_loadgen.search.goal import (
    Decision,
    Goal,
    ObservedCounts,
    decide,
    decide_at_end,
    exceeds_share,
    make_goal,
)
from inferometer_loadgen.search.peak import next_step
from inferometer_loadgen.search.peak_regression import LEAST_BURSTS, ProbeCount, estimate_peak
from inferometer_loadgen.search.peak_report import peak_result
from inferometer_loadgen.search.pilots import FEWEST_PILOTS
from inferometer_loadgen.search.probes import (
    ProbeAt,
    ProbeResult,
    Saturation,
    SearchState,
    SingleQuery,
    with_closed_loop,
)
from inferometer_loadgen.search.roles import LOOKS
from inferometer_loadgen.search.steps import goal_from_row, plan_search_step
from inferometer_loadgen.verdict.early_stopping import max_overshoots, required_queries
from support.noisy_searches import is_contradicted, kept_rates_of

GOAL = make_goal(99.0, 10_000_000, 8192, 60.0)


def with_probe(goal: Goal, found: SearchState, ask: ProbeAt, seen: ObservedCounts) -> SearchState:
    """Return the search's state after a probe with these counts."""
    decided = decide_at_end(goal.percentile, goal.query_limit, seen)
    tried = ProbeResult(ask, seen, decided, f"probe {len(found.probes) + 1}", 0)
    return replace(found, probes=(*found.probes, tried))


def searched_by(share_at: Callable[[ProbeAt], float], closed_loop_qps: float) -> Peak:
    """Search a server with this share of overshoots in each probe."""
    random = np.random.default_rng(5)
    found = SearchState(alone=ObservedCounts(900, 0), closed_loop_qps=closed_loop_qps)
    while not isinstance(ask := next_step(GOAL, found), str):
        if isinstance(ask, Saturation):
            found = with_closed_loop(with_closed_loop(found, closed_loop_qps), closed_loop_qps)
            continue
        assert isinstance(ask, ProbeAt)
        beyond = int(random.binomial(GOAL.query_limit, share_at(ask)))
        found = with_probe(GOAL, found, ask, ObservedCounts(GOAL.query_limit, beyond))
    return peak_result(GOAL, found, ask)


def changed_server_searched(
    slope: float, now_qps: float, after: int, *, by: Callable[[ProbeAt], bool]
) -> Peak:
    """Search a server whose peak is 440 queries a second until so many such probes ran."""
    probe_count = 0

    def share_at(ask: ProbeAt) -> float:
        nonlocal probe_count
        probe_count += by(ask)
        peak_qps = now_qps if probe_count > after else 440
        return min(0.95, 0.01 * math.exp(slope * (ask.milli_qps / 1000 / peak_qps - 1)))

    return searched_by(share_at, 506.0)


def searched(goal: Goal, share_at: "dict[str, float]", seed: int = 1) -> Peak:
    """Search a server with independent overshoots of logistic probability."""
    random = np.random.default_rng(seed)
    found = SearchState(alone=ObservedCounts(900, 0), service_time_ns=1, closed_loop_qps=1000.0)
    while not isinstance(ask := next_step(goal, found), str):
        assert isinstance(ask, ProbeAt)
        log_odds = share_at["slope"] * (ask.milli_qps / 1000 / share_at["peak"] - 1)
        odds = goal.share / (1 - goal.share) * np.exp(min(50.0, log_odds))
        beyond = random.random(goal.query_limit) < odds / (1 + odds)
        seen = ObservedCounts(goal.query_limit, int(beyond.sum()))
        found = with_probe(goal, found, ask, seen)
    return peak_result(goal, found, ask)


@pytest.mark.parametrize("peak_qps", [90.0, 430.0, 700.0, 990.0, 2300.0])
def test_a_search_finds_the_rate_at_which_the_percentile_is_at_the_bound(peak_qps: float) -> None:
    """The estimate is within 2 % of the true peak, and the bracket contains it."""
    peak = searched(GOAL, {"peak": peak_qps, "slope": 20.0})
    assert peak.qps == pytest.approx(peak_qps, rel=0.02)
    assert (peak.low_qps or 0) < (peak.qps or 0) < (peak.high_qps or 0)
    assert peak.confidence == 0.95
    assert peak.step in {probe.step for probe in peak.probes if probe.ran_to_completion}
    counted = [probe for probe in peak.probes if probe.ran_to_completion and not probe.pilot]
    assert len(counted) in LOOKS
    assert len({probe.target_qps for probe in counted}) == 2
    assert sum(probe.pilot for probe in peak.probes) >= FEWEST_PILOTS


@pytest.mark.parametrize(
    ("low", "high", "judged"),
    [
        ([20, 60, 75, 30], [300, 160, 190, 250], "probe 5"),
        ([30, 5, 10, 20], [180, 95, 120, 101], "probe 4"),
    ],
)
def test_of_probes_at_one_rate_the_one_nearest_to_the_bound_is_judged(
    low: list[int], high: list[int], judged: str
) -> None:
    """Of several probes at the rate nearest to the peak, the share of overshoots decides."""
    found = SearchState(alone=ObservedCounts(900, 0), service_time_ns=1, closed_loop_qps=1000.0)
    for pair in zip(low, high, strict=True):
        for milli_qps, overshoots in zip((420_000, 440_000), pair, strict=True):
            ask = ProbeAt(milli_qps, runs_to_completion=True)
            found = with_probe(GOAL, found, ask, ObservedCounts(GOAL.query_limit, overshoots))
    assert peak_result(GOAL, found, "Resolved").step == judged


def test_a_steep_server_is_resolved_and_a_flat_one_is_indistinguishable() -> None:
    """The search says whether its bracket is within 1 % or its ends differ by chance alone."""
    steep = searched(GOAL, {"peak": 500.0, "slope": 300.0})
    flat = searched(GOAL, {"peak": 500.0, "slope": 8.0})
    assert (steep.stop_reason, flat.stop_reason) == ("Resolved", "Indistinguishable")
    assert (steep.high_qps or 0) <= 1.01 * (steep.low_qps or 0)
    assert (flat.high_qps or 0) > 1.01 * (flat.low_qps or 0)


@given(st.randoms(use_true_random=False), st.sampled_from([1, 20, 1000]))
def test_every_search_ends_whatever_its_probes_find(random: Random, queries: int) -> None:
    """Few queries, none, only overshoots and failures all lead to a next step or an end."""
    seconds = random.choice([2.0, 600.0])
    goal = make_goal(random.choice([50.0, 90.0, 99.0]), 10_000_000, queries, seconds)
    found = SearchState(
        alone=ObservedCounts(goal.query_limit, 0), closed_loop_qps=random.uniform(5, 500)
    )
    while not isinstance(ask := next_step(goal, found), str):
        if isinstance(ask, Saturation):
            assert not found.closed_loops
            found = with_closed_loop(found, random.uniform(5, 500))
            found = with_closed_loop(found, random.uniform(5, 500))
            continue
        assert isinstance(ask, ProbeAt)
        if len(found.probes) == 60:  # a server that keeps every rate is only left by the time
            break
        seen = ObservedCounts(
            random.randint(0, goal.query_limit) if random.random() < 0.2 else queries, 0
        )
        beyond = round(seen.queries * random.random() ** random.choice([1, 5, 100]))
        seen = replace(seen, overshoots=beyond, failed=beyond * random.choice([0, 0, 0, 1]))
        found = with_probe(goal, found, ask, seen)
        assert (peak_result(goal, found, "OutOfTime").qps or 1) > 0
    if isinstance(ask, str):
        assert (peak_result(goal, found, ask).qps or 1) > 0


def test_a_server_that_saturates_above_its_peak_is_measured_below_that() -> None:
    """A pilot at saturation keeps later probes below it, however flat the shares seem."""

    def share_at(ask: ProbeAt) -> float:
        qps = ask.milli_qps / 1000
        return 0.01 * math.exp(5 * (qps / 410 - 1)) if qps < 450 else 0.3

    peak = searched_by(share_at, 525.0)
    assert peak.qps == pytest.approx(410, rel=0.03)
    counted = [probe for probe in peak.probes if probe.ran_to_completion and not probe.pilot]
    assert max(probe.target_qps for probe in counted) < 450
    assert sum(probe.pilot and probe.target_qps >= 450 for probe in peak.probes) <= 3


@pytest.mark.parametrize(("before_qps", "now_qps"), [(305, 325), (325, 305), (305, 345)])
def test_a_server_that_was_slower_or_faster_while_pilots_ran_is_measured_as_it_is(
    before_qps: float, now_qps: float
) -> None:
    """Two rates on one side of the peak lead to two others and determine no peak."""
    peak_qps = before_qps

    def share_at(ask: ProbeAt) -> float:
        nonlocal peak_qps
        if ask.runs_to_completion and not ask.pilot:
            peak_qps = now_qps
        return min(0.09, 0.01 * math.exp(25 * (ask.milli_qps / 1000 / peak_qps - 1)))

    peak = searched_by(share_at, 525.0)
    assert peak.qps == pytest.approx(now_qps, rel=0.03)
    assert peak.confidence is not None


@pytest.mark.parametrize(("slope", "now_qps"), [(20, 352), (60, 418), (60, 400), (60, 387)])
@pytest.mark.parametrize("after", [1, 2, 3, 4])
def test_a_server_that_becomes_slower_while_pilots_run_is_measured_as_it_is(
    slope: float, now_qps: float, after: int
) -> None:
    """Pilots from a faster server are discarded."""
    peak = changed_server_searched(slope, now_qps, after, by=lambda ask: ask.runs_to_completion)
    assert peak.qps == pytest.approx(now_qps, rel=0.03)
    assert peak.confidence is not None


@pytest.mark.parametrize("now_qps", [352.0, 396.0, 484.0])
@pytest.mark.parametrize("slope", [20.0, 60.0])
def test_a_server_that_changes_after_two_probes_of_the_answer_is_measured_as_it_is(
    now_qps: float, slope: float
) -> None:
    """Two outdated probes of eight do not move the peak away from where the others put it."""
    peak = changed_server_searched(
        slope, now_qps, 2, by=lambda ask: ask.runs_to_completion and not ask.pilot
    )
    assert peak.qps == pytest.approx(now_qps, rel=0.03)
    assert peak.confidence is not None


def test_a_search_that_time_ends_claims_a_bracket_of_enough_probes_alone() -> None:
    """The bracket is that of the probes so far; with too few probes there is none."""
    whole = searched(GOAL, {"peak": 500.0, "slope": 20.0})
    tried = tuple(
        ProbeResult(
            ProbeAt(round(each.target_qps * 1000), each.ran_to_completion, each.pilot),
            ObservedCounts(each.queries, each.overshoots),
            each.decided_by,
            each.step,
            each.seed,
        )
        for each in whole.probes
    )
    first = next(
        index
        for index, each in enumerate(tried)
        if each.probe.runs_to_completion and not each.probe.pilot
    )
    for counted, confidence in ((LOOKS[0] - 1, None), (LOOKS[0], 0.95)):
        found = SearchState(
            alone=ObservedCounts(900, 0),
            service_time_ns=1,
            closed_loop_qps=1000.0,
            probes=tried[: first + counted],
        )
        peak = peak_result(GOAL, found, "OutOfTime")
        assert peak.confidence == confidence
        assert peak.qps == pytest.approx(500, rel=0.05)


@pytest.mark.parametrize(
    ("whole", "low_qps", "high_qps"),
    [
        ([], 500, 560),
        ([(520, 900)], 500, 520),
        ([(520, 900), (400, 900)], 500, 520),
        ([(520, 10), (540, 10)], 540, 560),
        ([(580, 10)], 580, 700),
        ([(500, 900), (400, 900)], None, 400),
        ([(500, 900), (500, 10)], 500, 560),
    ],
)
def test_a_search_without_a_peak_reports_the_highest_rate_that_kept_the_bound(
    whole: list[tuple[int, int]], low_qps: int | None, high_qps: int | None
) -> None:
    """No late probe at another rate refutes one that kept the bound, only one at its own rate."""
    found = SearchState(alone=ObservedCounts(900, 0), closed_loop_qps=1000.0)
    for qps, overshoots, queries in ((500, 0, 459), (1000, 200, 250), (700, 200, 250)):
        found = with_probe(
            GOAL,
            found,
            ProbeAt(qps * 1000, runs_to_completion=False),
            ObservedCounts(queries, overshoots),
        )
    found = with_probe(
        GOAL, found, ProbeAt(560_000, runs_to_completion=False), ObservedCounts(250, 200)
    )
    for qps, overshoots in whole:
        ask = ProbeAt(qps * 1000, runs_to_completion=True, pilot=True)
        found = with_probe(GOAL, found, ask, ObservedCounts(GOAL.query_limit, overshoots))
    peak = peak_result(GOAL, found, "OutOfTime")
    assert (peak.qps, peak.low_qps, peak.high_qps) == (None, low_qps, high_qps)


def test_shares_without_any_order_still_have_an_estimate() -> None:
    """The fit divides by nothing that is 0 if one rate has all the weight."""
    overshoots = (132, 13, 9, 396, 0, 64, 0, 0, 370, 210, 1000)
    rates = (22, 23, 27, 34, 47, 69, 109, 187, 345, 690, 1379)
    at = estimate_peak(tuple(map(ProbeCount, rates, [1000] * 11, overshoots)), 0.5)
    assert at is None or at.qps > 0


def test_overshoots_in_single_bursts_bound_no_peak() -> None:
    """A server that is slow once in a while, for long, leaves a search without a bracket."""
    random = np.random.default_rng(3)
    found = SearchState(alone=ObservedCounts(900, 0), closed_loop_qps=1000.0)
    while not isinstance(ask := next_step(GOAL, found), str):
        assert isinstance(ask, ProbeAt)
        often = min(1.0, 0.1 * math.exp(20 * (ask.milli_qps / 500_000 - 1)))
        overshoots = round(random.exponential(800)) if random.random() < often else 0
        seen = ObservedCounts(GOAL.query_limit, min(overshoots, GOAL.query_limit))
        found = with_probe(GOAL, found, ask, seen)
    peak = peak_result(GOAL, found, ask)
    assert peak.stop_reason == "Indistinguishable"
    assert peak.confidence is None


def test_a_search_starts_with_single_queries_saturation_and_half_of_that_rate() -> None:
    """The first three steps measure the service time, the throughput, and half of it."""
    assert next_step(GOAL, SearchState()) == SingleQuery()
    alone = SearchState(alone=ObservedCounts(900, 0))
    assert next_step(GOAL, alone) == Saturation()
    assert next_step(GOAL, replace(alone, closed_loop_qps=800.0)) == ProbeAt(
        400_000, runs_to_completion=False
    )


def test_a_bound_below_the_service_time_cannot_be_met() -> None:
    """More overshoots of queries one at a time than chance allows end the search at once."""
    found = SearchState(alone=ObservedCounts(918, 918), service_time_ns=20_000_000)
    assert next_step(GOAL, found) == "CannotBeMet"
    peak = peak_result(GOAL, found, "CannotBeMet")
    assert (peak.qps, peak.low_qps, peak.confidence) == (None, None, None)
    assert peak.service_time_nanoseconds == 20_000_000


def test_a_server_that_refuses_queries_one_at_a_time_is_searched_on() -> None:
    """A rate limiter's errors do not show how long an answer takes; a timeout does."""
    refused = ObservedCounts(900, 890, failed=890)
    assert next_step(GOAL, SearchState(alone=refused)) == Saturation()
    assert next_step(GOAL, SearchState(alone=replace(refused, timed_out=890))) == "CannotBeMet"
    late = ObservedCounts(900, 890, failed=450)
    assert next_step(GOAL, SearchState(alone=late)) == "CannotBeMet"


def test_rates_that_never_keep_the_bound_cannot_be_met() -> None:
    """If even a two-hundredth of the throughput exceeds the bound, no rate meets it."""
    found = SearchState(alone=ObservedCounts(900, 0), closed_loop_qps=1000.0)
    for _ in range(20):
        ask = next_step(GOAL, found)
        if isinstance(ask, str):
            break
        assert isinstance(ask, ProbeAt)
        tried = ProbeResult(ask, ObservedCounts(100, 100), "Overshoots", "probe", 0)
        found = replace(found, probes=(*found.probes, tried))
    assert ask == "CannotBeMet"


def test_the_rate_doubles_until_the_bound_is_broken_and_then_is_bisected() -> None:
    """A rate that missed the bound once is tried again as soon as a lower one keeps it."""
    found = SearchState(alone=ObservedCounts(900, 0), closed_loop_qps=1000.0)
    rates_qps = []
    for enough in (True, True, False, True, False, False, True):
        ask = next_step(GOAL, found)
        assert isinstance(ask, ProbeAt)
        rates_qps.append(ask.milli_qps / 1000)
        decided: Decision = "EnoughQueries" if enough else "Overshoots"
        found = replace(
            found,
            probes=(*found.probes, ProbeResult(ask, ObservedCounts(500, 0), decided, "probe", 0)),
        )
    expected = [500, 1000, 2000, 1414.214, 2000, 1681.793, 1542.211]
    assert rates_qps == pytest.approx(expected, abs=0.001)
    again = next_step(GOAL, found)
    assert again == ProbeAt(1_681_793, runs_to_completion=False)


def doubled(
    closed_loop_qps: float, decided: Decision, seen: ObservedCounts
) -> tuple[SearchState, str]:
    """Search a server whose probes all have these counts, at any rate."""
    found = SearchState(
        alone=ObservedCounts(900, 0), service_time_ns=1, closed_loop_qps=closed_loop_qps
    )
    while not isinstance(ask := next_step(GOAL, found), str):
        if isinstance(ask, Saturation):
            found = with_closed_loop(with_closed_loop(found, closed_loop_qps), closed_loop_qps)
            continue
        assert isinstance(ask, ProbeAt)
        tried = ProbeResult(ask, seen, decided, f"probe {len(found.probes) + 1}", 0)
        found = replace(found, probes=(*found.probes, tried))
    return found, ask


@pytest.mark.parametrize("closed_loop_qps", [300.0, 10_000.0])
@pytest.mark.parametrize(
    ("decided", "seen"),
    [("EnoughQueries", ObservedCounts(1024, 0)), ("Unfinished", ObservedCounts(0, 0))],
)
def test_probes_too_short_for_their_queue_end_the_search(
    closed_loop_qps: float, decided: Decision, seen: ObservedCounts
) -> None:
    """No server sustains a multiple of its closed-loop throughput: the search stops doubling."""
    found, stopped = doubled(closed_loop_qps, decided, seen)
    assert stopped == "ProbesTooShort"
    rates = [each.probe.milli_qps / 1000 / closed_loop_qps for each in found.probes]
    assert rates == [0.5, 1, 2, 4]
    peak = peak_result(GOAL, found, "ProbesTooShort")
    assert (peak.qps, peak.confidence) == (None, None)
    # They kept the bound only because they ended too soon.
    assert (peak.low_qps, peak.high_qps) == (None, None)


def test_whole_probes_too_short_for_their_queue_end_the_search() -> None:
    """Work of others that spoils the probes before them does not hide it.

    A busy machine was said to answer at least eight times the queries of its closed loop.
    """
    most, found = 10_000.0, SearchState(alone=ObservedCounts(900, 0), service_time_ns=1)
    while not isinstance(ask := next_step(GOAL, found), str):
        if not isinstance(ask, ProbeAt):
            found = with_closed_loop(found, most)
            continue
        is_spoiled = not ask.runs_to_completion and ask.milli_qps > 1000 * most
        seen = ObservedCounts(1024, 200 if is_spoiled else 0)
        decided: Decision = "Overshoots" if is_spoiled else "EnoughQueries"
        tried = ProbeResult(ask, seen, decided, f"probe {len(found.probes) + 1}", 0)
        found = replace(found, probes=(*found.probes, tried))
    assert ask == "ProbesTooShort"
    assert any(each.probe.runs_to_completion for each in found.probes)
    peak = peak_result(GOAL, found, ask)
    assert (peak.qps, peak.low_qps, peak.high_qps) == (None, None, None)


def test_a_throughput_that_ends_the_search_is_measured_again() -> None:
    """A neighbour that slows the first closed loop refuses no spec, and caps no rate."""
    alone = SearchState(alone=ObservedCounts(900, 0))
    slow = with_closed_loop(alone, 100.0)  # 8,192 queries at 50/s take longer than 60 s
    assert next_step(GOAL, slow) == Saturation(2)
    assert next_step(GOAL, with_closed_loop(slow, 90.0)) == "ProbesCutOff"
    assert next_step(GOAL, with_closed_loop(slow, 1000.0)) == ProbeAt(
        500_000, runs_to_completion=False
    )


def test_probes_that_cannot_finish_at_the_first_rate_are_refused() -> None:
    """8,192 queries take 60 s at 136.53/s, half of 273.07/s."""
    found = SearchState(alone=ObservedCounts(900, 0))
    for qps, is_refused in ((273.06, True), (273.08, False)):
        ask = next_step(GOAL, with_closed_loop(with_closed_loop(found, qps), qps))
        assert (ask == "ProbesCutOff") == is_refused
    peak = peak_result(GOAL, found, "ProbesCutOff")
    assert (peak.probe_queries, peak.probe_max_seconds, peak.probes) == (8192, 60, [])


def test_a_probe_that_is_cut_off_is_undecided() -> None:
    """Few queries without a late one neither keep nor miss the bound, and bound no peak."""
    goal = make_goal(99.0, 10_000_000, 1024, 60.0)
    found = SearchState(alone=ObservedCounts(900, 0), closed_loop_qps=1000.0)
    for qps, seen in ((500, ObservedCounts(40, 0)), (1000, ObservedCounts(17, 1))):
        ask = ProbeAt(qps * 1000, runs_to_completion=False)
        found = with_probe(goal, found, ask, seen)
    peak = peak_result(goal, found, "OutOfTime")
    assert [each.decided_by for each in peak.probes] == ["Unfinished", "Unfinished"]
    assert [each.within_bound for each in peak.probes] == [None, None]
    assert (peak.low_qps, peak.high_qps) == (None, None)


def test_a_cut_off_probe_with_many_late_queries_is_decided() -> None:
    """More late queries than chance explains miss the bound, however few queries there are."""
    assert decide_at_end(99.0, 1024, ObservedCounts(40, 8)) == "Overshoots"
    assert decide_at_end(99.0, 1024, ObservedCounts(40, 8, failed=7)) == "Errors"
    assert decide_at_end(99.0, 1024, ObservedCounts(40, 1)) == "Unfinished"
    assert decide_at_end(99.0, 1024, ObservedCounts(0, 0)) == "Unfinished"


def test_a_search_looks_higher_again_after_probes_that_a_neighbour_spoiled() -> None:
    """Eight bad probes in a row lead down, and the next good ones back up."""
    found = SearchState(alone=ObservedCounts(900, 0), closed_loop_qps=1000.0)
    rates = []
    for number in range(14):
        ask = next_step(GOAL, found)
        assert isinstance(ask, ProbeAt)
        rates.append(ask.milli_qps / 1000)
        is_late = number < 5 or ask.milli_qps > 900_000
        seen = ObservedCounts(200, 200) if is_late else ObservedCounts(459, 0)
        found = with_probe(GOAL, found, ask, seen)
    assert rates[:6] == pytest.approx([500, 250, 125, 62.5, 31.25, 15.625])
    assert rates[6:11] == pytest.approx([31.25, 62.5, 125, 250, 500])
    assert max(rates) == 1000


def measured_while_slow() -> SearchState:
    """Return a search that located its peak at 800/s, and then counted probes around 440/s."""
    found = SearchState(alone=ObservedCounts(900, 0), closed_loop_qps=1000.0)
    while isinstance(ask := next_step(GOAL, found), ProbeAt) and not ask.runs_to_completion:
        is_late = ask.milli_qps > 800_000
        seen = ObservedCounts(200, 200) if is_late else ObservedCounts(459, 0)
        found = with_probe(GOAL, found, ask, seen)
    pilots = [(rate, True) for rate in (400, 480, 420, 460)]
    for number, (rate, pilot) in enumerate([*pilots, *[(425, False), (455, False)] * 4]):
        late = round(82 * math.exp(25 * (rate / 440 - 1))) + number % 3
        ask = ProbeAt(rate * 1000, runs_to_completion=True, pilot=pilot)
        found = with_probe(GOAL, found, ask, ObservedCounts(8192, late))
    return found


def test_a_bracket_is_checked_against_a_higher_rate_that_kept_the_bound() -> None:
    """If that rate keeps the bound no more, the bracket stands: the server is slower now."""
    found = measured_while_slow()
    unchecked = peak_result(GOAL, found, "OutOfTime")
    ask = next_step(GOAL, found)
    kept = max(each.qps for each in found.probes if each.within_bound(GOAL))
    assert kept > 750
    assert (unchecked.confidence, unchecked.qps, unchecked.low_qps) == (None, None, kept)
    assert ask == ProbeAt(round(1000 * kept), runs_to_completion=True, pilot=True)
    found = with_probe(GOAL, found, ask, ObservedCounts(8192, 4000))
    lower = next_step(GOAL, found)
    while isinstance(lower, ProbeAt):  # every other rate that kept it is checked, too
        assert 455_000 < lower.milli_qps < 1000 * kept
        found = with_probe(GOAL, found, lower, ObservedCounts(8192, 3000))
        lower = next_step(GOAL, found)
    assert lower in {"Resolved", "Indistinguishable"}
    peak = peak_result(GOAL, found, lower)
    assert peak.confidence is not None
    assert peak.qps == pytest.approx(440, rel=0.01)


def test_a_bracket_that_a_higher_rate_refutes_is_given_up() -> None:
    """If that rate keeps the bound again, the search goes on there instead of ending."""
    found = measured_while_slow()
    ask = next_step(GOAL, found)
    assert isinstance(ask, ProbeAt)
    found = with_probe(GOAL, found, ask, ObservedCounts(8192, 10))
    higher = next_step(GOAL, found)
    assert isinstance(higher, ProbeAt)
    assert higher.milli_qps > ask.milli_qps
    assert higher.pilot


@given(st.randoms(use_true_random=False), st.sampled_from([0.05, 0.2, 0.5]))
def test_the_bracket_contradicts_no_probe_that_kept_the_bound(
    random: Random, spoiled: float
) -> None:
    """Whatever a neighbour does to single probes, no kept rate lies above the bracket."""

    def share_at(ask: ProbeAt) -> float:
        share = 0.01 * math.exp(25 * (ask.milli_qps / 1000 / 440 - 1))
        return min(0.95, share if random.random() >= spoiled else random.choice([0.02, 0.1, 0.9]))

    peak = searched_by(share_at, random.uniform(300, 600))
    kept = kept_rates_of(peak)
    if peak.stop_reason != "ProbesTooShort" and kept:
        assert not is_contradicted(peak)
        assert peak.low_qps is not None
        if peak.confidence is None and peak.qps is None:
            assert peak.low_qps == max(kept)
    if peak.qps is not None:
        assert (peak.low_qps or 0) <= peak.qps <= (peak.high_qps or math.inf)


def test_a_server_without_answers_ends_the_search() -> None:
    """Without answers there is no throughput to start from."""
    assert (
        next_step(GOAL, SearchState(alone=ObservedCounts(0, 0), closed_loop_qps=0.0))
        == "EndedEarly"
    )


@given(st.integers(0, 200), st.integers(1, 20_000), st.sampled_from([50.0, 90.0, 99.0, 99.9]))
def test_a_probe_is_decided_as_early_stopping_says(
    overshoots: int, queries: int, percentile: float
) -> None:
    """A probe passes as soon as enough queries do, and fails once it can no longer pass."""
    limit = make_goal(percentile, 1, 8192, 60.0).query_limit
    most = max_overshoots(limit, percentile)
    assert most is not None
    found = decide(percentile, limit, ObservedCounts(queries, overshoots))
    if overshoots > most:
        assert found == "Overshoots"
    elif queries >= required_queries(overshoots, percentile):
        assert found == "EnoughQueries"
    else:
        assert found is None


def test_mostly_failed_overshoots_are_reported_as_errors() -> None:
    """A probe whose queries fail does not show that the server is slow."""
    assert decide(99.0, 8192, ObservedCounts(500, 400, failed=390)) == "Errors"


@pytest.mark.parametrize("percentile", [50.0, 90.0, 99.0, 99.9])
def test_the_query_limit_allows_early_stopping_to_pass(percentile: float) -> None:
    """A limit of 10 queries is extended to the fewest with which early stopping passes."""
    goal = make_goal(percentile, 1, 10, 60.0)
    assert goal.query_limit == max(10, required_queries(0, percentile))
    assert max_overshoots(goal.query_limit, percentile) is not None


def test_a_few_overshoots_alone_are_chance() -> None:
    """One or two beyond P99 of 100 queries do not show that the bound cannot be met; ten do."""
    assert not exceeds_share(ObservedCounts(100, 1), 0.01)
    assert not exceeds_share(ObservedCounts(100, 2), 0.01)
    assert exceeds_share(ObservedCounts(100, 10), 0.01)


def test_the_peak_of_exact_shares_is_exact() -> None:
    """Shares that follow the model exactly give its peak, whatever the rates."""
    queries, share = 10**7, 0.01
    counted = tuple(
        ProbeCount(rate, queries, round(queries * share * math.exp(12 * (rate / 500 - 1))))
        for rate in (450, 480, 510, 560)
    )
    found = estimate_peak(counted, share)
    assert found is not None
    assert found.qps == pytest.approx(500, rel=1e-4)
    assert found.slope == pytest.approx(12, rel=1e-2)


def test_shares_all_on_one_side_give_no_peak() -> None:
    """Nothing is extrapolated from rates on one side."""
    assert estimate_peak((), 0.01) is None
    assert estimate_peak((ProbeCount(100.0, 1000, 0), ProbeCount(200.0, 1000, 5)), 0.01) is None
    assert estimate_peak((ProbeCount(100.0, 1000, 50), ProbeCount(200.0, 1000, 90)), 0.01) is None


def test_steps_of_a_search_are_probes_with_seeds_of_their_own() -> None:
    """A single query has one client, saturation all connections, a probe a Poisson schedule."""
    settings = FindPeak(latency_bound_microseconds=10_000)
    search = SCENARIOS["findPeak"].search
    assert search is not None
    goal = goal_from_row(search(settings))
    validity = Validity(warm_up_seconds=5)
    alone = plan_search_step(goal, SingleQuery(), 1, validity, 42)
    saturated = plan_search_step(goal, Saturation(), 1, validity, 42)
    first, second = (
        plan_search_step(goal, ProbeAt(500_000, runs_to_completion=False), n, validity, 42)
        for n in (1, 2)
    )
    assert (alone.loop, saturated.loop) == (Closed(1), Closed(None))
    assert first.loop == Open(Steady("Poisson", 500_000))
    assert len({first.seed, second.seed, alone.seed}) == 3
    assert all(plan.is_probe for plan in (alone, saturated, first))
    assert (first.runs_to_completion, alone.runs_to_completion) == (False, True)
    assert first.min_queries == goal.query_limit == 1024
    assert first.warm_up_ns == 1024 * SECOND_NS // 500 // 4
    assert first.max_duration_ns == 60 * SECOND_NS


def test_too_few_bursts_of_overshoots_give_no_bracket() -> None:
    """With a few bursts of overshoots, the peak is an estimate without a confidence."""
    rates = [400.0, 420.0, 440.0, 460.0, 480.0, 500.0, 520.0, 540.0, 560.0, 580.0]
    overshoots = [0, 0, 300, 0, 0, 500, 0, 0, 900, 0]
    counted = tuple(
        ProbeCount(rate, 8192, count) for rate, count in zip(rates, overshoots, strict=True)
    )
    found = estimate_peak(counted, 0.01)
    assert found is not None
    assert found.dispersion > 100
    assert found.bursts < LEAST_BURSTS
    assert found.bounds_qps is None


@pytest.mark.parametrize("ever_later", [0, 1])
def test_a_server_that_became_slower_is_followed(ever_later: int) -> None:
    """Whole probes that all miss the bound lead down in growing steps."""
    found = SearchState(alone=ObservedCounts(900, 0), closed_loop_qps=1000.0)
    rates = []
    for number in range(15):
        ask = next_step(GOAL, found)
        assert isinstance(ask, ProbeAt)
        enough = not ask.runs_to_completion and ask.milli_qps < 600_000
        seen = (
            ObservedCounts(8192, 0) if enough else ObservedCounts(8192, 4000 + ever_later * number)
        )
        tried = ProbeResult(ask, seen, "EnoughQueries" if enough else "Overshoots", f"{number}", 0)
        found = replace(found, probes=(*found.probes, tried))
        if ask.runs_to_completion:
            rates.append(ask.milli_qps / 1000)
    kept = [each.qps for each in found.probes if each.within_bound(GOAL)]
    lower = [rate for rate in rates if rate not in kept]
    assert lower == sorted(set(lower), reverse=True)
    assert lower[-1] < lower[0] / 3
    assert rates.count(max(kept)) == 1
