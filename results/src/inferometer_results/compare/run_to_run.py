"""Estimates how far figures differ from run to run, and how many runs show a difference."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import NormalDist, fmean, stdev

from inferometer_api.judgement import (
    DEFAULT_MARGIN,
    FEWEST_RUNS,
    GROUPED_FALSE_ALARMS,
    GROUPED_STANDARD_ERRORS,
    PAIRED_FALSE_ALARMS,
    MarginRule,
    detectable_change,
    part_of_look,
)
from inferometer_api.results.result import Finding, ResultDocument, ScenarioResult
from inferometer_results.compare.figures import Figure, Kind, Measured, measured
from inferometer_results.quantity import duration, percent, significant

_RULE = "SingleWindow"
"""The caution that the spread is unknown."""
_JUDGED = "p50"
_CERTAINTY = 0.8
CHANGES = (0.02, 0.05, 0.10)
"""The differences whose runs are counted."""
MOST_RUNS = 100
"""More runs are not planned."""


@dataclass(frozen=True, slots=True)
class Spread:
    """One figure in several runs, in the order in which they were measured."""

    name: str
    kind: Kind
    values: tuple[float, ...]
    """At least two, all positive."""
    window: float | None = None
    """Half of the mean width of the 95 % bounds within one window, as a fraction."""

    @property
    def mean(self) -> float:
        """The geometric mean."""
        return math.exp(fmean(map(math.log, self.values)))

    @property
    def variation(self) -> float:
        """The standard deviation of the logarithms: about the coefficient of variation."""
        return stdev(map(math.log, self.values))

    @property
    def neighbour_variation(self) -> float:
        """The same as far as neighbouring runs differ: what drifts slowly does not count.

        From the mean square of successive differences (von Neumann, Annals of Mathematical
        Statistics 12, 1941).
        """
        logs = [math.log(value) for value in self.values]
        return math.sqrt(fmean((b - a) ** 2 for a, b in pairwise(logs)) / 2)


@dataclass(frozen=True, slots=True)
class NeededRuns:
    """How many runs of each variant show a difference with a probability of 0.8."""

    change: float
    margin: float
    """The margin of the comparison: the usual one, or half of a smaller change."""
    rounds: int | None
    """Rounds of `ab`; None: more than `MOST_RUNS`."""
    repeats: int | None
    """Repeats of each result for `compare`."""


@dataclass(frozen=True, slots=True)
class Noise:
    """How far the figures of several runs of one spec differ."""

    runs: int
    spreads: tuple[Spread, ...]
    judged: str
    """The figure whose differences `needed` is about."""
    needed: tuple[NeededRuns, ...]


def noise_of(documents: Sequence[ResultDocument]) -> Noise:
    """Return how far the figures of the only step of several runs differ.

    The runs needed are those that show a difference of the median in a gate over all its figures.
    """
    runs = [next(iter(measured(each.scenarios).values())) for each in documents]
    names = [figure.name for figure in runs[0].figures if figure.kind != "energy"]
    spreads = tuple(
        found
        for name in names
        # With one sample a query both rates are the same.
        if name != "samples/s" and (found := spread_of(name, runs)) is not None
    )
    judged = next((each for each in spreads if each.name == _JUDGED), None)
    needed = (
        ()
        if judged is None
        else (needed_runs(judged, change, figures=len(spreads)) for change in CHANGES)
    )
    return Noise(len(runs), spreads, _JUDGED, tuple(needed))


def spread_of(name: str, step: Sequence[Measured]) -> Spread | None:
    """Return the spread of one figure over runs of a step; None if a run does not know it."""
    found = [figure for each in step for figure in each.figures if figure.name == name]
    values = [each.estimate.value for each in found if each.estimate and not each.why_unknown]
    if len(values) < max(2, len(step)) or min(values) <= 0:
        return None
    halves = [half for each in found if (half := _half_width(each)) is not None]
    window = fmean(halves) if len(halves) == len(found) else None
    return Spread(name, found[0].kind, tuple(values), window)


def needed_runs(spread: Spread, change: float, *, figures: int = 1) -> NeededRuns:
    """Return how many runs of each variant show a change of this fraction.

    `figures` is the number of figures that are judged together. The spread of a few runs is itself
    uncertain: its upper limit at a confidence of 0.8 is used (Browne, Statistics in Medicine 14,
    1995).
    """
    margin = DEFAULT_MARGIN if change > DEFAULT_MARGIN else change / 2
    unsure = _upper_limit_factor(len(spread.values) - 1)
    paired = MarginRule(margin, PAIRED_FALSE_ALARMS, figures, part=part_of_look(1))
    grouped = MarginRule(
        margin,
        GROUPED_FALSE_ALARMS,
        figures,
        least_standard_errors=GROUPED_STANDARD_ERRORS,
    )
    neighbours, all_runs = unsure * spread.neighbour_variation, unsure * spread.variation

    def shown_by_rounds(runs: int) -> bool:
        error = neighbours * math.sqrt(2 / runs)
        return detectable_change(error, runs - 1, paired) <= change

    def shown_by_repeats(runs: int) -> bool:
        error = all_runs * math.sqrt(2 / runs)
        return detectable_change(error, 2 * runs - 2, grouped) <= change

    counts = range(FEWEST_RUNS, MOST_RUNS + 1)
    return NeededRuns(
        change,
        margin,
        next(filter(shown_by_rounds, counts), None),
        next(filter(shown_by_repeats, counts), None),
    )


def name_spread(
    document: ResultDocument, earlier: Sequence[ResultDocument], where: str
) -> ResultDocument:
    """Return a result whose caution names the spread over earlier results of the same run.

    `where` says where those are. Scenarios of which there are too few VALID results stay as they
    are.
    """
    scenarios = [
        _with_spread(each, _widest(each.name, [*earlier, document]), where)
        for each in document.scenarios
    ]
    return document.model_copy(update={"scenarios": scenarios})


def _half_width(figure: Figure) -> float | None:
    found = figure.estimate
    if found is None or found.low is None or found.high is None:
        return None
    return (found.high - found.low) / 2 / found.value


def _upper_limit_factor(freedom: int) -> float:
    """Return by how much a standard deviation may be too small.

    The quantile of chi-square is Wilson and Hilferty's (PNAS 17, 1931), right within 1 % here.
    """
    part = 2 / (9 * freedom)
    quantile = 1 - part + NormalDist().inv_cdf(1 - _CERTAINTY) * math.sqrt(part)
    return math.pow(quantile, -1.5)


def _widest(name: str, documents: Sequence[ResultDocument]) -> Spread | None:
    """Return the largest spread of a scenario's medians or peaks; None if too few are VALID."""
    valid = [
        measured([scenario])
        for document in documents
        for scenario in document.scenarios
        if scenario.name == name and scenario.verdict.state == "VALID"
    ]
    if len(valid) < FEWEST_RUNS:
        return None
    spreads = [
        found
        for key in set.intersection(*map(set, valid))
        for figure in ("p50", "peak queries/s")
        if (found := spread_of(figure, [each[key] for each in valid])) is not None
    ]
    return max(spreads, key=lambda each: each.variation, default=None)


def _with_spread(scenario: ScenarioResult, spread: Spread | None, where: str) -> ScenarioResult:
    if spread is None:
        return scenario
    cautions = list(_renamed(scenario.verdict.cautions, spread, where))
    verdict = scenario.verdict.model_copy(update={"cautions": cautions})
    return scenario.model_copy(update={"verdict": verdict})


def _renamed(cautions: Sequence[Finding], spread: Spread, where: str) -> Iterator[Finding]:
    least, most = (_text(spread, value) for value in (min(spread.values), max(spread.values)))
    found = percent(spread.variation)
    message = (
        "The scenario was measured once, and its bounds hold within this window. From run to run "
        f"the {spread.name} varies by {found} (standard deviation; {least} to {most} in "
        f"{len(spread.values)} results of this run on this machine, {where}). For bounds that "
        "cover it, set validity.repeats to 3 or more."
    )
    for each in cautions:
        is_spread = each.rule == _RULE
        yield each.model_copy(update={"message": message, "figure": found}) if is_spread else each


def _text(spread: Spread, value: float) -> str:
    return duration(value) if spread.kind == "time" else f"{significant(value, 4)}"
