"""The A/A pairs of a suite's anchor: what arms the gate, and the blocks that drifted."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from inferometer_api.statistics import student_quantile
from inferometer_api.suite.figures import StepFigures, step_figures
from inferometer_api.suite.labels import SPEC_LABEL
from inferometer_api.suite.plan_suite import Block, SuitePlan, System
from inferometer_api.suite.progress import RunOutcome
from inferometer_api.suite.status import MOST_PAIRS, AnchorPairs

ARMING_PAIRS = 20
"""A/A pairs of a class of nodes before the gate decides there."""
_DRIFT_CONFIDENCE = 0.99
_MILLION = 1_000_000
MOST_CLASSES = 100
"""As many as a suite has systems."""
_FEW_CLASSES = 16
_PAIRS_OF_MANY = 25
"""Pairs that are kept of each of more classes than a few, since a status has bounds."""


@dataclass(frozen=True, slots=True)
class AnchorPair:
    """The A/A pair of a block."""

    node_class: str
    ratio: float


def anchor_digest(plan: SuitePlan) -> str:
    """Return the digest of the spec of a plan's anchor, empty without one."""
    for run in plan.runs:
        if run.role != "cell":
            return str(run.data["metadata"]["labels"][SPEC_LABEL])
    return ""


def anchor_pairs(plan: SuitePlan, outcomes: Sequence[RunOutcome]) -> dict[Block, AnchorPair]:
    """Return the A/A pair of each block whose two runs of the anchor are VALID on one node."""
    ends: dict[Block, dict[str, RunOutcome]] = defaultdict(dict)
    for run, outcome in zip(plan.runs, outcomes, strict=True):
        if run.role != "cell":
            ends[run.block][run.role] = outcome
    found = {}
    for block, of_block in ends.items():
        first, last = of_block.get("opening"), of_block.get("closing")
        if first is None or last is None or not first.state == last.state == "V":
            continue
        ratio = ratio_of(step_figures(first.scenarios), step_figures(last.scenarios))
        if ratio is not None and first.node == last.node:
            found[block] = AnchorPair(class_of_node(block.system, first.node), ratio)
    return found


def class_of_node(system: System, node: str) -> str:
    """Return the class of the node of a run on a system."""
    return (system.node_class or node or "this machine")[:253]


def add_pairs(
    history: Sequence[AnchorPairs], plan: SuitePlan, outcomes: Sequence[RunOutcome]
) -> list[AnchorPairs]:
    """Return the pairs of each class with those of one more execution, the newest last."""
    cell = "" if plan.anchor is None else plan.anchor.key
    added: dict[str, list[int]] = {}
    for pair in anchor_pairs(plan, outcomes).values():
        added.setdefault(pair.node_class, []).append(round(pair.ratio * _MILLION))
    more = [
        AnchorPairs(
            node_class=name,
            cell=cell,
            spec_digest=anchor_digest(plan),
            ratios_parts_per_million=some[-MOST_PAIRS:],
        )
        for name, some in added.items()
    ]
    return merge_pairs(history, more)


def merge_pairs(history: Sequence[AnchorPairs], newer: Sequence[AnchorPairs]) -> list[AnchorPairs]:
    """Return the pairs of each class and anchor, the newest last; the newest of them stay."""
    ratios: dict[tuple[str, str, str], list[int]] = {}
    for each in (*history, *newer):
        key = each.node_class, each.cell, each.spec_digest
        # What was measured last stays longest.
        ratios[key] = [*ratios.pop(key, []), *each.ratios_parts_per_million]
    most = MOST_PAIRS if len(ratios) <= _FEW_CLASSES else _PAIRS_OF_MANY
    return [
        AnchorPairs(
            node_class=name, cell=cell, spec_digest=spec, ratios_parts_per_million=some[-most:]
        )
        for (name, cell, spec), some in list(ratios.items())[-MOST_CLASSES:]
    ]


def find_drift(
    plan: SuitePlan, pairs: Mapping[Block, AnchorPair], history: Sequence[AnchorPairs]
) -> tuple[frozenset[str], list[Block]]:
    """Return the classes of nodes on which the gate is armed, and the blocks that drifted.

    None, as long as a class on which an anchor ran has too few pairs.
    Pairs of another anchor, or of another spec of it, do not count: their scatter is another one.
    Once armed, a block without a pair does not count either: nothing shows that it did not drift.
    """
    logs: dict[str, list[float]] = {
        each.node_class: [
            math.log(part / _MILLION) for part in each.ratios_parts_per_million if part
        ]
        for each in history
        if plan.anchor is not None
        and (each.cell, each.spec_digest) == (plan.anchor.key, anchor_digest(plan))
    }
    for pair in pairs.values():
        logs.setdefault(pair.node_class, []).append(math.log(pair.ratio))
    classes = {pair.node_class for pair in pairs.values()}
    armed = frozenset(name for name, some in logs.items() if len(some) >= ARMING_PAIRS)
    blocks = list(dict.fromkeys(run.block for run in plan.runs))
    if not classes or not classes <= armed:
        return frozenset(), []
    return armed, [
        block
        for block in blocks
        if block not in pairs or not _within(pairs[block], logs[pairs[block].node_class])
    ]


def _within(pair: AnchorPair, logs: Sequence[float]) -> bool:
    """Return whether a pair lies within the 99 % prediction interval of the others of its class."""
    others = list(logs)
    others.remove(math.log(pair.ratio))
    if len(others) < ARMING_PAIRS - 1:
        return True
    quantile = student_quantile((1 + _DRIFT_CONFIDENCE) / 2, len(others) - 1)
    half = quantile * stdev(others) * math.sqrt(1 + 1 / len(others))
    return abs(math.log(pair.ratio) - fmean(others)) <= half


def ratio_of(first: StepFigures, last: StepFigures) -> float | None:
    """Return the median latency at the end by that at the begin, of the first step with one.

    Not of the headline step, which may differ from run to run.
    """
    for step, some in first.items():
        other = last.get(step, {})
        if "p50" in some and "p50" in other:
            return other["p50"] / some["p50"]
        if "qps" in some and "qps" in other:
            return some["qps"] / other["qps"]
    return None
