"""A result as Markdown, for the summary of a CI job or a comment on a change."""

from collections.abc import Iterator, Sequence

from inferometer_api.results.result import ResultDocument
from inferometer_results.export.table import figure_texts, headings, model_figure_texts
from inferometer_results.findings import LocatedFinding, cautions_of, entry_name, reasons_of
from inferometer_results.headline import headline, model_of
from inferometer_results.wording.mix import model_with_share
from inferometer_results.wording.search import found_by, steps_shown

_SPECIAL = str.maketrans({each: f"\\{each}" for each in "\\`*_[]<>|#~"})


def markdown(document: ResultDocument) -> str:
    """Return the verdict, a table of all steps, and every finding."""
    return "\n".join(_lines(document)) + "\n"


def _lines(document: ResultDocument) -> Iterator[str]:
    head = headline(document)
    yield f"### {_text(document.run.name)}: {_text(head.word)}"
    yield ""
    yield f"{_text(head.sentence)} Model: {_text(model_of(document))}."
    if document.outcome.message and document.outcome.state != "Complete":
        yield ""
        yield _text(document.outcome.message)
    rows = list(_rows(document))
    if rows:
        yield ""
        yield _row(["scenario", "verdict", *headings()])
        yield "|---|---|" + "---:|" * len(headings())
        yield from rows
    found = [
        f"- {_text(f'{entry_name(each)}: {text}')}"
        for each in document.scenarios
        for text in found_by(each)
    ]
    found += [_finding("INVALID", reason) for reason in reasons_of(document)]
    found += [_finding("caution", caution) for caution in cautions_of(document)]
    if found:
        yield ""
        yield from found


def _rows(document: ResultDocument) -> Iterator[str]:
    for result in document.scenarios:
        for step in steps_shown(result):
            name = ", ".join(part for part in (entry_name(result), step.label) if part)
            yield _row([_text(name), result.verdict.state, *map(_text, figure_texts(step))])
            for each in step.models:
                part = _text(f"{name}, {model_with_share(each)}")
                yield _row([part, "", *map(_text, model_figure_texts(each))])


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _finding(word: str, located: LocatedFinding) -> str:
    where = ", ".join(place for _, place in located.places)
    finding = located.finding
    return f"- **{word}** {_text(where)}: {_text(finding.message)} ({finding.rule})"


def _text(text: str) -> str:
    """Return a text on one line without control characters or Markdown's special ones."""
    words = " ".join(text.split())
    printable = (each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in words)
    return "".join(printable).translate(_SPECIAL)
