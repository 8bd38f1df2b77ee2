"""Times of a suite's schedule, as cron understands them."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from inferometer_api.suite.spec import SuiteSchedule

_NO_PLACES = frozenset({"Factory", "localtime", "posixrules"})
"""Names that the time zone database has, and that mean another zone on another machine, or none."""


class ScheduleError(ValueError):
    """A schedule has no times; the message names the field and what is wrong."""


@dataclass(frozen=True, slots=True)
class Ticks:
    """The times of a schedule around now."""

    due: datetime | None
    """The latest time that has come since the last execution and may still start."""
    following: datetime | None
    """The first time after now; None if there is none in the next 50 years."""


def check_schedule(schedule: SuiteSchedule) -> None:
    """Raise ScheduleError if a schedule has no times."""
    _times(schedule, datetime(2026, 1, 1, tzinfo=UTC))


def ticks(schedule: SuiteSchedule, since: datetime, now: datetime) -> Ticks:
    """Return the times of a schedule around `now`.

    `since` is the time of the last execution, or when the suite was created. Of several missed
    times only the latest is due. In the hour that daylight saving leaves out, a fixed time comes at
    once after it; in the hour that it repeats, it comes once (Debian's cron).
    """
    # In an hour that is repeated, the first one may be the hour that has passed.
    later = (each.astimezone(UTC) for each in _times(schedule, now))
    following = next((each for each in later if each > now), None)
    # Backwards it begins before the start: a second later, so that this very second counts.
    start = now.replace(microsecond=0) + timedelta(seconds=1)
    latest = next(_times(schedule, start, backwards=True), None)
    due = latest if latest is not None and latest > since else None
    deadline = schedule.starting_deadline_seconds
    if due is not None and deadline is not None and (now - due).total_seconds() > deadline:
        due = None
    return Ticks(None if due is None else due.astimezone(UTC), following)


def _times(schedule: SuiteSchedule, start: datetime, *, backwards: bool = False) -> CronSim:
    try:
        zone = ZoneInfo("" if schedule.time_zone in _NO_PLACES else schedule.time_zone)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ScheduleError(
            f"spec.schedule.timeZone: there is no time zone {schedule.time_zone}; write it as "
            "Europe/Zurich or Etc/UTC."
        ) from error
    try:
        return CronSim(schedule.cron, start.astimezone(zone), reverse=backwards)
    except CronSimError as error:
        raise ScheduleError(
            f"spec.schedule.cron: {schedule.cron!r} is no time of cron ({error}); its five fields "
            'are minute, hour, day of month, month and day of week: "0 3 * * *".'
        ) from error
