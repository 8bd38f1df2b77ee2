"""The executions of a schedule: one for each time under every leader, and never two at once."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from inferometer_api.suite.status import AnchorPairs, SuiteStatus
from inferometer_api.timestamps import format_time
from inferometer_operator.reconcile.suite.draft import SuiteDraft, is_true
from inferometer_operator.reconcile.suite.executions import (
    ScheduleDecision,
    SuiteExecution,
    decide_schedule,
    execution_name,
)
from support.suites import a_suite, parsed

CREATED = datetime(2026, 6, 1, 0, 0, 30, tzinfo=UTC)
NIGHT = datetime(2026, 6, 1, 3, tzinfo=UTC)


def decided(
    now: datetime,
    status: SuiteStatus,
    executions: list[SuiteExecution],
    schedule: dict[str, Any] | None = None,
    **spec: Any,
) -> ScheduleDecision:
    """Return the decision for a suite that runs at 03:00 UTC."""
    suite = parsed(a_suite(schedule={"cron": "0 3 * * *", **(schedule or {})}, **spec))
    draft = SuiteDraft(status, now, 1)
    return decide_schedule("nightly", CREATED, suite.spec, draft, executions)


def an_execution(tick: datetime, *, finished: bool = True, complete: bool = True) -> SuiteExecution:
    """Return the execution of a time."""
    one, other = (execution_name(f"{'long-' * 10}{end}", tick) for end in "ab")
    assert one != other
    assert len(one) <= 63
    name = execution_name("nightly", tick)
    pairs = AnchorPairs(node_class="m7", ratios_parts_per_million=[1_000_001])
    status = SuiteStatus(anchors=[pairs])
    return SuiteExecution(name, f"uid-{name}", format_time(tick), status, finished, complete)


def test_a_time_that_comes_starts_one_execution() -> None:
    """Before it, nothing; after it, the same decision finds that it exists."""
    before = decided(NIGHT - timedelta(seconds=1), SuiteStatus(), [])
    assert (before.create, before.look_again_seconds) == ("", 1.0)
    assert before.status.next_schedule_time == format_time(NIGHT)
    there = decided(NIGHT, before.status, [])
    assert there.create == execution_name("nightly", NIGHT)
    assert there.status.last_schedule_time == format_time(NIGHT)
    running = [an_execution(NIGHT, finished=False)]
    assert decided(NIGHT + timedelta(seconds=1), there.status, running).create == ""


def test_a_leader_that_dies_before_it_writes_leaves_no_second_execution() -> None:
    """The name of the execution shows the next one that the time was served."""
    status = SuiteStatus()
    running = [an_execution(NIGHT, finished=False)]
    again = decided(NIGHT + timedelta(seconds=9), status, running)
    assert again.create == ""
    assert again.status.last_schedule_time == format_time(NIGHT)
    over = [replace(running[0], is_finished=True)]
    assert decided(NIGHT + timedelta(hours=1), again.status, over).create == ""
    # It was over before any leader wrote of it.
    late = decided(NIGHT + timedelta(hours=1), status, over)
    assert (late.create, late.status.execution) == ("", over[0].name)


def test_executions_never_overlap_and_the_latest_missed_time_is_made_up_for() -> None:
    """An execution of three days is followed by one, for the third night."""
    status = decided(NIGHT, SuiteStatus(), []).status
    third = NIGHT + timedelta(days=3)
    running = [an_execution(NIGHT, finished=False)]
    assert decided(third + timedelta(hours=2), status, running).create == ""
    over = [an_execution(NIGHT)]
    made = decided(third + timedelta(hours=2), status, over)
    assert made.create == execution_name("nightly", third)
    late = {"startingDeadlineSeconds": 3600}
    assert decided(third + timedelta(hours=2), status, over, late).create == ""


def test_a_suspended_schedule_starts_nothing_and_a_cancelled_one_ends() -> None:
    """A cancelled one cancels the execution that goes on."""
    suspended = decided(NIGHT, SuiteStatus(), [], suspend=True)
    assert (suspended.create, suspended.status.phase) == ("", "Suspended")
    running = an_execution(NIGHT, finished=False)
    cancelled = decided(NIGHT, SuiteStatus(), [running], cancel=True)
    assert cancelled.cancel == (running,)
    assert is_true(cancelled.status, "Finished")


def test_history_is_bounded_and_its_pairs_are_kept() -> None:
    """Complete and failed executions have limits of their own; pairs are added once."""
    nights = [NIGHT + timedelta(days=day) for day in range(6)]
    ended = [an_execution(night, complete=index % 2 == 0) for index, night in enumerate(nights)]
    status = SuiteStatus(last_schedule_time=format_time(nights[-1]))
    limits = {"successfulHistoryLimit": 2, "failedHistoryLimit": 1}
    found = decided(nights[-1] + timedelta(hours=1), status, ended, limits)
    assert [each.created for each in found.delete] == [
        ended[0].created,
        ended[3].created,
        ended[1].created,
    ]
    (pairs,) = found.status.anchors
    assert pairs.ratios_parts_per_million == [1_000_001]
    again = decided(nights[-1] + timedelta(hours=2), found.status, ended, limits)
    assert again.status.anchors == found.status.anchors


def test_pairs_are_added_once_though_the_newest_execution_is_deleted() -> None:
    """The one before it was counted before; the gate that is shown stays."""
    ended = [an_execution(NIGHT + timedelta(days=day)) for day in range(3)]
    status = SuiteStatus(last_schedule_time=ended[-1].created)
    for night in ended:
        status = decided(NIGHT + timedelta(days=3, hours=-1), status, [night]).status
    (pairs,) = status.anchors
    assert len(pairs.ratios_parts_per_million) == 3
    again = decided(NIGHT + timedelta(days=3, hours=-1), status, ended[:2]).status
    assert again.anchors == status.anchors
    assert again.counted_execution == ended[-1].name


def test_an_execution_of_another_name_adds_no_pairs() -> None:
    """Its name has no time, by which it could be counted once."""
    foreign = replace(an_execution(NIGHT), name="by-hand")
    assert decided(NIGHT, SuiteStatus(), [foreign]).status.anchors == []


def test_the_newest_pairs_come_last() -> None:
    """The oldest are dropped first, so that the history is that of the last executions."""
    old = AnchorPairs(node_class="m7", ratios_parts_per_million=[999_000])
    found = decided(NIGHT + timedelta(hours=1), SuiteStatus(anchors=[old]), [an_execution(NIGHT)])
    (pairs,) = found.status.anchors
    assert pairs.ratios_parts_per_million == [999_000, 1_000_001]


def test_a_condition_has_the_time_of_its_last_change() -> None:
    """The same value with another reason keeps the time; another value has a new one."""
    draft = SuiteDraft(SuiteStatus(), NIGHT, 1)
    draft.set("Accepted", "True", "Accepted", "The first time.")
    hour_later = NIGHT + timedelta(hours=1)
    later = SuiteDraft(draft.status, hour_later, 1)
    later.set("Accepted", "True", "Accepted", "The second time.")
    assert later.status.conditions[0].last_transition_time == format_time(NIGHT)
    later.set("Accepted", "False", "Accepted", "The third time.")
    assert later.status.conditions[0].last_transition_time == format_time(hour_later)
