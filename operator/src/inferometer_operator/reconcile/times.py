"""How are times of the API read and written?"""

from datetime import UTC, datetime, timedelta


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
