"""Timestamps: how every document writes and reads a point in time."""

from datetime import UTC, datetime


def format_time(moment: datetime) -> str:
    """Return a time in RFC 3339, in UTC with milliseconds: 2026-01-31T12:00:00.000Z."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def parse_time(text: object) -> datetime | None:
    """Return the point in time that an RFC 3339 text names, None for anything else.

    A time without a zone is in UTC.
    """
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
