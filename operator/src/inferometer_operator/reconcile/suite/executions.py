"""The decision for a suite with a schedule: which execution to create or delete now."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from inferometer_api.suite.anchor import merge_pairs
from inferometer_api.suite.labels import digest
from inferometer_api.suite.schedule import Ticks, ticks
from inferometer_api.suite.spec import SuiteSchedule, SuiteSpec
from inferometer_api.suite.status import SuiteDisplay, SuiteStatus
from inferometer_api.suite.wording import gate_word
from inferometer_api.timestamps import format_time, parse_time
from inferometer_operator.reconcile.suite.draft import SuiteDraft
from inferometer_operator.reconcile.times import seconds_until

_LONGEST_STEM = 30


@dataclass(frozen=True, slots=True)
class SuiteExecution:
    """A suite that a schedule created."""

    name: str
    uid: str
    created: str
    status: SuiteStatus
    is_finished: bool
    is_complete: bool


@dataclass(frozen=True, slots=True)
class ScheduleDecision:
    """What to do for a schedule now, in this order: creation, status, cancellation, deletions."""

    status: SuiteStatus
    create: str = ""
    """Name of the execution to create; empty: none."""
    cancel: tuple[SuiteExecution, ...] = ()
    delete: tuple[SuiteExecution, ...] = ()
    look_again_seconds: float | None = None


def execution_name(suite: str, tick: datetime) -> str:
    """Return the name of the execution for a time: the same for every leader.

    The minutes since 1970 end it, as in the Jobs of a CronJob. A digest distinguishes long names.
    """
    stem = suite
    if len(suite) > _LONGEST_STEM:
        stem = f"{suite[:_LONGEST_STEM].rstrip('-.')}-{digest(suite)}"
    return f"{stem}-{int(tick.timestamp()) // 60}"


def _minutes(execution: str) -> int:
    """Return the time that ends an execution's name, in minutes since 1970; -1 without one."""
    digits = execution.rpartition("-")[2]
    return int(digits) if digits.isascii() and digits.isdigit() else -1


def decide_schedule(
    name: str,
    created: datetime,
    spec: SuiteSpec,
    draft: SuiteDraft,
    executions: Sequence[SuiteExecution],
) -> ScheduleDecision:
    """Return what to do for a suite with a schedule; `created` is when it was created.

    Executions never overlap: a time that comes while one goes on is made up for afterwards, unless
    its deadline is over, and of several only the latest. The name of an execution shows a new
    leader that it exists.
    """
    schedule = spec.schedule
    if schedule is None:
        raise ValueError("a suite without a schedule has no executions")
    now = draft.now
    found = _ticks(schedule, created, draft.status, now)
    going_on = [each for each in executions if not each.is_finished]
    _count_pairs(draft, executions)
    draft.update(
        next_schedule_time=None if found.following is None else format_time(found.following)
    )
    if spec.cancel:
        draft.set("Accepted", "True", "Accepted", "The schedule was accepted.")
        draft.end("Failed", "Cancelled", "spec.cancel is true: no execution is started.")
        return ScheduleDecision(draft.status, cancel=tuple(going_on))
    create = _due_execution(name, found, spec, executions, going_on)
    if found.due is not None and (create or _exists(name, found.due, executions)):
        draft.update(
            last_schedule_time=format_time(found.due), execution=execution_name(name, found.due)
        )
    _show(draft, spec, executions)
    return ScheduleDecision(
        draft.status,
        create=create,
        delete=tuple(_beyond_history(schedule, executions, draft.status)),
        look_again_seconds=seconds_until(now, found.following),
    )


def _ticks(schedule: SuiteSchedule, created: datetime, status: SuiteStatus, now: datetime) -> Ticks:
    last = parse_time(status.last_schedule_time)
    return ticks(schedule, max(created, last) if last is not None else created, now)


def _exists(name: str, due: datetime, executions: Sequence[SuiteExecution]) -> bool:
    return any(each.name == execution_name(name, due) for each in executions)


def _due_execution(
    name: str,
    found: Ticks,
    spec: SuiteSpec,
    executions: Sequence[SuiteExecution],
    going_on: Sequence[SuiteExecution],
) -> str:
    """Return the name of the execution to create now, empty if there is none."""
    if found.due is None or spec.suspend or going_on or _exists(name, found.due, executions):
        return ""
    return execution_name(name, found.due)


def _count_pairs(draft: SuiteDraft, executions: Sequence[SuiteExecution]) -> None:
    """Add the A/A pairs of the execution that ended last, once: none of before that one."""
    counted = _minutes(draft.status.counted_execution or "")
    ended = [each for each in executions if each.is_finished and _minutes(each.name) > counted]
    newest = max(ended, key=lambda each: each.created, default=None)
    if newest is None:
        return
    draft.update(
        left_out="",
        counted_execution=newest.name,
        anchors=merge_pairs(draft.status.anchors, newest.status.anchors),
        gate=newest.status.gate,
        scenarios=newest.status.scenarios,
        cells=newest.status.cells,
    )


def _show(draft: SuiteDraft, spec: SuiteSpec, executions: Sequence[SuiteExecution]) -> None:
    newest = max(executions, key=lambda each: each.created, default=None)
    shown = None if newest is None else newest.status.display
    draft.update(
        phase="Suspended" if spec.suspend else "Scheduled",
        display=SuiteDisplay(
            cells="" if shown is None else shown.cells,
            problems="" if shown is None else shown.problems,
            gate=gate_word(draft.status.gate),
        ),
    )
    draft.set("Accepted", "True", "Accepted", "The schedule was accepted.")
    if spec.suspend:
        draft.set("Finished", "False", "Suspended", "spec.suspend is true: no execution starts.")
    else:
        draft.set(
            "Finished", "False", "Scheduled", "An execution starts at status.nextScheduleTime."
        )


def _beyond_history(
    schedule: SuiteSchedule, executions: Sequence[SuiteExecution], status: SuiteStatus
) -> list[SuiteExecution]:
    """Return the executions to delete: never one that the status does not know yet."""
    found = []
    for complete, limit in (
        (True, schedule.successful_history_limit),
        (False, schedule.failed_history_limit),
    ):
        ended = [each for each in executions if each.is_finished and each.is_complete == complete]
        ended.sort(key=lambda each: each.created, reverse=True)
        found += [
            each
            for each in ended[limit:]
            if each.name not in {status.execution, status.counted_execution}
        ]
    return found
