"""The times of a suite's schedule, on a fake clock."""

from datetime import UTC, datetime
from typing import Any

import pytest

from inferometer_api.suite.schedule import ScheduleError, check_schedule, ticks
from inferometer_api.suite.spec import SuiteSchedule


def a_schedule(cron: str, **fields: Any) -> SuiteSchedule:
    """Return a schedule in Zurich, where clocks change on the last Sundays of March and October."""
    fields = {"timeZone": "Europe/Zurich", **fields}
    return SuiteSchedule.model_validate({"cron": cron, **fields}, by_alias=True, by_name=False)


def at(text: str) -> datetime:
    """Return a time in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("cron", "since", "now", "due", "following"),
    [
        ("0 3 * * *", "2026-06-01T00:00", "2026-06-01T00:59:59.999", None, "2026-06-01T01:00"),
        (
            "0 3 * * *",
            "2026-06-01T00:00",
            "2026-06-01T01:00",
            "2026-06-01T01:00",
            "2026-06-02T01:00",
        ),
        ("0 3 * * *", "2026-06-01T01:00", "2026-06-01T01:00:01", None, "2026-06-02T01:00"),
        # In the hour that is repeated, the time has come once.
        (
            "30 2 * * *",
            "2026-10-25T00:30",
            "2026-10-25T01:03:55",
            None,
            "2026-10-26T01:30",
        ),
        # Four nights were missed: only the last one is made up for.
        (
            "0 3 * * *",
            "2026-06-01T01:00",
            "2026-06-05T09:00",
            "2026-06-05T01:00",
            "2026-06-06T01:00",
        ),
        # More than 100 missed times, at which a CronJob gives up.
        (
            "* * * * *",
            "2026-06-01T00:00",
            "2026-06-03T00:00:30",
            "2026-06-03T00:00",
            "2026-06-03T00:01",
        ),
        # 02:30 does not exist on 29 March: at once after the gap, 03:00 summer time.
        ("30 2 * * *", "2026-03-28T02:00", "2026-03-29T00:59", None, "2026-03-29T01:00"),
        (
            "30 2 * * *",
            "2026-03-28T02:00",
            "2026-03-29T01:05",
            "2026-03-29T01:00",
            "2026-03-30T00:30",
        ),
        # 02:30 comes twice on 25 October: the first, in summer time, and only that.
        (
            "30 2 * * *",
            "2026-10-24T12:00",
            "2026-10-25T00:31",
            "2026-10-25T00:30",
            "2026-10-26T01:30",
        ),
        ("30 2 * * *", "2026-10-25T00:30", "2026-10-25T01:31", None, "2026-10-26T01:30"),
        # Every hour is every hour, also where the clock shows it twice.
        (
            "0 * * * *",
            "2026-10-25T00:00",
            "2026-10-25T01:00",
            "2026-10-25T01:00",
            "2026-10-25T02:00",
        ),
    ],
)
def test_times_follow_the_zone_through_daylight_saving_and_missed_times(
    cron: str, since: str, now: str, due: str | None, following: str
) -> None:
    """The latest time since the last execution is due; the next one follows."""
    found = ticks(a_schedule(cron), at(since), at(now))
    assert found.due == (None if due is None else at(due))
    assert found.following == at(following)


def test_a_missed_time_is_made_up_for_within_its_deadline() -> None:
    """Later, it is left out."""
    schedule = a_schedule("0 3 * * *", startingDeadlineSeconds=600)
    since = at("2026-06-01T00:00")
    assert ticks(schedule, since, at("2026-06-01T01:10")).due == at("2026-06-01T01:00")
    assert ticks(schedule, since, at("2026-06-01T01:10:01")).due is None


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"cron": "61 * * * *"}, "spec.schedule.cron: '61 * * * *' is no time of cron"),
        (
            {"cron": "0 3 * * *", "timeZone": "Europe/Zuerich"},
            "there is no time zone Europe/Zuerich",
        ),
        ({"cron": "0 3 * * *", "timeZone": "localtime"}, "there is no time zone localtime"),
    ],
)
def test_a_schedule_without_times_is_refused(fields: dict[str, str], expected: str) -> None:
    """The message has the field, what was found and what would be right."""
    with pytest.raises(ScheduleError, match=expected.replace("*", r"\*")):
        check_schedule(SuiteSchedule.model_validate(fields, by_alias=True, by_name=False))
