"""The rule by which cells of a row are the best: each is shown to be faster than all others."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean

from inferometer_api.judgement import (
    DEFAULT_MARGIN,
    FEWEST_RUNS,
    GROUPED_FALSE_ALARMS,
    GROUPED_STANDARD_ERRORS,
    PAIRED_FALSE_ALARMS,
    Judgement,
    MarginRule,
    judge_groups,
    judge_pairs,
)


@dataclass(frozen=True, slots=True)
class CellValues:
    """One figure in the VALID runs of a cell; at least one value, all positive."""

    values: tuple[float, ...]
    by_block: Mapping[int, float]
    """Those that were measured in a block of this execution, by its number."""

    @property
    def mean(self) -> float:
        """The geometric mean."""
        return math.exp(fmean(map(math.log, self.values)))


def best_cells(cells: Mapping[str, CellValues], *, more_is_better: bool) -> frozenset[str]:
    """Return the best cells of a row; none unless others are shown to be worse.

    The cell with the best mean is one of them, and so is each that is not shown to be worse than
    all of them. Pairs of one block are judged as `ab` judges its rounds, other runs as `compare`
    judges repeats. The probabilities of a false alarm hold for all pairs of a row (Bonferroni).
    """
    if len(cells) < 2:
        return frozenset()
    figures = math.comb(len(cells), 2)
    choose = max if more_is_better else min
    best = {choose(cells, key=lambda name: cells[name].mean)}
    unseen = set(best)
    while unseen:
        one = unseen.pop()
        joined = {
            other
            for other in cells.keys() - best
            if not _is_worse(cells[one], cells[other], figures, more_is_better=more_is_better)
        }
        best |= joined
        unseen |= joined
    return frozenset() if len(best) == len(cells) else frozenset(best)


def _is_worse(one: CellValues, other: CellValues, figures: int, *, more_is_better: bool) -> bool:
    found = _judge(one, other, figures, more_is_better=more_is_better)
    return found is not None and found.outcome == "worse"


def _judge(
    one: CellValues, other: CellValues, figures: int, *, more_is_better: bool
) -> Judgement | None:
    """Judge pairs of one block, or all runs without enough pairs; None with too few runs."""
    blocks = sorted(one.by_block.keys() & other.by_block.keys())
    if len(blocks) >= FEWEST_RUNS:
        return judge_pairs(
            [one.by_block[at] for at in blocks],
            [other.by_block[at] for at in blocks],
            MarginRule(DEFAULT_MARGIN, PAIRED_FALSE_ALARMS, figures),
            more_is_better=more_is_better,
        )
    if min(len(one.values), len(other.values)) < FEWEST_RUNS:
        return None
    rule = MarginRule(
        DEFAULT_MARGIN,
        GROUPED_FALSE_ALARMS,
        figures,
        least_standard_errors=GROUPED_STANDARD_ERRORS,
    )
    return judge_groups(one.values, other.values, rule, more_is_better=more_is_better)
