"""The comparison of two results: matching steps, and the change of each figure."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from inferometer_api.results.result import ResultDocument
from inferometer_api.spec.scenario import Scenario
from inferometer_results.compare.figures import Basis, Figure, Measured, measured
from inferometer_results.compare.interval import Change, change

Word = Literal["better", "worse", "no difference shown", "unknown", "by schedule", "scopes differ"]

Bases = Basis | Literal["both"]
"""What a result's bounds come from. Both, if only some scenarios have repeats, as in a run that
ended early."""


@dataclass(frozen=True, slots=True)
class Compared:
    """One figure in both results."""

    name: str
    before: Figure
    after: Figure
    change: Change | None

    @property
    def word(self) -> Word:
        """The judgement of the difference."""
        if self.before.by_schedule or self.after.by_schedule:
            return "by schedule"
        if self.before.covers and self.after.covers and self.before.covers != self.after.covers:
            return "scopes differ"
        if self.change is None or not self.change.is_known:
            return "unknown"
        if not self.change.is_real:
            return "no difference shown"
        return "better" if (self.change.ratio > 1) == self.before.more_is_better else "worse"

    def is_slower_by(self, part: float) -> bool:
        """Return whether a rate or a time is significantly worse by more than this fraction."""
        return self.word == "worse" and self._looks_slower_by(part)

    def may_be_slower_by(self, part: float) -> bool:
        """Return whether a rate or a time looks worse by more than this, but may not be.

        Lateness of the load generator only adds to a time. In A it hides how much slower B is.
        """
        hidden = bool(self.before.why_unknown) and self.before.kind == "time"
        return self.word == "unknown" and (hidden or self._looks_slower_by(part))

    @property
    def caveat(self) -> str:
        """Why it cannot be judged whether it is slower, and what to do."""
        for name, found in (("A", self.before), ("B", self.after)):
            if found.why_unknown:
                return f"unknown in {name}: {found.why_unknown}. {found.remedy}"
        return (
            "it looks slower, but there are too few queries to be certain. "
            "Raise validity.minQueries or minDurationSeconds."
        )

    def _looks_slower_by(self, part: float) -> bool:
        if self.change is None or self.before.kind == "energy":
            return False
        ratio = self.change.ratio
        return ratio < 1 - part if self.before.more_is_better else ratio > 1 + part


@dataclass(frozen=True, slots=True)
class Pair:
    """A step that both results have."""

    before: Measured
    after: Measured
    figures: tuple[Compared, ...]
    caveats: tuple[str, ...] = ()
    """Why its figures cannot be judged: the ends of sentences."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two results side by side."""

    pairs: tuple[Pair, ...]
    only_before: tuple[str, ...]
    """Steps that only the first result has, by name."""
    only_after: tuple[str, ...]

    @property
    def basis_before(self) -> Bases:
        """Where the first result's bounds come from; within one run they miss run-to-run noise."""
        return _basis(pair.before for pair in self.pairs)

    @property
    def basis_after(self) -> Bases:
        """The same of the second result."""
        return _basis(pair.after for pair in self.pairs)


def compare(before: ResultDocument, after: ResultDocument) -> Comparison:
    """Return the steps that both have, in the first one's order, and those that one lacks."""
    first, second = measured(before.scenarios), measured(after.scenarios)
    spec_before, spec_after = _specs(before), _specs(after)
    return Comparison(
        tuple(
            _pair(found, second[key], same_spec=spec_before.get(key[0]) == spec_after.get(key[0]))
            for key, found in first.items()
            if key in second
        ),
        tuple(step_name(found) for key, found in first.items() if key not in second),
        tuple(step_name(found) for key, found in second.items() if key not in first),
    )


def _basis(found: Iterable[Measured]) -> Bases:
    bases = {each.basis for each in found}
    return bases.pop() if len(bases) == 1 else "both"


def step_name(step: Measured) -> str:
    """Return the display name of a step: "throughput, batch 8"."""
    return ", ".join(part for part in (step.scenario, step.step) if part)


def slower(comparison: Comparison, part: float) -> list[tuple[Pair, Compared]]:
    """Return each figure that is significantly slower by more than this fraction.

    Only scenarios count that are VALID in both results and have the same specification.
    """
    return [
        (pair, figure)
        for pair in comparison.pairs
        if not pair.caveats
        for figure in pair.figures
        if figure.is_slower_by(part)
    ]


def unjudged(
    before: ResultDocument, after: ResultDocument, comparison: Comparison, part: float
) -> list[str]:
    """Return a sentence for each reason why it is uncertain that B is not slower by this much."""
    caveats = [
        f"{name} is {document.outcome.state} ({document.outcome.reason}), not Complete."
        for name, document in (("A", before), ("B", after))
        if document.outcome.state != "Complete"
    ]
    caveats += [f"{name} is missing in B." for name in comparison.only_before]
    for pair in comparison.pairs:
        name = step_name(pair.before)
        caveats += [f"{name} {caveat}" for caveat in pair.caveats]
        caveats += [
            f"{name}, {figure.name}: {figure.caveat}"
            for figure in pair.figures
            if figure.may_be_slower_by(part)
        ]
        if not any(_is_judged(figure) for figure in pair.figures):
            caveats.append(f"{name} has no rate and no latency that both results know.")
    return caveats


def _is_judged(figure: Compared) -> bool:
    judged = {"better", "worse", "no difference shown"}
    return figure.before.kind != "energy" and figure.word in judged


def _pair(before: Measured, after: Measured, *, same_spec: bool) -> Pair:
    caveats = [
        f"is INVALID in {name}."
        for name, found in (("A", before), ("B", after))
        if found.verdict == "INVALID"
    ]
    if not same_spec:
        caveats.append("has different specifications in A and B.")
    return Pair(before, after, tuple(_compared(before, after)), tuple(caveats))


def _specs(document: ResultDocument) -> dict[str, Scenario]:
    return {scenario.name: scenario for scenario in document.run.spec.scenarios}


def _compared(before: Measured, after: Measured) -> list[Compared]:
    second = {figure.name: figure for figure in after.figures}
    one_each = before.batch_size == after.batch_size == 1
    return [
        Compared(each.name, each, other, _change(each, other))
        for each in before.figures
        if (other := second.get(each.name)) is not None
        # With one sample a query both rates are the same.
        and not (one_each and each.name == "samples/s")
    ]


def _change(before: Figure, after: Figure) -> Change | None:
    if before.estimate is None or after.estimate is None or before.covers != after.covers:
        return None
    return change(before.estimate, after.estimate)
