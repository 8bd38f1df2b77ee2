"""A server that keeps up with its schedule is distinguished from one that does not."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from inferometer_loadgen.record.backlog import Backlog, Unanswered
from inferometer_loadgen.run.step_result import unanswered
from support.drills import A_STEP, Drill
from support.judged_steps import a_step, names, verdict
from support.simulated import MILLISECOND, SECOND, Answer

Times = NDArray[np.float64]
Law = Callable[[np.random.Generator, int], Times]
LAWS: dict[str, Law] = {
    "exponential": lambda random, count: random.exponential(0.1, count),
    "Pareto": lambda random, count: 0.01 * (1 + random.pareto(1.1, count)),
    "lognormal": lambda random, count: 0.02 * random.lognormal(0, 1.5, count),
    "bimodal": lambda random, count: np.where(random.random(count) < 0.02, 1.0, 0.005),
    "one straggler": lambda _, count: np.where(np.arange(count) == count - 1, 0.7, 0.001),
}
SETTINGS = [(10, 10.0), (200, 10.0), (1000, 4.1), (100, 60.0)]
"""Queries a second and seconds."""


def poisson(random: np.random.Generator, qps: float, seconds: float) -> Times:
    """Return arrivals of a warm-up, before 0, and of a window."""
    before = seconds / 4
    gaps = random.exponential(1 / qps, int(qps * (seconds + before) * 1.3) + 80)
    found: Times = gaps.cumsum() - before
    return found[found < seconds]


def broken(due: Times, done: Times, seconds: float) -> set[str]:
    """Judge a window of so many seconds; return the rules and cautions that it breaks."""
    backlog, at = Backlog(), 0.0
    due_by, done_by = np.sort(due), np.sort(done)
    while (at := at + backlog.interval_ns / SECOND) < seconds:
        counts = [int(np.searchsorted(times, at, side="right")) for times in (due_by, done_by)]
        backlog.add(counts[0] - counts[1])
    usual = backlog.medians()
    queries = int((due >= 0).sum())
    step = a_step(
        succeeded=queries,
        duration_nanoseconds=round(seconds * SECOND),
        drain_nanoseconds=max(0, round((done.max() - seconds) * SECOND)),
        scheduled_qps=queries / seconds,
    )
    counts_of = step.counts.model_copy(update={"scheduled": queries})
    judged = verdict(
        step.model_copy(update={"counts": counts_of}), unanswered=(usual.early, usual.late)
    )
    return {*names(judged), *(caution.rule for caution in judged.cautions)}


def is_achieved(due: Times, done: Times, seconds: float) -> bool:
    """Judge a window of so many seconds by the rule."""
    return "AchievedRate" not in broken(due, done, seconds)


@pytest.mark.parametrize("law", LAWS)
def test_a_server_of_infinite_capacity_keeps_up(law: str) -> None:
    """Whatever the tail of its latencies: of 200 simulated runs none breaks the rule."""
    for seed in range(200):
        random = np.random.default_rng(seed)
        qps, seconds = SETTINGS[seed % len(SETTINGS)]
        due = poisson(random, qps, seconds)
        assert is_achieved(due, due + LAWS[law](random, len(due)), seconds), (qps, seconds, seed)


def fifo(due: Times, service: Times) -> Times:
    """Return when one server is done with each query."""
    busy = service.cumsum()
    done: Times = busy + np.maximum.accumulate(due - (busy - service))
    return done


@pytest.mark.parametrize("qps", [50, 1000])
def test_an_overload_of_three_percent_is_seen_in_a_minute(qps: int) -> None:
    """At equal gaps at any rate; random arrivals and services are seen at high ones."""
    due = np.arange(60 * qps) / qps
    assert not is_achieved(due, fifo(due, np.full(len(due), 1.03 / qps)), 60.0)
    for seed in range(25 if qps >= 1000 else 0):
        random = np.random.default_rng(seed)
        due = poisson(random, qps, 60.0)
        assert not is_achieved(due, fifo(due, random.exponential(1.03 / qps, len(due))), 60.0)


def test_an_overload_of_a_fifth_is_seen_in_a_minute_of_few_queries() -> None:
    """At 20 a second it always is; at 10 nearly always, and else a caution reports it."""
    broken_rules = []
    for qps, least in ((20, 60), (10, 54)):
        runs = []
        for seed in range(60):
            random = np.random.default_rng(seed)
            due = poisson(random, qps, 60.0)
            runs.append(broken(due, fifo(due, random.exponential(1.2 / qps, len(due))), 60.0))
        assert sum("AchievedRate" in rules for rules in runs) >= least
        broken_rules += runs
    assert sum(not rules & {"AchievedRate", "GrowingBacklog"} for rules in broken_rules) <= 1
    assert any("GrowingBacklog" in rules for rules in broken_rules)
    assert not any({"AchievedRate", "GrowingBacklog"} <= rules for rules in broken_rules)


def test_no_server_completes_less_than_nothing() -> None:
    """A backlog that grew by more than the window's queries, from the warm-up, counts as none."""
    step = a_step(duration_nanoseconds=10 * SECOND, drain_nanoseconds=10 * SECOND)
    (reason,) = verdict(step, unanswered=(0, 1000)).reasons
    assert reason.message.startswith("The server completed 0 of 100 scheduled queries a second")
    assert reason.figure == "0.0 %"


def test_a_driver_sees_its_unanswered_queries_grow() -> None:
    """Those that wait for a connection are unanswered as well, and a steady server's are few."""
    step = replace(A_STEP, min_duration_ns=8 * SECOND)
    behind = Drill(lambda _index, _now: Answer(20 * MILLISECOND), step)
    assert unanswered(behind.run()) == Unanswered(early=50, late=351)
    steady = Drill(lambda _index, _now: Answer(25 * MILLISECOND), step, capacity=100)
    usual = unanswered(steady.run())
    assert 2 <= usual.late <= usual.early <= 3


def test_little_seen_is_not_judged() -> None:
    """A window of a few looks has no first and last quarter."""
    backlog = Backlog()
    for _ in range(15):
        backlog.add(7)
    assert backlog.medians() == Unanswered()
    backlog.add(7)
    assert backlog.medians() == Unanswered(early=7, late=7)
