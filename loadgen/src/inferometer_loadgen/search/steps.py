"""Steps of a search: planned from its next probe, and read back into its state."""

from dataclasses import replace
from typing import assert_never

from inferometer_api.results.result import Step, nanoseconds_at
from inferometer_api.results.search import Peak
from inferometer_api.scenarios.step_setting import (
    CLOSED_LOOP_STEP,
    SINGLE_QUERY_STEP,
    Closed,
    JudgedPercentile,
    Open,
    SearchGoal,
    Steady,
    probe_label,
)
from inferometer_api.spec.scenario import Validity
from inferometer_loadgen.schedule.arrivals import probe_seed
from inferometer_loadgen.schedule.steps import SECOND_NS, StepPlan
from inferometer_loadgen.search.goal import Goal, StepObservation, decide_at_end, make_goal
from inferometer_loadgen.search.peak import next_step
from inferometer_loadgen.search.peak_report import peak_result
from inferometer_loadgen.search.probes import (
    ProbeAt,
    ProbeResult,
    Saturation,
    SearchState,
    SingleQuery,
    StopReason,
    with_closed_loop,
)

_WARM_UP_SHARE = 4
"""A warm-up of a probe takes at most one in so many of its planned time."""
_SATURATED_SECONDS = 2
_SATURATED_QUERIES = 100
_MILLI_SECONDS_NS = 1000 * SECOND_NS


def goal_from_row(found: SearchGoal) -> Goal:
    """Return the goal of a search, as the row of its kind states it."""
    return make_goal(found.percentile, found.bound_ns, found.min_queries, found.max_seconds)


class PeakSearch:
    """The steps of one search: each is chosen by what the steps before it measured."""

    def __init__(self, goal: SearchGoal, validity: Validity, seed: int) -> None:
        self._goal = goal_from_row(goal)
        self._validity = validity
        self._seed = seed
        self._state = SearchState()
        self._asked: SingleQuery | Saturation | ProbeAt | None = None
        self._until_seconds: float | None = None
        self._stop_reason: StopReason = "EndedEarly"

    def next_step(self, now_seconds: float) -> StepPlan | None:
        """Return the next step; None if the peak is known or the time is over.

        The time begins with the first call. `now_seconds` is a time of any monotonic clock.
        """
        if self._until_seconds is None:
            self._until_seconds = now_seconds + self._validity.max_duration_seconds
        elif self._asked is not None:  # that step was not measured
            return None
        ask = next_step(self._goal, self._state)
        if isinstance(ask, str):
            self._stop_reason = ask
            return None
        if now_seconds >= self._until_seconds:
            self._stop_reason = "OutOfTime"
            return None
        self._asked = ask
        number = len(self._state.probes) + 1
        return plan_search_step(self._goal, ask, number, self._validity, self._seed)

    def observe(self, step: Step, over: StepObservation) -> None:
        """Take the figures of the step that `next_step` returned last."""
        if self._asked is not None:
            self._state = update_state(self._goal, self._state, self._asked, step, over)
            self._asked = None

    def peak(self) -> Peak:
        """Return the result of the search so far."""
        peak = peak_result(self._goal, self._state, self._stop_reason)
        return peak.model_copy(update={"max_duration_seconds": self._validity.max_duration_seconds})


def plan_search_step(
    goal: Goal, ask: SingleQuery | Saturation | ProbeAt, number: int, validity: Validity, seed: int
) -> StepPlan:
    """Return the step plan of a search's next step; `number` counts its probes from 1."""
    warm_up_ns = validity.warm_up_seconds * SECOND_NS
    plan = StepPlan(
        label=SINGLE_QUERY_STEP,
        batch_size=1,
        warm_up_ns=min(warm_up_ns, SECOND_NS),
        min_duration_ns=1,
        max_duration_ns=round(goal.max_seconds * SECOND_NS),
        min_queries=goal.single_queries,
        seed=seed,
        judged=JudgedPercentile(goal.percentile, goal.bound_ns),
        is_probe=True,
        runs_to_completion=True,
    )
    match ask:
        case SingleQuery():
            return plan
        case Saturation(number=times):
            return replace(
                plan,
                label=CLOSED_LOOP_STEP if times == 1 else f"{CLOSED_LOOP_STEP} {times}",
                loop=Closed(clients=None),
                min_duration_ns=_SATURATED_SECONDS * SECOND_NS,
                min_queries=_SATURATED_QUERIES,
            )
        case ProbeAt(milli_qps=rate, runs_to_completion=runs_to_completion):
            part_ns = goal.query_limit * _MILLI_SECONDS_NS // rate // _WARM_UP_SHARE
            return replace(
                plan,
                label=probe_label(number),
                warm_up_ns=min(warm_up_ns, part_ns, plan.max_duration_ns // _WARM_UP_SHARE),
                min_queries=goal.query_limit,
                loop=Open(Steady("Poisson", rate)),
                seed=probe_seed(seed, number - 1),
                runs_to_completion=runs_to_completion,
            )
        case _:
            assert_never(ask)


def update_state(
    goal: Goal,
    found: SearchState,
    ask: SingleQuery | Saturation | ProbeAt,
    step: Step,
    over: StepObservation,
) -> SearchState:
    """Return the search's state after a step; a decided probe is not decided again."""
    seen = over.counts
    match ask:
        case SingleQuery():
            known_ns = nanoseconds_at(step.latency, goal.percentile)
            return replace(found, alone=seen, service_time_ns=known_ns)
        case Saturation():
            return with_closed_loop(found, step.achieved_qps)
        case ProbeAt():
            decided = over.decided_by or decide_at_end(goal.percentile, goal.query_limit, seen)
            seed = 0 if step.seed is None else step.seed
            tried = ProbeResult(ask, seen, decided, step.label, seed)
            return replace(found, probes=(*found.probes, tried))
        case _:
            assert_never(ask)
