"""How are times of the API read and written?"""

from datetime import UTC, datetime, timedelta


def format_time(moment: datetime) -> str:
    """Return a time as the API writes it: 2026-01-31T12:00:00Z."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_time(text: object) -> datetime | None:
    """Return a time of the API, None where there is none or it cannot be read."""
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def add_seconds(moment: datetime, seconds: float) -> datetime:
    """Return the time some seconds later; the last one there is, where that is past it."""
    try:
        return moment + timedelta(seconds=seconds)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC)


def seconds_until(now: datetime, *moments: datetime | None) -> float | None:
    """Return how long it is until the first of the moments that are still to come.

    At least 0.1 s, so that nobody spins; None where none is to come.
    """
    left = [(moment - now).total_seconds() for moment in moments if moment is not None]
    coming = [seconds for seconds in left if seconds > 0]
    return max(0.1, min(coming)) if coming else None
