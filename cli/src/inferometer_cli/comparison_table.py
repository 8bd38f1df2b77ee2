"""The comparison of two variants in a terminal and in a log."""

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from inferometer_api.results.result import ResultDocument
from inferometer_cli.text_table import NARROWEST_TABLE, print_sentences, printable
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
from inferometer_results.compare.gate import Gate
from inferometer_results.compare.interval import Estimate
from inferometer_results.headline import headline
from inferometer_results.quantity import DASH, Unit, energy_unit, significant, time_unit

_STYLES: dict[Word, str] = {
    "better": "green",
    "worse": "red",
    "equal": "",
    "inconclusive": "yellow",
    "not judged": "dim",
    "unknown": "dim",
    "by schedule": "dim",
    "scopes differ": "dim",
}
_HEADINGS = ("", "A", "B", "change", "")
_GAP = 2
_RATE = Unit("", 1)
_MANY = 10
"""From this ratio on a change is written as a factor, not in percent."""

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
_ADVICE = (
    "To judge it, set validity.repeats to 3 or more in both, or measure both in turn: "
    "inferometer ab A.yaml B.yaml."
)


_DECISIONS = {
    "PASS": "B is no more than {} worse than A.",
    "FAIL": "B is more than {} worse than A.",
    "INCONCLUSIVE": "It is not shown whether B is more than {} worse than A.",
}

Named = tuple[str, ResultDocument]
"""A result and the name that the user gave for it."""
_StyledRow = tuple[tuple[str, ...], Word]


def print_comparison(before: Named, after: Named, comparison: Comparison, console: Console) -> None:
    """Print which results these are, what differs in the spec and environment, then the figures."""
    print_sentences([_head("A", *before), _head("B", *after)], console)
    console.print()
    print_sentences(_differing(differences(before[1], after[1])), console)
    _print_pairs(comparison, console)
    console.print()
    print_sentences([Text(each) for each in _explanations(comparison)], console)


def _explanations(comparison: Comparison) -> Iterator[str]:
    """Yield where bounds come from, and what the words of the judgement mean."""
    yield _bounds_sentence(comparison)
    words = {figure.word for pair in comparison.pairs for figure in pair.figures}
    margin = f"{comparison.rule.margin * 100:g} %"
    if words & {"better", "worse", "equal", "inconclusive"}:
        confidence = f"{comparison.rule.confidence * 100:.4g} %"
        yield (
            f"A change is better or worse if its {confidence} bounds exclude no change and it is "
            f"more than {margin}; equal if it is shown to be no more than that; else inconclusive."
        )
    if "not judged" in words and all(not pair.caveats for pair in comparison.pairs):
        yield f"Differences are not judged. {_ADVICE}"


def _bounds_sentence(comparison: Comparison) -> str:
    """Return where the bounds of each result come from, and what they do not cover."""
    if comparison.is_paired:
        return "Bounds of A and B are 95 % confidence bounds over the rounds."
    bases = {"A": comparison.basis_before, "B": comparison.basis_after}
    alike = set(bases.values())
    if alike == {"repeats"}:
        return f"Bounds of A and B are 95 % confidence bounds {_FROM['repeats']}."
    if len(alike) == 1:
        return f"Bounds of A and B are 95 % bounds {_FROM[bases['A']]} {_WITHIN_A_WINDOW}"
    # The explanation of bounds within a window follows the result that has them.
    first, last = sorted(bases, key=lambda name: list(_FROM).index(bases[name]))
    return (
        f"Bounds of {first} are 95 % bounds {_FROM[bases[first]]}, those of {last} "
        f"{_FROM[bases[last]]} {_WITHIN_A_WINDOW}"
    )


def print_gate(found: Gate, margin: float, console: Console) -> None:
    """Print the decision of a gate, with the smallest change that it can see."""
    sentence = f"{found.decision}: {_DECISIONS[found.decision].format(f'{margin * 100:g} %')}"
    if found.detectable is not None:
        sentence += f" These runs show a change of {found.detectable:.1%} in 8 of 10 cases."
    console.print()
    print_sentences([Text(sentence, "bold")], console)


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
            _print_fitting(rows, console)
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


def regression(pair: Pair, figure: Compared, margin: float) -> str:
    """Return the message that a figure is worse by more than this fraction."""
    return (
        f"slower: {printable(step_name(pair.before))}, {figure.name} {_change(figure)}; at "
        f"most {margin * 100:g}% is allowed."
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
        _change(compared),
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


def _change(compared: Compared) -> str:
    ratio, judgement = compared.ratio, compared.judgement
    if ratio is None:
        return DASH
    if judgement is None:
        return (_times if ratio >= _MANY else _percent)(ratio)
    written = _times if judgement.high >= _MANY else _percent
    bounds = f"{written(judgement.low)} to {written(judgement.high)}"
    return f"{written(judgement.ratio)} ({bounds})"


def _percent(ratio: float) -> str:
    return f"{(ratio - 1) * 100:+.1f}%"


def _times(ratio: float) -> str:
    return f"x{significant(ratio)}"


def _short(text: str) -> str:
    return text if len(text) <= 70 else f"{text[:67]}..."


def _print_fitting(rows: Sequence[_StyledRow], console: Console) -> None:
    """Print a table whose figures fit the terminal, or each row as a block of lines."""
    below = _broken(rows, " (", "\n(")
    for table in (below, _broken(below, " to ", " to\n")):
        columns = zip(_HEADINGS, *(row for row, _ in table), strict=True)
        widths = (max(len(line) for cell in each for line in cell.split("\n")) for each in columns)
        width = sum(widths) + _GAP * (len(_HEADINGS) - 1)
        if max(NARROWEST_TABLE, width) <= console.width:
            console.print(_table(table))
            return
    for (name, *cells, last), word in rows:
        console.print(Text(f"{name}  ") + Text(last, _STYLES[word]), overflow="fold")
        for heading, cell in zip(_HEADINGS[1:], cells, strict=False):
            console.print(Text(f"  {heading:<6}  ", "dim") + Text(cell), overflow="fold")


def _broken(rows: Sequence[_StyledRow], at: str, by: str) -> list[_StyledRow]:
    """Return the rows with their figures broken into lines, so that the columns are narrower."""
    return [((row[0], *(cell.replace(at, by) for cell in row[1:])), word) for row, word in rows]


def _table(rows: Sequence[_StyledRow]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="dim")
    for index, heading in enumerate(_HEADINGS):
        table.add_column(heading, justify="right" if 0 < index < 4 else "left", no_wrap=True)
    for row, word in rows:
        table.add_row(*row[:-1], Text(row[-1], _STYLES[word]))
    return table


def _print_plain(rows: Sequence[tuple[str, ...]], console: Console) -> None:
    lines = [_HEADINGS, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(4)]
    for name, *figures, last in lines:
        cells = [name.ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(figures, widths[1:], strict=True)]
        console.out("  ".join([*cells, last]).rstrip(), highlight=False)
