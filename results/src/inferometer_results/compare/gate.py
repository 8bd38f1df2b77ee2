"""The gate: whether the second variant of a comparison is no worse than the first."""

from dataclasses import dataclass
from typing import Literal

from inferometer_api.judgement import FEWEST_RUNS
from inferometer_api.results.result import ResultDocument
from inferometer_results.compare.comparison import Compared, Comparison, Pair, step_name

LARGEST_DETECTABLE = 1.0
"""Runs that find only larger changes than this can show nothing of use."""


@dataclass(frozen=True, slots=True)
class Gate:
    """Whether the second variant is worse."""

    decision: Literal["PASS", "FAIL", "INCONCLUSIVE"]
    failures: tuple[tuple[Pair, Compared], ...]
    reasons: tuple[str, ...]
    """Why it is not shown that the second variant is no worse."""
    is_invalid: bool
    """Whether a measurement is INVALID."""
    detectable: float | None
    """The smallest change that is shown with a probability of 0.8 in every required figure."""
    is_open: bool
    """Whether it is inconclusive, and more runs may decide it."""


def gate(before: ResultDocument, after: ResultDocument, comparison: Comparison) -> Gate:
    """Decide whether the second variant is no worse than the first, within the rule's margin."""
    failures = tuple(
        (pair, figure)
        for pair in comparison.pairs
        for figure in pair.figures
        if figure.is_gated and figure.word == "worse"
    )
    reasons = [
        f"{name} is {document.outcome.state} ({document.outcome.reason}), not Complete."
        for name, document in (("A", before), ("B", after))
        if document.outcome.state != "Complete"
    ]
    reasons += [f"{name} is missing in B." for name in comparison.only_before]
    for pair in comparison.pairs:
        reasons += _reservations(pair, comparison.rule.margin)
    required = [
        figure.judgement
        for pair in comparison.pairs
        for figure in pair.figures
        if figure.is_required and figure.judgement is not None
    ]
    decision: Literal["PASS", "FAIL", "INCONCLUSIVE"] = "INCONCLUSIVE" if reasons else "PASS"
    is_invalid = not all(pair.is_valid for pair in comparison.pairs)
    lacks_runs = not all(each.is_no_worse for each in required)
    return Gate(
        "FAIL" if failures else decision,
        failures,
        tuple(reasons),
        is_invalid,
        max((each.detectable for each in required), default=None),
        is_open=not failures and not is_invalid and lacks_runs,
    )


def _reservations(pair: Pair, margin: float) -> list[str]:
    """Return why a step is not shown to be no worse, as sentences."""
    name = step_name(pair.before)
    if pair.caveats:
        return [f"{name} {caveat}" for caveat in pair.caveats]
    required = [figure for figure in pair.figures if figure.is_required]
    if not required:
        return [f"{name} has no rate and no latency that both results know."]
    if any(figure.judgement is None for figure in required):
        return [f"{name} {_too_few_runs(pair)}"]
    reservations = [
        f"{name}, {figure.name}: {figure.why_unknown}"
        for figure in pair.figures
        if figure.may_be_hidden(margin)
    ]
    return reservations + [
        f"{name}, {figure.name}: {_shown_changes(figure.judgement.detectable)} Repeat more often."
        for figure in required
        if figure.judgement is not None
        and not figure.judgement.is_no_worse
        and figure.word != "worse"
    ]


def _shown_changes(detectable: float) -> str:
    """Return which changes the runs of a figure show, as a sentence."""
    if detectable > LARGEST_DETECTABLE:
        largest = f"{LARGEST_DETECTABLE * 100:g} %"
        return f"these runs scatter too much to show any change up to {largest}."
    return f"these runs show only changes of {detectable:.1%} or more."


def _too_few_runs(pair: Pair) -> str:
    runs = {"A": pair.before.runs, "B": pair.after.runs}
    few = [f"{count} in {name}" for name, count in runs.items() if count < FEWEST_RUNS]
    if not few:
        return "lacks a figure in one of its runs."
    return (
        f"was measured too few times: {' and '.join(few)}. Bounds of a single run do not cover "
        f"what differs from run to run. Set validity.repeats to {FEWEST_RUNS} or more, or use "
        "inferometer ab."
    )
