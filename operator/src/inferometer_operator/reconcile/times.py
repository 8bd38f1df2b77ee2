"""Arithmetic on times."""

from datetime import UTC, datetime, timedelta


def add_seconds(moment: datetime, seconds: float) -> datetime:
    """Return the time some seconds later, at most the last representable time."""
    try:
        return moment + timedelta(seconds=seconds)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC)


def seconds_until(now: datetime, *moments: datetime | None) -> float | None:
    """Return the seconds until the first of the future moments, or None if there is none.

    At least 0.1 s, to prevent a busy loop.
    """
    left = [(moment - now).total_seconds() for moment in moments if moment is not None]
    coming = [seconds for seconds in left if seconds > 0]
    return max(0.1, min(coming)) if coming else None
