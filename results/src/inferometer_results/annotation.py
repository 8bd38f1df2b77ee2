"""Annotations that people add to a result: tags, retractions with a reason, findings."""

from inferometer_api.timestamps import format_time, parse_time
from inferometer_results.history.trend import read_finding
from inferometer_results.store.index_rows import ACCEPT_CHANGE, REJECT_CHANGE, JournalRow

_LONGEST_TAG = 63
_LONGEST_TEXT = 1000


class AnnotationError(ValueError):
    """What is to be added is not allowed; the message is a sentence with what to do."""


def check_annotation(action: str, text: str) -> None:
    """Check an entry of the journal before it is kept. Raises AnnotationError."""
    match action:
        case "tag" | "untag":
            if not text.strip() or len(text) > _LONGEST_TAG or not text.isprintable():
                raise AnnotationError(f"A tag has 1 to {_LONGEST_TAG} printable characters.")
        case "retract" | "restore":
            if action == "retract" and not text.strip():
                raise AnnotationError(
                    "A retraction needs a reason (--reason), which everybody who finds the result "
                    "reads."
                )
            if len(text) > _LONGEST_TEXT or "\0" in text:
                raise AnnotationError(
                    f"A reason has at most {_LONGEST_TEXT} characters, none of them NUL."
                )
        case "accept-change" | "reject-change":
            if len(text) > _LONGEST_TEXT or read_finding(text) is None:
                raise AnnotationError(
                    "A finding is that of interleaved runs: record it by results confirm."
                )
        case _:
            known = f"tag, untag, retract, restore, {ACCEPT_CHANGE}, {REJECT_CHANGE}"
            raise AnnotationError(f"There is no action {action!r}. The actions are {known}.")


def check_entry(entry: JournalRow) -> None:
    """Check an entry that another store wrote. Raises AnnotationError."""
    check_annotation(entry.action, entry.text)
    moment = parse_time(entry.at)
    # Entries are sorted by their times as texts, so every time needs the same form.
    if moment is None or moment.utcoffset() or format_time(moment) != entry.at:
        raise AnnotationError(
            f"The time {entry.at!r} does not have the form 2026-01-31T12:00:00.000Z."
        )
