"""Words of messages that every component writes."""

from collections.abc import Sequence


def as_sentence(text: str) -> str:
    """Return the text with a full stop, if it does not end by itself."""
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."


def short_list(names: Sequence[str], most: int = 5) -> str:
    """Return the first names, and how many more there are."""
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def counted(number: int, noun: str) -> str:
    """Return a number of things: 1 run, 1,200 runs."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
