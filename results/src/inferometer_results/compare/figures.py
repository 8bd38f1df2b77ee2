"""The figures of a scenario that are compared, with their bounds."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from inferometer_api.judgement import FEWEST_RUNS
from inferometer_api.results.lateness import late_at
from inferometer_api.results.result import ScenarioResult, Step, percentile_of, whole_windows
from inferometer_api.results.scenario_summary import representative_step
from inferometer_api.results.search import Peak
from inferometer_results.compare.interval import Estimate, by_batch_means, over_repeats
from inferometer_results.profile import is_profiled
from inferometer_results.quantity import PERCENTILES

Kind = Literal["rate", "time", "energy", "cost"]
Basis = Literal["repeats", "run"]
PEAK = "peak queries/s"


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of a step: a rate per second, nanoseconds, microjoules, or a cost per million."""

    name: str
    kind: Kind
    estimate: Estimate | None
    """None if the result has none."""
    why_unknown: str = ""
    """Why the figure is missing or cannot be judged."""
    remedy: str = ""
    by_schedule: bool = False
    """Whether the scenario prescribes it, so that it says nothing about the server."""
    covers: str = ""
    """The attribution of an energy."""
    repeats: tuple[float, ...] = ()
    """The figure in each repeat, if there are several; all positive."""

    @property
    def more_is_better(self) -> bool:
        """Whether a larger figure is better."""
        return self.kind == "rate"


@dataclass(frozen=True, slots=True)
class Measured:
    """The figures of one step of a scenario, over all its repeats."""

    scenario: str
    step: str
    verdict: Literal["VALID", "INVALID"]
    """INVALID if any repeat is."""
    basis: Basis
    """Whether bounds come from repeats, or from within one run."""
    batch_size: int
    figures: tuple[Figure, ...]
    runs: int = 1
    """How many repeats or rounds there are."""
    is_profiled: bool = False
    """Whether the run has a profile scenario, with data of a profiler or without."""
    paid_rate: Figure | None = None
    """Of a search the inferences per second whose cost is that of the search."""


def measured(scenarios: Sequence[ScenarioResult]) -> dict[tuple[str, str], Measured]:
    """Return the figures of each step, by the scenario's name and the step's label.

    A search has one entry, its peak, without a label.
    """
    grouped: dict[tuple[str, str], list[Step]] = {}
    peaks: dict[str, list[Peak]] = {}
    probes: dict[str, list[Step | None]] = {}
    invalid = {each.name for each in scenarios if each.verdict.state == "INVALID"}
    with_profile = is_profiled({each.kind for each in scenarios})
    for scenario in scenarios:
        if scenario.peak is not None:
            peaks.setdefault(scenario.name, []).append(scenario.peak)
            probes.setdefault(scenario.name, []).append(representative_step(scenario))
            continue
        for step in scenario.steps:
            grouped.setdefault((scenario.name, step.label), []).append(step)
    found = {
        (name, ""): Measured(
            name,
            "",
            "INVALID" if name in invalid else "VALID",
            "repeats" if len(of_one) > 1 else "run",
            1,
            (_peak_figure(of_one),),
            len(of_one),
            is_profiled=with_profile,
            paid_rate=_paid_rate(of_one, probes[name]),
        )
        for name, of_one in peaks.items()
    }
    return found | {
        (name, label): Measured(
            name,
            label,
            "INVALID" if name in invalid else "VALID",
            "repeats" if len(steps) > 1 else "run",
            steps[0].batch_size,
            tuple(_figures(steps)),
            len(steps),
            is_profiled=with_profile,
        )
        for (name, label), steps in grouped.items()
    }


def with_cost(found: Measured, currency: str, per_second: float) -> Measured:
    """Return a step with what a million inferences cost, on nodes of this price.

    The cost is that of the inferences per second, of a search those of the probe that decides: as
    the report, the list of runs and the page of a model have it.
    """
    by_name = {figure.name: figure for figure in found.figures}
    rate = found.paid_rate or by_name.get("samples/s")
    if rate is None:
        return found
    total = per_second * 1e6
    estimate = rate.estimate
    if estimate is not None and estimate.value > 0:
        low, high = (
            total / each if each is not None and each > 0 else None
            for each in (estimate.high, estimate.low)
        )
        estimate = Estimate(total / estimate.value, low, high)
    cost = replace(
        rate,
        name=f"{currency}/1M",
        kind="cost",
        estimate=estimate,
        repeats=tuple(total / each for each in rate.repeats),
    )
    return replace(found, figures=(*found.figures, cost))


def measured_in_rounds(
    rounds: Sequence[Sequence[ScenarioResult]], valid: Sequence[Collection[str]]
) -> dict[tuple[str, str], Measured]:
    """Return the figures of each step over several runs; the repeats of a run count as one value.

    `valid` has for each round the names of the scenarios that count. If fewer than `FEWEST_RUNS`
    rounds of a scenario count, all do. A step that one of them lacks is left out.
    """
    found = [measured(scenarios) for scenarios in rounds]
    over_rounds = {}
    for key in found[0]:
        counted = [each for each, names in zip(found, valid, strict=True) if key[0] in names]
        of_step = counted if len(counted) >= FEWEST_RUNS else found
        if all(key in each for each in of_step):
            over_rounds[key] = _over_rounds([each[key] for each in of_step])
    return over_rounds


def _over_rounds(rounds: Sequence[Measured]) -> Measured:
    first = rounds[0]
    verdicts = {each.verdict for each in rounds}
    figures = [
        _figure_over_rounds(
            [next((f for f in each.figures if f.name == name), None) for each in rounds]
        )
        for name in (figure.name for figure in first.figures)
    ]
    return replace(
        first,
        verdict="INVALID" if "INVALID" in verdicts else "VALID",
        basis="repeats" if len(rounds) > 1 else first.basis,
        figures=tuple(figures),
        runs=len(rounds),
    )


def _figure_over_rounds(rounds: Sequence[Figure | None]) -> Figure:
    """Return a figure over several runs; it is missing or unknown if it is so in one of them."""
    found = [each for each in rounds if each is not None]
    first = found[0]
    values = tuple(each.estimate.value for each in found if each.estimate is not None)
    why = next((each for each in found if each.why_unknown), first)
    covers = ", ".join(sorted({each.covers for each in found if each.covers}))
    known = replace(first, why_unknown=why.why_unknown, remedy=why.remedy, covers=covers)
    if len(values) < len(rounds) or min(values, default=0) <= 0:
        return replace(known, estimate=None)
    if len(values) == 1:
        return known
    return replace(known, estimate=over_repeats(values), repeats=values)


def _peak_figure(peaks: Sequence[Peak]) -> Figure:
    """Return the peak of a search, bounded by its bracket or by the repeats if there are any.

    The probes run at different rates in each search, so their figures are not comparable.
    """
    name = PEAK
    rates = [peak.qps for peak in peaks if peak.qps is not None]
    if len(rates) < len(peaks) or min(rates) <= 0:
        return Figure(name, "rate", None, why_unknown="no peak was found")
    if len(rates) > 1:
        return Figure(name, "rate", over_repeats(rates), repeats=tuple(rates))
    (peak,) = peaks
    is_known = peak.confidence is not None
    low, high = (peak.low_qps, peak.high_qps) if is_known else (None, None)
    return Figure(name, "rate", Estimate(rates[0], low, high))


def _paid_rate(peaks: Sequence[Peak], probes: Sequence[Step | None]) -> Figure:
    """Return the inferences per second of the probes that decide, as sure as the peak is."""
    peak = _peak_figure(peaks)
    rates = [0.0 if step is None else step.achieved_samples_per_second for step in probes]
    if peak.estimate is None or min(rates) <= 0:
        return replace(peak, estimate=None, repeats=())
    if len(rates) > 1:
        return replace(peak, estimate=over_repeats(rates), repeats=tuple(rates))
    scale = rates[0] / peak.estimate.value
    low, high = (
        None if each is None else each * scale for each in (peak.estimate.low, peak.estimate.high)
    )
    return replace(peak, estimate=Estimate(rates[0], low, high))


def _figures(steps: Sequence[Step]) -> Iterator[Figure]:
    scheduled = steps[0].scheduled_qps is not None
    for name, rate in (("queries/s", _queries_rate), ("samples/s", samples_rate)):
        yield replace(_figure(name, "rate", steps, rate), by_schedule=scheduled)
    for percentile in PERCENTILES:
        figure = _figure(f"p{percentile:g}", "time", steps, _percentile(percentile))
        if figure.estimate is not None and any(late_at(step, percentile) for step in steps):
            alone = Estimate(figure.estimate.value)
            why = "the load generator was late, by more than the rule DispatchLag allows"
            remedy = "Give it a core of its own, and measure again."
            figure = replace(figure, estimate=alone, why_unknown=why, remedy=remedy)
        yield figure
    yield from _energies(steps)


def _energies(steps: Sequence[Step]) -> Iterator[Figure]:
    covers = ", ".join(sorted({step.energy.attribution for step in steps}))
    reasons = {step.energy.reason.rstrip(".") for step in steps if step.energy.reason}
    for name, of in (("J/inference", _gross), ("J/inference net", _net)):
        found = _figure(name, "energy", steps, of)
        if found.estimate is not None:
            yield replace(found, covers=covers)
        else:
            yield replace(found, why_unknown="; ".join(sorted(reasons)))


def _figure(
    name: str, kind: Kind, steps: Sequence[Step], of: Callable[[Step], Estimate | None]
) -> Figure:
    found = [estimate for step in steps if (estimate := of(step)) is not None]
    if len(found) < len(steps) or not found:
        return Figure(name, kind, None)
    if len(found) == 1:
        return Figure(name, kind, found[0])
    values = tuple(estimate.value for estimate in found)
    if min(values) <= 0:
        return Figure(name, kind, None)
    return Figure(name, kind, over_repeats(values), repeats=values)


def _queries_rate(step: Step) -> Estimate:
    return _rate(step, step.achieved_qps, 1)


def samples_rate(step: Step) -> Estimate:
    """Return the samples per second of a step, with bounds within its window."""
    return _rate(step, step.achieved_samples_per_second, step.batch_size)


def _rate(step: Step, value: float, per_query: int) -> Estimate:
    """Return a rate with bounds from all whole windows."""
    least = step.windows[0].duration_milliseconds if step.windows else 0
    if not least:
        return Estimate(value)
    rates = [
        window.succeeded * per_query * 1000 / window.duration_milliseconds
        for window in whole_windows(step)
    ]
    return by_batch_means(value, rates, per_query * 1000 / least)


def _percentile(percentile: float) -> Callable[[Step], Estimate | None]:
    def of(step: Step) -> Estimate | None:
        found = percentile_of(step.latency, percentile)
        if found is None:
            return None
        return Estimate(found.nanoseconds, found.low_nanoseconds, found.high_nanoseconds)

    return of


def _gross(step: Step) -> Estimate | None:
    spent = step.energy.microjoules_per_inference
    return None if spent is None else Estimate(spent)


def _net(step: Step) -> Estimate | None:
    spent = step.energy.net_microjoules_per_inference
    return None if spent is None else Estimate(spent)
