"""The progress of a suite: the state of each run, which runs start next, and the best cells."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from inferometer_api.ranking import NOT_RANKED, Computation, may_rank_all
from inferometer_api.status.run_status import RunStatus, ScenarioSummary
from inferometer_api.suite.figures import planned_computation
from inferometer_api.suite.plan_suite import PlannedRun, SuitePlan
from inferometer_api.suite.status import CellCounts, CellFigure, ScenarioRange

State = Literal[".", "a", "V", "I", "F", "D", "S", "R"]
"""Waits, active, VALID, INVALID, failed, deleted, skipped, reused."""
OPEN: frozenset[str] = frozenset({".", "a"})
_MOST_SCENARIOS = 32


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """What is known of one run of a suite."""

    state: State = "."
    phase: str = ""
    scenarios: tuple[ScenarioSummary, ...] = ()
    node: str = ""
    """The nodes of its servers, in one text."""
    problem: str = ""
    """Why it failed, or is INVALID."""
    result: str = ""
    """ID of the stored result that stands for it, if it is reused and the ID is known."""


WAITING = RunOutcome()


def outcome_of(status: RunStatus) -> RunOutcome:
    """Return the outcome of a run that exists, from its status."""
    conditions = {each.type: each for each in status.conditions}
    scenarios, node = tuple(status.scenarios), ",".join(sorted(status.nodes))
    phase = status.phase or "Pending"

    def is_true(name: str) -> bool:
        found = conditions.get(name)  # type: ignore[call-overload]  # any name is looked up
        return found is not None and found.status == "True"

    if not is_true("Finished"):
        return RunOutcome("a", phase, scenarios, node)
    if not is_true("Complete"):
        failed = conditions.get("Failed") or conditions.get("Accepted")
        return RunOutcome("F", phase, scenarios, node, failed.message if failed else "")
    valid = conditions.get("Valid")
    if valid is not None and valid.status == "True":
        return RunOutcome("V", phase, scenarios, node)
    return RunOutcome("I", phase, scenarios, node, valid.message if valid else "")


def next_runs(plan: SuitePlan, states: Sequence[State], *, max_concurrent: int) -> list[int]:
    """Return the indices of the runs that start now, in order.

    In a block, the opening run of the anchor is over before its cells start, and its closing run
    starts once they are over. Blocks of one system follow each other then. On a system that is one
    node, runs take turns.
    """
    room = max_concurrent - sum(state == "a" for state in states)
    busy = Counter(
        run.block.system.name for run, state in zip(plan.runs, states, strict=True) if state == "a"
    )
    found: list[int] = []
    for index in _ready(plan, states):
        if len(found) >= room:
            break
        system = plan.runs[index].block.system
        if system.takes_turns and busy[system.name]:
            continue
        busy[system.name] += 1
        found.append(index)
    return found


def _ready(plan: SuitePlan, states: Sequence[State]) -> Iterator[int]:
    """Yield the indices of the waiting runs that need not wait for another one to be over."""
    if plan.anchor is None:
        yield from (index for index, state in enumerate(states) if state == ".")
        return
    opened: dict[tuple[int, str], bool] = {}
    open_cells: Counter[tuple[int, str]] = Counter()
    current: dict[str, int] = {}
    for run, state in zip(plan.runs, states, strict=True):
        key = (run.block.repeat, run.block.system.name)
        if state in OPEN:
            current.setdefault(key[1], key[0])
        if run.role == "opening":
            opened[key] = state not in OPEN
        elif run.role == "cell":
            open_cells[key] += state in OPEN
    for index, (run, state) in enumerate(zip(plan.runs, states, strict=True)):
        key = (run.block.repeat, run.block.system.name)
        if state != "." or current[key[1]] != key[0]:
            continue
        waits = (run.role == "cell" and not opened[key]) or (
            run.role == "closing" and (open_cells[key] > 0 or not opened[key])
        )
        if not waits:
            yield index


def count_states(states: Sequence[State]) -> CellCounts:
    """Return how many runs are in which state."""
    count = Counter(states)
    return CellCounts(
        planned=len(states),
        active=count["a"],
        valid=count["V"],
        invalid=count["I"],
        failed=count["F"],
        deleted=count["D"],
        skipped=count["S"],
        reused=count["R"],
    )


def scenario_ranges(plan: SuitePlan, outcomes: Sequence[RunOutcome]) -> list[ScenarioRange]:
    """Return the best and the worst VALID cell of each scenario, if they may be ranked.

    The figure is the rate, or the median latency of a scenario whose schedule fixes the rate.
    """
    figures: dict[str, list[tuple[float, CellFigure]]] = {}
    computations: dict[str, set[Computation]] = {}
    for run, outcome in zip(plan.runs, outcomes, strict=True):
        if outcome.state not in {"V", "R"} or run.role != "cell":
            continue
        computation = planned_computation(run, outcome.scenarios)
        for summary in outcome.scenarios:
            if (goodness := _goodness(summary)) is not None:
                figures.setdefault(summary.name, []).append((goodness, _figure(run, summary)))
                computations.setdefault(summary.name, set()).add(computation)
    return [
        _range(name, some, is_ranked=may_rank_all(computations[name]))
        for name, some in list(figures.items())[:_MOST_SCENARIOS]
    ]


def _range(
    name: str, figures: Sequence[tuple[float, CellFigure]], *, is_ranked: bool
) -> ScenarioRange:
    if not is_ranked:
        return ScenarioRange(name=name, unranked=NOT_RANKED)
    return ScenarioRange(
        name=name,
        best=max(figures, key=lambda each: each[0])[1],
        worst=min(figures, key=lambda each: each[0])[1],
    )


def _goodness(summary: ScenarioSummary) -> float | None:
    if summary.peak_milli_qps is not None:
        return float(summary.peak_milli_qps)
    if summary.scheduled_milli_qps is None and summary.achieved_milli_qps is not None:
        return float(summary.achieved_milli_qps)
    return None if summary.p50_microseconds is None else -float(summary.p50_microseconds)


def _figure(run: PlannedRun, summary: ScenarioSummary) -> CellFigure:
    return CellFigure(
        cell=run.label[:253],
        run=run.name,
        p50_microseconds=summary.p50_microseconds,
        p99_microseconds=summary.p99_microseconds,
        achieved_milli_qps=summary.peak_milli_qps or summary.achieved_milli_qps,
    )
