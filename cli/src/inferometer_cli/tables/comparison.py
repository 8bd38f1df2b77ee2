"""The comparison of two variants in a terminal and in a log."""

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from inferometer_api.results.result import ResultDocument
from inferometer_cli.text_table import NARROWEST_TABLE, print_sentences
from inferometer_results.compare.accuracy import accuracy_differences
from inferometer_results.compare.comparison import (
    Compared,
    Comparison,
    Pair,
    Word,
    step_name,
)
from inferometer_results.compare.differences import (
    ABSENT,
    Difference,
    differences,
    differences_over_rounds,
)
from inferometer_results.compare.gate import LARGEST_DETECTABLE, Gate
from inferometer_results.compare.outputs import (
    NOT_COMPARED,
    agreement_sentence,
    computes_otherwise,
    output_agreement,
    ranking_caveat,
)
from inferometer_results.compare.wording import change, explanations, figure_texts, unavailable
from inferometer_results.headline import headline

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
_LONGEST_VALUE, _CONTEXT = 70, 20
"""Longer values of a difference are cut to where they differ, with some text before and after."""
_MOST_NOTES = 5
"""More notes of single rounds are counted: a busy machine is described anew in each of them."""


_DECISIONS = {
    "PASS": "B is no more than {} worse than A.",
    "FAIL": "B is more than {} worse than A.",
    "INCONCLUSIVE": "It is not shown whether B is more than {} worse than A.",
    "INVALID": "It is not shown whether B is more than {} worse: a scenario is INVALID.",
}

Named = tuple[str, ResultDocument]
"""A result and the name that the user gave for it."""
_StyledRow = tuple[tuple[str, ...], Word]


def print_comparison(before: Named, after: Named, comparison: Comparison, console: Console) -> None:
    """Print which results these are, what differs in the spec and environment, then the figures."""
    heads = [_head("A", *before), _head("B", *after)]
    both = (before[1], after[1])
    _print(heads, differences(*both), both, comparison, console)


def print_rounds(
    source: str,
    before: Sequence[ResultDocument],
    after: Sequence[ResultDocument],
    comparison: Comparison,
    console: Console,
) -> None:
    """Print the same of interleaved runs, with the rounds in which each variant is INVALID."""
    heads = [
        _rounds_head(name, f"{source}/*-{name}", rounds)
        for name, rounds in (("A", before), ("B", after))
    ]
    differing = differences_over_rounds(before, after)
    _print(heads, differing, (before[0], after[0]), comparison, console)


def _print(
    heads: Sequence[Text],
    differing: Sequence[Difference],
    both: tuple[ResultDocument, ResultDocument],
    comparison: Comparison,
    console: Console,
) -> None:
    print_sentences(heads, console)
    console.print()
    print_sentences(_differing(differing), console)
    if computes_otherwise(*both):
        agreement = output_agreement(*both)
        words = NOT_COMPARED if agreement is None else agreement_sentence(agreement)
        caveat = ranking_caveat(*both)
        print_sentences(
            [Text(words), *([Text(f"Nothing is judged: B {caveat}")] if caveat else [])], console
        )
    _print_pairs(comparison, console)
    _print_accuracy(both, console)
    console.print()
    print_sentences([Text(each) for each in explanations(comparison)], console)


def _print_accuracy(both: tuple[ResultDocument, ResultDocument], console: Console) -> None:
    """Print the measures of accuracy that both results have."""
    if found := list(accuracy_differences(*both)):
        console.print()
        print_sentences([Text("Accuracy:", "bold")], console)
        print_sentences([Text(f"  {each}") for each in found], console)


def print_gate(found: Gate, margin: float, console: Console) -> None:
    """Print the decision of a gate, with the smallest change that it can see."""
    is_invalid = found.is_invalid and found.decision == "INCONCLUSIVE"
    word = "INVALID" if is_invalid else found.decision
    sentence = f"{word}: {_DECISIONS[word].format(f'{margin * 100:g} %')}"
    sentence += f" {_detectable(found.detectable)}"
    console.print()
    print_sentences([Text(sentence, "bold")], console)


def _detectable(change: float | None) -> str:
    """Return the sentence on the smallest change that such runs show."""
    if change is None:
        return "Minimum detectable effect: unknown, since nothing is judged."
    if change > LARGEST_DETECTABLE:
        return (
            "Minimum detectable effect: more than 100 %; the runs are too few, or scatter too much."
        )
    return f"Minimum detectable effect: {change:.1%} (8 of 10 such changes are found)."


def _head(name: str, source: str, document: ResultDocument) -> Text:
    found = headline(document)
    words = f"{source}: {document.run.metadata.name}, measured {document.started_at}"
    return Text.assemble((name, "bold"), f"  {words}. {found.word}: {found.sentence}")


def _rounds_head(name: str, source: str, rounds: Sequence[ResultDocument]) -> Text:
    """Return which runs A or B are, and the rounds in which they are INVALID."""
    invalid: dict[str, list[str]] = {}
    for number, document in enumerate(rounds, 1):
        if why := why_invalid(document):
            invalid.setdefault(why, []).append(str(number))
    count = sum(map(len, invalid.values()))
    verdict = "VALID" if not count else f"INVALID in {count} of {len(rounds)} rounds"
    which = "; ".join(f"{', '.join(numbers)} ({why})" for why, numbers in invalid.items())
    words = (
        f"{source}: {rounds[0].run.metadata.name}, {len(rounds)} rounds, measured "
        f"{rounds[0].started_at} to {rounds[-1].started_at}. {verdict}"
    )
    return Text.assemble((name, "bold"), f"  {words}{f': {which}' if which else ''}.")


def why_invalid(document: ResultDocument) -> str:
    """Return which scenarios are INVALID by which rules; empty if none is."""
    rules: dict[str, list[str]] = {}
    for each in document.scenarios:
        if each.verdict.state == "INVALID":
            rules.setdefault(each.name, []).extend(reason.rule for reason in each.verdict.reasons)
    return ", ".join(f"{name}: {' '.join(dict.fromkeys(found))}" for name, found in rules.items())


def _differing(found: Sequence[Difference]) -> Iterator[Text]:
    if not found:
        yield Text("The spec, the model, the machine and the software are the same.")
        return
    yield Text("Differences in spec and environment:", "bold")
    notes = [each for each in found if each.heading == "Notes"]
    others = [each for each in found if each.heading != "Notes"]
    for each in (*others, *notes[:_MOST_NOTES]):
        words = f"{each.name}: {_both_values(each)}"
        yield Text.assemble((f"  {each.heading}  ", "dim"), words)
    if more := len(notes[_MOST_NOTES:]):
        yield Text(f"  {more} more notes are in the results (environment.notes).", "dim")


def _both_values(difference: Difference) -> str:
    if difference.before == difference.after:
        return f"{difference.before} of A and B"
    return " -> ".join(shown_difference(difference.before, difference.after))


def _print_pairs(comparison: Comparison, console: Console) -> None:
    for pair in comparison.pairs:
        console.print()
        print_sentences([_title(pair, comparison)], console)
        rows = [(figure_texts(figure), figure.word) for figure in pair.figures]
        if console.is_terminal:
            _print_fitting(rows, console)
        else:
            _print_plain([row for row, _ in rows], console)
        print_sentences([Text(each) for each in unavailable(pair)], console)
    for which, names in (("A", comparison.only_before), ("B", comparison.only_after)):
        if names:
            console.print()
            words = "; ".join(names)
            print_sentences([Text(f"Only in {which}: {words}.")], console)


def regression(pair: Pair, figure: Compared, margin: float) -> str:
    """Return the message that a figure is worse by more than this fraction."""
    return (
        f"slower: {step_name(pair.before)}, {figure.name} {change(figure)}; at "
        f"most {margin * 100:g}% is allowed."
    )


def _title(pair: Pair, comparison: Comparison) -> Text:
    verdicts = f"A {pair.before.verdict}, B {pair.after.verdict}"
    style = "" if "INVALID" not in verdicts else "red"
    if comparison.is_paired:
        count = f"{pair.before.runs} rounds count"
        verdicts += f", {count if pair.is_valid else 'too few rounds are VALID in both'}"
    return Text.assemble((step_name(pair.before), "bold"), "  ", (verdicts, style))


def shown_difference(before: str, after: str) -> tuple[str, str]:
    """Return two different values, long ones cut to where they differ."""
    if max(len(before), len(after)) <= _LONGEST_VALUE or ABSENT in {before, after}:
        return before, after
    same_begin = _same(before, after)
    same_end = _same(before[same_begin:][::-1], after[same_begin:][::-1])
    begin, end = max(0, same_begin - _CONTEXT), max(0, same_end - _CONTEXT)
    first, second = (_part(text, begin, len(text) - end) for text in (before, after))
    return first, second


def _same(first: str, second: str) -> int:
    """Return how many characters two texts begin with alike."""
    pairs = zip(first, second, strict=False)
    return next(
        (at for at, (one, other) in enumerate(pairs) if one != other), min(len(first), len(second))
    )


def _part(text: str, begin: int, end: int) -> str:
    """Return a part of a text, with dots where something is left out."""
    end = min(end, begin + _LONGEST_VALUE)
    return f"{'...' if begin else ''}{text[begin:end]}{'...' if end < len(text) else ''}"


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
