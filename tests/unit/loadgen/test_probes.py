"""A probe that is decided early is judged as it was decided, in virtual time."""

from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from inferometer_api.results.result import Step
from inferometer_api.spec.scenario import Validity
from inferometer_loadgen.drive import DrivenStep
from inferometer_loadgen.nodes.energy import EnergyTerms
from inferometer_loadgen.run.step_controller import StepController
from inferometer_loadgen.run.step_result import MeasuredTimes, Metered, Used, summarize
from inferometer_loadgen.schedule.steps import End
from inferometer_loadgen.search.goal import ObservedCounts, StepObservation, make_goal
from inferometer_loadgen.search.peak import next_step
from inferometer_loadgen.search.probes import ProbeAt, ProbeResult, SearchState
from inferometer_loadgen.search.steps import plan_search_step, update_state
from support.drills import Drill
from support.simulated import MILLISECOND, SECOND, Answer, Answering

NO_ENERGY = EnergyTerms(disabled=True, unmetered="", milliwatts_per_core=None, on_gpu=False)
GOAL = make_goal(99.0, 10 * MILLISECOND, 8192, 60.0)
VALIDITY = Validity(warm_up_seconds=0)
CLOSED_LOOP_QPS = 2000.0


@dataclass(frozen=True, slots=True)
class Probed:
    """A probe that is over."""

    end: End
    step: Step
    over: StepObservation
    tried: ProbeResult
    found: SearchState


def probed(answering: Answering) -> Probed:
    """Drive the first probe of a search, 1,000 queries a second, and return its result."""
    before = SearchState(
        alone=ObservedCounts(900, 0), service_time_ns=1, closed_loop_qps=CLOSED_LOOP_QPS
    )
    ask = next_step(GOAL, before)
    assert isinstance(ask, ProbeAt)
    assert ask.milli_qps == 1_000_000
    plan = plan_search_step(GOAL, ask, 1, VALIDITY, seed=7)
    drill = Drill(answering, plan, milli_qps=ask.milli_qps, capacity=10**6)
    watches: list[StepController] = []

    def watch(drill: Drill) -> None:
        watches.append(StepController(drill.driver, plan))
        watches[0].begin(DrivenStep("s0", plan, drill.driver))

    tallied = drill.run({1: watch})
    watches[0].end()
    over = watches[0].over()
    step = summarize(
        plan,
        tallied,
        MeasuredTimes(datetime.now(UTC).isoformat(), 0, drill.driver.duration_ns, 0),
        Used([], None, 0.0),
        Metered(NO_ENERGY, [], 0),
        end=drill.end,
        reconnects=0,
        open_loop=True,
    )
    found = update_state(GOAL, before, ask, step, over)
    return Probed(drill.end, step, over, found.probes[0], found)


def silent_from(time_ns: int, slow: range = range(0)) -> Answering:
    """Answer within 1 ms, some queries too late, and nothing at all from a time on."""

    def answering(index: int, now: int) -> Answer:
        if now >= time_ns:
            return Answer(None)
        return Answer(20 * MILLISECOND if index in slow else MILLISECOND)

    return answering


@pytest.mark.parametrize(
    "answering",
    [
        silent_from(0),
        silent_from(440 * MILLISECOND),
        silent_from(900 * MILLISECOND, slow=range(100, 105)),
    ],
    ids=["at once", "later", "once enough would have passed"],
)
def test_queries_without_an_answer_send_the_search_down(answering: Answering) -> None:
    """A server that stands still exceeds the bound before any late answer arrives."""
    probe = probed(answering)
    assert probe.end is End.DECIDED
    assert probe.tried.decided_by == "Overshoots"
    assert probe.tried.counts == probe.over.counts
    assert probe.tried.counts.overshoots > 60
    assert probe.tried.counts.overshoots <= probe.tried.counts.queries
    assert probe.step.counts.overshoots == probe.tried.counts.overshoots
    assert probe.step.early_stopping is not None
    assert probe.step.early_stopping.overshoots == probe.tried.counts.overshoots
    after = next_step(GOAL, probe.found)
    assert isinstance(after, ProbeAt)
    assert after.milli_qps < probe.tried.probe.milli_qps


def test_enough_good_queries_send_the_search_up() -> None:
    """A probe whose queries are all in time ends long before its last query."""
    probe = probed(silent_from(60 * SECOND))
    assert probe.end is End.DECIDED
    assert probe.tried.decided_by == "EnoughQueries"
    assert probe.tried.counts.queries < 1000
    after = next_step(GOAL, probe.found)
    assert isinstance(after, ProbeAt)
    assert after.milli_qps > probe.tried.probe.milli_qps


def test_a_growing_queue_is_decided_by_its_waiting_queries() -> None:
    """A server of 2 ms at 1,000/s falls behind: its overdue queries count as overshoots."""
    free = 0

    def one_at_a_time(_index: int, now: int) -> Answer:
        nonlocal free
        free = max(free, now) + 2 * MILLISECOND
        return Answer(free - now)

    probe = probed(one_at_a_time)
    assert probe.tried.decided_by == "Overshoots"
    assert probe.step.counts.queries < probe.tried.counts.queries
    assert probe.tried.counts.overshoots <= probe.tried.counts.queries
