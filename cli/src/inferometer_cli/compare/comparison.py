"""Which scenarios of two results answer each other, and what came of each figure?"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from inferometer_api.result import ResultDocument
from inferometer_cli.compare.figures import Figure, Measured, measured
from inferometer_cli.compare.interval import Change, change

Word = Literal["better", "worse", "no difference shown", "not known"]


@dataclass(frozen=True, slots=True)
class Compared:
    """One figure in both results."""

    name: str
    before: Figure
    after: Figure
    change: Change | None

    @property
    def word(self) -> Word:
        """What can be said of the difference."""
        if self.change is None or not self.change.is_known:
            return "not known"
        if not self.change.is_real:
            return "no difference shown"
        return "better" if (self.change.ratio > 1) == self.before.more_is_better else "worse"

    def is_slower_by(self, part: float) -> bool:
        """Whether a rate or a time is really worse, and by more than this part of itself."""
        if self.change is None or self.word != "worse" or self.before.kind == "energy":
            return False
        ratio = self.change.ratio
        return ratio < 1 - part if self.before.more_is_better else ratio > 1 + part


@dataclass(frozen=True, slots=True)
class Pair:
    """A step that both results have."""

    before: Measured
    after: Measured
    figures: tuple[Compared, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two results side by side."""

    pairs: tuple[Pair, ...]
    only_before: tuple[str, ...]
    """Steps that only the first result has, by name."""
    only_after: tuple[str, ...]

    @property
    def within_runs(self) -> bool:
        """Whether some bounds come from within one run, and leave out what varies between runs."""
        return any("run" in (pair.before.basis, pair.after.basis) for pair in self.pairs)


def compare(before: ResultDocument, after: ResultDocument) -> Comparison:
    """Return the steps that both have, in the first one's order, and those that one lacks."""
    first, second = measured(before.scenarios), measured(after.scenarios)
    return Comparison(
        tuple(_pair(found, second[key]) for key, found in first.items() if key in second),
        tuple(step_name(found) for key, found in first.items() if key not in second),
        tuple(step_name(found) for key, found in second.items() if key not in first),
    )


def step_name(step: Measured) -> str:
    """Return what a step is called: "throughput, batch 8"."""
    return ", ".join(part for part in (step.scenario, step.step) if part)


def slower(comparison: Comparison, part: float) -> list[tuple[Pair, Compared]]:
    """Return each figure that is really slower by more than this part of itself."""
    return [
        (pair, figure)
        for pair in comparison.pairs
        for figure in pair.figures
        if figure.is_slower_by(part)
    ]


def unjudged(before: ResultDocument, after: ResultDocument, comparison: Comparison) -> list[str]:
    """Return a sentence for each reason why B cannot be said not to be slower."""
    doubts = [
        f"{name} is {document.outcome.state} ({document.outcome.reason}), not Complete."
        for name, document in (("A", before), ("B", after))
        if document.outcome.state != "Complete"
    ]
    doubts += [f"B has no {name}, which A has." for name in comparison.only_before]
    for pair in comparison.pairs:
        name = step_name(pair.before)
        for which, found in (("A", pair.before), ("B", pair.after)):
            if found.verdict == "INVALID":
                doubts.append(f"{name} is INVALID in {which}.")
    return doubts


def _pair(before: Measured, after: Measured) -> Pair:
    return Pair(before, after, tuple(_compared(before.figures, after.figures)))


def _compared(before: Sequence[Figure], after: Sequence[Figure]) -> list[Compared]:
    second = {figure.name: figure for figure in after}
    return [
        Compared(each.name, each, other, _change(each, other))
        for each in before
        if (other := second.get(each.name)) is not None
    ]


def _change(before: Figure, after: Figure) -> Change | None:
    if before.estimate is None or after.estimate is None:
        return None
    return change(before.estimate, after.estimate)
