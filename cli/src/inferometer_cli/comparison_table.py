"""The comparison of two results in a terminal and in a log."""

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from inferometer_api.results.result import ResultDocument
from inferometer_cli.text_table import print_sentences, printable
from inferometer_results.compare.comparison import (
    Bases,
    Compared,
    Comparison,
    Pair,
    Word,
    step_name,
)
from inferometer_results.compare.differences import Difference, differences
from inferometer_results.compare.figures import Figure
from inferometer_results.compare.interval import Change, Estimate
from inferometer_results.headline import headline
from inferometer_results.quantity import DASH, Unit, energy_unit, significant, time_unit

_STYLES: dict[Word, str] = {
    "better": "green",
    "worse": "red",
    "no difference shown": "",
    "unknown": "dim",
    "by schedule": "dim",
    "scopes differ": "dim",
}
_HEADINGS = ("", "A", "B", "change", "")
_RATE = Unit("", 1)

_OVER_REPEATS = "Bounds are 95 % confidence bounds from the repeats of each scenario."
_FROM: dict[Bases, str] = {
    "repeats": "from the repeats of each scenario",
    "both": "from repeats if there are any, else from within one run",
    "run": "from within one run",
}
"""In order of decreasing use of repeats."""
_WITHIN_A_RUN = (
    "(percentiles: order statistics; rates: batch means). If queries wait for each other, such "
    "bounds of percentiles are far too narrow: use validity.repeats. Bounds from within one run do "
    "not cover variation between runs: confirm an important difference with further runs."
)


Named = tuple[str, ResultDocument]
"""A result and the name that the user gave for it."""


def print_comparison(before: Named, after: Named, comparison: Comparison, console: Console) -> None:
    """Print which results these are, what differs in the spec and environment, then the figures."""
    print_sentences([_head("A", *before), _head("B", *after)], console)
    console.print()
    print_sentences(_differing(differences(before[1], after[1])), console)
    _print_pairs(comparison, console)
    console.print()
    print_sentences([Text(_bounds_sentence(comparison))], console)


def _bounds_sentence(comparison: Comparison) -> str:
    """Return where the bounds of each result come from, and what they do not cover."""
    bases = {"A": comparison.basis_before, "B": comparison.basis_after}
    alike = set(bases.values())
    if alike == {"repeats"}:
        return _OVER_REPEATS
    if len(alike) == 1:
        each = " each" if alike == {"run"} else ""
        return f"Bounds are 95 % confidence bounds {_FROM[bases['A']]}{each} {_WITHIN_A_RUN}"
    # The explanation of bounds within a run follows the result that has them.
    first, last = sorted(bases, key=lambda name: list(_FROM).index(bases[name]))
    return (
        f"Bounds are 95 % confidence bounds: those of {first} {_FROM[bases[first]]}, those of "
        f"{last} {_FROM[bases[last]]} {_WITHIN_A_RUN}"
    )


def _head(name: str, source: str, document: ResultDocument) -> Text:
    found = headline(document)
    words = f"{printable(source)}: {document.run.metadata.name}, measured {document.started_at}"
    return Text.assemble((name, "bold"), f"  {words}. {found.word}: {found.sentence}")


def _differing(found: Sequence[Difference]) -> Iterator[Text]:
    if not found:
        yield Text("The spec, the model, the machine and the software are the same.")
        return
    yield Text("Differences in spec and environment:", "bold")
    for each in found:
        yield Text.assemble(
            (f"  {each.heading}  ", "dim"),
            printable(f"{each.name}: {_short(each.before)} -> {_short(each.after)}"),
        )


def _print_pairs(comparison: Comparison, console: Console) -> None:
    for pair in comparison.pairs:
        console.print()
        print_sentences([_title(pair)], console)
        rows = [(_row(figure, _unit(figure)), figure.word) for figure in pair.figures]
        if console.is_terminal:
            console.print(_table(rows))
        else:
            _print_plain([row for row, _ in rows], console)
        print_sentences(_unavailable(pair), console)
    for which, names in (("A", comparison.only_before), ("B", comparison.only_after)):
        if names:
            console.print()
            words = printable("; ".join(names))
            print_sentences([Text(f"Only in {which}: {words}.")], console)


def _unavailable(pair: Pair) -> Iterator[Text]:
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
        yield Text(printable(f"{what} in {' and '.join(names)}: {why}."))


def regression(pair: Pair, figure: Compared, part: float) -> str:
    """Return the message that a figure is slower by more than this fraction."""
    return (
        f"slower: {printable(step_name(pair.before))}, {figure.name} {_change(figure.change)}; at "
        f"most {part * 100:g}% is allowed."
    )


def _title(pair: Pair) -> Text:
    verdicts = f"A {pair.before.verdict}, B {pair.after.verdict}"
    style = "" if "INVALID" not in verdicts else "red"
    return Text.assemble((printable(step_name(pair.before)), "bold"), "  ", (verdicts, style))


def _row(compared: Compared, unit: Unit) -> tuple[str, ...]:
    name = f"{compared.name} {unit.name}".strip()
    if compared.before.estimate is None and compared.after.estimate is None:
        return (name, DASH, DASH, "", "unavailable")
    return (
        name,
        _bounded(compared.before, unit),
        _bounded(compared.after, unit),
        _change(compared.change),
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


def _change(found: Change | None) -> str:
    if found is None:
        return DASH
    known = [each for each in (found.ratio, found.low, found.high) if each is not None]
    written = _times if max(known) >= 10 else _percent
    bounds = ""
    if found.low is not None or found.high is not None:
        low, high = ("?" if each is None else written(each) for each in (found.low, found.high))
        bounds = f" ({low} to {high})"
    return f"{written(found.ratio)}{bounds}"


def _percent(ratio: float) -> str:
    return f"{(ratio - 1) * 100:+.1f}%"


def _times(ratio: float) -> str:
    return f"x{significant(ratio)}"


def _short(text: str) -> str:
    return text if len(text) <= 70 else f"{text[:67]}..."


def _table(rows: Sequence[tuple[tuple[str, ...], Word]]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for index, heading in enumerate(_HEADINGS):
        table.add_column(heading, justify="right" if 0 < index < 4 else "left")
    for row, word in rows:
        name, *cells, last = row
        # Bounds go below their figure so that the columns fit in 80 characters.
        table.add_row(
            name, *(cell.replace(" (", "\n(") for cell in cells), Text(last, _STYLES[word])
        )
    return table


def _print_plain(rows: Sequence[tuple[str, ...]], console: Console) -> None:
    lines = [_HEADINGS, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(4)]
    for name, *figures, last in lines:
        cells = [name.ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(figures, widths[1:], strict=True)]
        console.out("  ".join([*cells, last]).rstrip(), highlight=False)
