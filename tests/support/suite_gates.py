"""Gates of suites for tests: judged with an armed history, and a noise that a seed fixes."""

import math
import random
from collections.abc import Callable
from typing import Any

from inferometer_api.suite.anchor import anchor_digest
from inferometer_api.suite.comparisons import BaselineCell, baseline_cells
from inferometer_api.suite.figures import (
    CellKey,
    planned_computation,
    scenario_specs,
)
from inferometer_api.suite.gate import judge_suite
from inferometer_api.suite.plan_suite import PlannedRun, SuitePlan
from inferometer_api.suite.progress import RunOutcome
from inferometer_api.suite.status import AnchorPairs, GateStatus
from support.suites import NODE, parsed, planned

AXIS: dict[str, Any] = {"baseline": {"axis": "stack", "value": "old"}, "gate": {}}


ARMED = [
    AnchorPairs(
        node_class=NODE,
        ratios_parts_per_million=[1_000_000 + 4000 * (at % 7 - 3) for at in range(30)],
    )
]


def judged(
    data: dict[str, Any],
    found: list[RunOutcome],
    history: list[AnchorPairs] | None = None,
    **arguments: Any,
) -> GateStatus:
    """Return what the gate says."""
    suite, plan = parsed(data), planned(data)
    past = of_anchor(plan, ARMED if history is None else history)
    return judge_suite(suite.spec, plan, found, past, **arguments)


def of_anchor(plan: SuitePlan, history: list[AnchorPairs]) -> list[AnchorPairs]:
    """Return pairs as those of the anchor of a plan."""
    assert plan.anchor is not None
    anchor = {"cell": plan.anchor.key, "spec_digest": anchor_digest(plan)}
    return [each.model_copy(update=anchor) for each in history]


def noisy(seed: int, slower: float = 1.0, spread: float = 0.01) -> Callable[[PlannedRun], float]:
    """Return the latency of each run: `new` is slower by a factor."""
    chance = random.Random(seed)  # noqa: S311 - no secret

    def latency(run: PlannedRun) -> float:
        factor = slower if dict(run.cell.values)["stack"] == "new" else 1.0
        return 10_000 * factor * math.exp(chance.gauss(0, spread))

    return latency


def measured_before(plan: SuitePlan, found: list[RunOutcome]) -> dict[CellKey, BaselineCell]:
    """Return the runs of cells as those of an earlier execution."""
    return baseline_cells(
        (
            (run.cell.key, ""),
            each,
            planned_computation(run, each.scenarios),
            scenario_specs(run.data["spec"]),
        )
        for run, each in zip(plan.runs, found, strict=True)
        if run.role == "cell"
    )
