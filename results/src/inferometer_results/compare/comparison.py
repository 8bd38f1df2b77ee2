"""The comparison of two variants: matching steps, and the judgement of each figure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from inferometer_api.judgement import (
    DEFAULT_MARGIN,
    FEWEST_RUNS,
    GROUPED_FALSE_ALARMS,
    GROUPED_STANDARD_ERRORS,
    PAIRED_FALSE_ALARMS,
    Judgement,
    MarginRule,
    Outcome,
    judge_groups,
    judge_pairs,
    part_of_look,
)
from inferometer_api.results.result import ResultDocument
from inferometer_api.spec.run import BenchmarkRun
from inferometer_results.compare.figures import (
    Basis,
    Figure,
    Measured,
    measured,
    measured_in_rounds,
    with_cost,
)
from inferometer_results.compare.outputs import ranking_caveat
from inferometer_results.explore.prices import PriceList, nodes_of

Word = Literal[Outcome, "not judged", "unknown", "by schedule", "scopes differ"]

Bases = Basis | Literal["both"]
"""What a result's bounds come from. Both, if only some scenarios have repeats, as in a run that
ended early."""
_TAIL = frozenset({"p99", "p99.9"})
"""Percentiles that can fail a gate and are not required to pass it: they scatter too much."""


@dataclass(frozen=True, slots=True)
class ComparedSide:
    """One of two results that are compared."""

    name: str
    """The letter that stands for it in sentences."""
    retraction: str | None = None
    """The reason if it is retracted."""


SIDES = (ComparedSide("A"), ComparedSide("B"))


@dataclass(frozen=True, slots=True)
class Compared:
    """One figure of both variants."""

    name: str
    before: Figure
    after: Figure
    judgement: Judgement | None
    """None if the figures cannot be judged."""

    @property
    def ratio(self) -> float | None:
        """The ratio of the second figure to the first, None if there is none."""
        before, after = self.before.estimate, self.after.estimate
        if before is None or after is None or min(before.value, after.value) <= 0:
            return None
        return None if self.word == "scopes differ" else after.value / before.value

    @property
    def word(self) -> Word:
        """The judgement of the difference."""
        if self.before.by_schedule or self.after.by_schedule:
            return "by schedule"
        if self.before.covers and self.after.covers and self.before.covers != self.after.covers:
            return "scopes differ"
        if not (_is_known(self.before) and _is_known(self.after)):
            return "unknown"
        return "not judged" if self.judgement is None else self.judgement.outcome

    @property
    def is_gated(self) -> bool:
        """Whether a gate looks at it: a rate of the server's own, or a latency."""
        return self.before.kind not in {"energy", "cost"} and self.word not in {
            "by schedule",
            "scopes differ",
        }

    @property
    def is_required(self) -> bool:
        """Whether a gate passes only if this is shown not to be worse."""
        return self.is_gated and self.word != "unknown" and self.name not in _TAIL

    def may_be_hidden(self, margin: float) -> bool:
        """Return whether an unknown figure may be worse by more than the margin.

        Lateness of the load generator only adds to a time. In A it hides how much slower B is.
        """
        if self.word != "unknown" or not self.is_gated:
            return False
        hidden = bool(self.before.why_unknown) and self.before.kind == "time"
        ratio = self.ratio
        return hidden or (ratio is not None and _slowdown(self.before, ratio) > 1 + margin)

    @property
    def why_unknown(self) -> str:
        """Why it is unknown, and what to do."""
        for name, found in (("A", self.before), ("B", self.after)):
            if found.why_unknown:
                return f"unknown in {name}: {found.why_unknown}. {found.remedy}"
        return "one of the results lacks it. Raise validity.minQueries or minDurationSeconds."


@dataclass(frozen=True, slots=True)
class Pair:
    """A step that both variants have."""

    before: Measured
    after: Measured
    figures: tuple[Compared, ...]
    caveats: tuple[str, ...] = ()
    """Why its figures cannot be judged: the ends of sentences."""

    @property
    def is_valid(self) -> bool:
        """Whether it is VALID in both."""
        return "INVALID" not in {self.before.verdict, self.after.verdict}


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two variants side by side."""

    pairs: tuple[Pair, ...]
    only_before: tuple[str, ...]
    """Steps that only the first variant has, by name."""
    only_after: tuple[str, ...]
    rule: MarginRule
    is_paired: bool = False
    """Whether the runs were interleaved."""

    @property
    def basis_before(self) -> Bases:
        """Where the first result's bounds come from; within one run they miss run-to-run noise."""
        return _basis(pair.before for pair in self.pairs)

    @property
    def basis_after(self) -> Bases:
        """The same of the second result."""
        return _basis(pair.after for pair in self.pairs)


def compare(
    before: ResultDocument,
    after: ResultDocument,
    *,
    margin: float = DEFAULT_MARGIN,
    is_gate: bool = False,
    prices: PriceList | None = None,
    sides: tuple[ComparedSide, ComparedSide] = SIDES,
) -> Comparison:
    """Compare two results, measured one after the other, by their repeats.

    Steps that both have come in the first one's order. With `is_gate` the probability of a false
    alarm holds for all figures together. With `prices` the figures include the cost of a million
    inferences where both have a price. If one side is retracted, nothing is judged.
    """
    names = (sides[0].name, sides[1].name)
    found = _Variants(
        _with_cost(before, prices),
        _with_cost(after, prices),
        same_scenarios(before.run, after.run),
        [ranking_caveat(before, after, names), *map(_retraction_caveat, sides)],
        names,
    )
    rule = MarginRule(margin, GROUPED_FALSE_ALARMS, least_standard_errors=GROUPED_STANDARD_ERRORS)
    return _compare(found, rule, is_paired=False, is_gate=is_gate)


def _retraction_caveat(side: ComparedSide) -> str:
    if side.retraction is None:
        return ""
    return f"is retracted in {side.name} ({side.retraction.rstrip('.')})."


def _with_cost(
    document: ResultDocument, prices: PriceList | None
) -> dict[tuple[str, str], Measured]:
    """Return the figures of a result, with the cost if its nodes have a price."""
    found = measured(document.scenarios)
    per_hour = None if prices is None else prices.per_hour(nodes_of(document))
    if prices is None or per_hour is None:
        return found
    return {key: with_cost(each, prices.currency, per_hour / 3600) for key, each in found.items()}


def compare_rounds(
    before: Sequence[ResultDocument],
    after: Sequence[ResultDocument],
    *,
    margin: float = DEFAULT_MARGIN,
    is_gate: bool = False,
    look: int = 1,
) -> Comparison:
    """Compare two variants by interleaved runs: each round has one of both, in the same place.

    `look` counts the judgements of this growing series: the n-th is stricter, so that all of them
    together keep the probabilities of error.

    Model, server and load may differ: that is what is compared. A scenario that differs itself is
    not judged. A round in which a scenario is INVALID in one of both does not count for it, unless
    too few are left.
    """
    valid = [_valid_scenarios(a) & _valid_scenarios(b) for a, b in zip(before, after, strict=True)]
    found = _Variants(
        measured_in_rounds([each.scenarios for each in before], valid),
        measured_in_rounds([each.scenarios for each in after], valid),
        same_scenarios(before[0].run, after[0].run),
        [ranking_caveat(before[0], after[0])],
    )
    rule = MarginRule(margin, PAIRED_FALSE_ALARMS, part=part_of_look(look))
    return _compare(found, rule, is_paired=True, is_gate=is_gate)


def same_scenarios(before: BenchmarkRun, after: BenchmarkRun) -> set[str]:
    """Return the names of the scenarios with the same specification in both runs."""
    specs = {each.name: each for each in before.spec.scenarios}
    return {each.name for each in after.spec.scenarios if specs.get(each.name) == each}


def step_name(step: Measured) -> str:
    """Return the display name of a step: "throughput, batch 8"."""
    return ", ".join(part for part in (step.scenario, step.step) if part)


@dataclass(frozen=True, slots=True)
class _Variants:
    before: dict[tuple[str, str], Measured]
    after: dict[tuple[str, str], Measured]
    comparable: set[str]
    """Names of scenarios with the same specification."""
    caveats: Sequence[str]
    """Why no figure is judged, each as the end of a sentence; an empty one is none."""
    names: tuple[str, str] = ("A", "B")
    """The letters of the results."""


def _compare(found: _Variants, rule: MarginRule, *, is_paired: bool, is_gate: bool) -> Comparison:
    pairs = [
        _pair(each, found.after[key], found)
        for key, each in found.before.items()
        if key in found.after
    ]
    if is_gate:
        gated = sum(figure.is_gated for pair in pairs for figure in pair.figures)
        rule = replace(rule, figures=max(1, gated))
    return Comparison(
        tuple(_judged(pair, rule, is_paired=is_paired) for pair in pairs),
        tuple(step_name(each) for key, each in found.before.items() if key not in found.after),
        tuple(step_name(each) for key, each in found.after.items() if key not in found.before),
        rule,
        is_paired,
    )


def _basis(found: Iterable[Measured]) -> Bases:
    bases = {each.basis for each in found}
    return bases.pop() if len(bases) == 1 else "both"


def _pair(before: Measured, after: Measured, found: _Variants) -> Pair:
    invalid = [
        name
        for name, side in zip(found.names, (before, after), strict=True)
        if side.verdict == "INVALID"
    ]
    caveats = [f"is INVALID in {' and '.join(invalid)}."] if invalid else []
    if before.is_profiled or after.is_profiled:
        caveats.append("is of a run with a profile, which is no baseline.")
    if before.scenario not in found.comparable:
        caveats.append(f"has different specifications in {found.names[0]} and {found.names[1]}.")
    caveats += filter(None, found.caveats)
    return Pair(before, after, tuple(_compared(before, after)), tuple(caveats))


def _valid_scenarios(document: ResultDocument) -> set[str]:
    invalid = {each.name for each in document.scenarios if each.verdict.state == "INVALID"}
    return {each.name for each in document.scenarios} - invalid


def _compared(before: Measured, after: Measured) -> list[Compared]:
    second = {figure.name: figure for figure in after.figures}
    one_each = before.batch_size == after.batch_size == 1
    return [
        Compared(each.name, each, other, None)
        for each in before.figures
        if (other := second.get(each.name)) is not None
        # With one sample a query both rates are the same.
        and not (one_each and each.name == "samples/s")
    ]


def _judged(pair: Pair, rule: MarginRule, *, is_paired: bool) -> Pair:
    """Return the pair with the judgements of its figures; an INVALID figure is neither."""
    if pair.caveats:
        return pair
    figures = tuple(
        Compared(
            each.name,
            each.before,
            each.after,
            _judge(each.before, each.after, rule, is_paired=is_paired)
            if each.word == "not judged"
            else None,
        )
        for each in pair.figures
    )
    return Pair(pair.before, pair.after, figures, pair.caveats)


def _judge(before: Figure, after: Figure, rule: MarginRule, *, is_paired: bool) -> Judgement | None:
    if min(len(before.repeats), len(after.repeats)) < FEWEST_RUNS:
        return None
    judge = judge_pairs if is_paired else judge_groups
    return judge(before.repeats, after.repeats, rule, more_is_better=before.more_is_better)


def _is_known(figure: Figure) -> bool:
    return figure.estimate is not None and not figure.why_unknown


def _slowdown(figure: Figure, ratio: float) -> float:
    return 1 / ratio if figure.more_is_better else ratio
