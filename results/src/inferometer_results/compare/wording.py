"""The words of a comparison: figures with bounds, changes, and what a judgement means."""

from collections.abc import Iterator

from inferometer_results.compare.comparison import Bases, Compared, Comparison, Pair
from inferometer_results.compare.figures import Figure
from inferometer_results.compare.interval import Estimate
from inferometer_results.quantity import DASH, Unit, energy_unit, significant, time_unit

_RATE = Unit("", 1)
_MANY = 10
"""From this ratio on a change is written as a factor, not in percent."""
_FARTHEST = 100
"""Bounds of an inconclusive change beyond this factor mean only that nothing is known."""

_FROM: dict[Bases, str] = {
    "repeats": "over the repeats of each scenario",
    "both": "over repeats if there are any, else within this window",
    "run": "within this window",
}
"""In order of decreasing use of repeats."""
_WITHIN_A_WINDOW = (
    "(percentiles: order statistics; rates: batch means). Bounds within one window do not cover "
    "what differs from run to run, so no difference is judged by them."
)
_MEANS = "Means over repeats are geometric."
_ADVICE = (
    "To judge them, set validity.repeats to 3 or more in both, or measure both in turn: "
    "inferometer ab A.yaml B.yaml."
)


def figure_texts(compared: Compared) -> tuple[str, str, str, str, str]:
    """Return the name of a figure, both values with bounds, the change, and its judgement."""
    unit = _unit(compared)
    name = f"{compared.name} {unit.name}".strip()
    if compared.before.estimate is None and compared.after.estimate is None:
        return (name, DASH, DASH, "", "unavailable")
    return (
        name,
        _bounded(compared.before, unit),
        _bounded(compared.after, unit),
        change(compared),
        compared.word,
    )


def _unit(compared: Compared) -> Unit:
    found = [each.estimate for each in (compared.before, compared.after)]
    values = [estimate.value for estimate in found if estimate is not None]
    match compared.before.kind:
        case "rate":
            return _RATE
        case "time":
            return time_unit(values)
        case "cost":
            return _RATE
        case "energy":
            # The figure's name already contains the unit J.
            return Unit("", 1e6) if not values else _renamed(energy_unit(values))


def _renamed(unit: Unit) -> Unit:
    return Unit(f"({unit.name})", unit.size)


def _bounded(figure: Figure, unit: Unit) -> str:
    estimate = figure.estimate
    if estimate is None:
        return DASH
    covers = f" {figure.covers}" if figure.covers else ""
    return f"{_digits(unit.of(estimate.value))}{covers}{_bounds(estimate, unit)}"


def _bounds(estimate: Estimate, unit: Unit) -> str:
    if estimate.low is None and estimate.high is None:
        return ""
    low = "?" if estimate.low is None else _digits(unit.of(estimate.low))
    high = "?" if estimate.high is None else _digits(unit.of(estimate.high))
    return f" ({low} to {high})"


def _digits(value: float) -> str:
    return significant(value, 4 if abs(value) < 10_000 else 5)


def change(compared: Compared) -> str:
    """Return how much larger the second figure is, with the bounds of a judgement."""
    ratio, judgement = compared.ratio, compared.judgement
    if ratio is None:
        return DASH
    if judgement is None:
        return (_times if ratio >= _MANY else _percent)(ratio)
    written = _times if judgement.high >= _MANY else _percent
    low, high = written(judgement.low), written(judgement.high)
    if judgement.outcome == "inconclusive":
        low = f"<x{1 / _FARTHEST:g}" if judgement.low < 1 / _FARTHEST else low
        high = f">x{_FARTHEST}" if judgement.high > _FARTHEST else high
    bounds = f"{low} to {high}"
    return f"{written(judgement.ratio)} ({bounds})"


def _percent(ratio: float) -> str:
    return f"{(ratio - 1) * 100:+.1f}%"


def _times(ratio: float) -> str:
    return f"x{significant(ratio)}"


def unavailable(pair: Pair) -> Iterator[str]:
    """Yield why a figure is missing or unknown, once for each reason."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for figure in pair.figures:
        for name, found in (("A", figure.before), ("B", figure.after)):
            if found.why_unknown:
                is_energy = found.kind == "energy"
                what = "Energy is unavailable" if is_energy else f"{found.name} is unknown"
                which = reasons.setdefault((what, found.why_unknown), [])
                which += [name] if name not in which else []
    for (what, why), names in reasons.items():
        yield f"{what} in {' and '.join(names)}: {why}."


def explanations(comparison: Comparison) -> Iterator[str]:
    """Yield where bounds come from, and what the words of the judgement mean."""
    yield _bounds_sentence(comparison)
    words = {figure.word for pair in comparison.pairs for figure in pair.figures}
    margin = f"{comparison.rule.margin * 100:g} %"
    if words & {"better", "worse", "equal", "inconclusive"}:
        rule = comparison.rule
        errors = rule.least_standard_errors
        least = f" and at least {errors:g} standard errors" if errors else ""
        yield (
            f"A change is better or worse if its bounds ({rule.confidence * 100:.6g} %{least}) "
            f"exclude no change and it is more than {margin}; equal if its "
            f"{rule.equality_confidence * 100:.4g} % bounds, which are shown then, are within this "
            "margin; else inconclusive."
        )
    if "not judged" in words and all(not pair.caveats for pair in comparison.pairs):
        yield f"Differences are not judged. {_ADVICE}"


def _bounds_sentence(comparison: Comparison) -> str:
    """Return where the bounds of each result come from, and what they do not cover."""
    if comparison.is_paired:
        return "A and B are geometric means over the rounds, with 95 % confidence bounds."
    bases = {"A": comparison.basis_before, "B": comparison.basis_after}
    alike = set(bases.values())
    if alike == {"repeats"}:
        return f"Bounds of A and B are 95 % confidence bounds {_FROM['repeats']}. {_MEANS}"
    if len(alike) == 1:
        means = "" if alike == {"run"} else f" {_MEANS}"
        return f"Bounds of A and B are 95 % bounds {_FROM[bases['A']]} {_WITHIN_A_WINDOW}{means}"
    # The explanation of bounds within a window follows the result that has them.
    first, last = sorted(bases, key=lambda name: list(_FROM).index(bases[name]))
    return (
        f"Bounds of {first} are 95 % bounds {_FROM[bases[first]]}, those of {last} "
        f"{_FROM[bases[last]]} {_WITHIN_A_WINDOW} {_MEANS}"
    )
