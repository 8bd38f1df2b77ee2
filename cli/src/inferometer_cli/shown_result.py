"""The result of `inferometer run`, kept and shown."""

import sys
from dataclasses import dataclass
from pathlib import Path

from inferometer_api.results.result import ResultDocument, Verdict
from inferometer_cli.quick_run import field_hint, in_flags
from inferometer_cli.result_store import try_to_keep
from inferometer_cli.terminal import (
    flushed_output,
    output_console,
    print_error,
    print_message,
    print_output,
    print_paths,
)


@dataclass(frozen=True, slots=True)
class Showing:
    """How a result is kept and shown."""

    json: bool
    save: bool
    """Whether it is kept in the database too."""
    has_file: bool
    """Whether the run is a file, whose fields messages may name."""


def keep_and_show(document: ResultDocument, directory: Path, showing: Showing) -> None:
    """Write a result and its report to a directory, print the table or the document, and say where.

    Without scenarios nothing is written.
    """
    from inferometer_cli.result_file import save_result
    from inferometer_cli.tables.result import print_table

    shown, hint = (document, "") if showing.has_file else _without_fields(document)
    try:
        paths = save_result(document, directory) if document.scenarios else None
    finally:
        if showing.json:
            print_output(document.model_dump_json(indent=2, exclude_none=True))
        elif document.scenarios:
            with flushed_output():
                print_table(shown, output_console())
        # The table says it too; do not print it twice on a terminal.
        is_read = document.scenarios and not showing.json and sys.stdout.isatty()
        if document.outcome.state != "Complete" and not is_read:
            print_error(shown.outcome.message)
    if paths is not None:
        stored = try_to_keep(paths[0]) if showing.save else ""
        print_paths(result=paths[0], report=paths[1], stored=stored)
    elif document.outcome.state not in {"Complete", "Refused"}:
        print_message("Nothing was measured, so no result was written.")
    if hint:
        print_message(hint)


def _without_fields(document: ResultDocument) -> tuple[ResultDocument, str]:
    """Return a result whose messages name options instead of fields, and how to set fields."""
    verdicts = [each.verdict for each in document.scenarios]
    messages = [
        document.outcome.message,
        *(found.message for each in verdicts for found in (*each.reasons, *each.cautions)),
    ]
    outcome = document.outcome.model_copy(update={"message": in_flags(document.outcome.message)})
    hint = next(filter(None, map(field_hint, messages)), "")
    scenarios = [
        each.model_copy(update={"verdict": _verdict_in_flags(each.verdict)})
        for each in document.scenarios
    ]
    return document.model_copy(update={"outcome": outcome, "scenarios": scenarios}), hint


def _verdict_in_flags(verdict: Verdict) -> Verdict:
    """Return a verdict whose findings name options instead of fields."""
    reasons, cautions = (
        [each.model_copy(update={"message": in_flags(each.message)}) for each in found]
        for found in (verdict.reasons, verdict.cautions)
    )
    return verdict.model_copy(update={"reasons": reasons, "cautions": cautions})
