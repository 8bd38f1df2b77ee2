"""Events of a run for `kubectl describe`.

They follow from changes of the status, so that each is created once, and few, because every event
is a write: what a condition says at the same moment is no event of its own.
"""

from collections.abc import Iterator

from inferometer_api.status.run_status import Condition, ConditionType, RunStatus, ScenarioSummary
from inferometer_operator.reconcile.conditions import find_condition, is_true
from inferometer_operator.reconcile.plan import Event
from inferometer_operator.reconcile.result_state import is_awaited

MAX_SCENARIO_EVENTS = 6
"""Runs with more scenarios get no event for each; the end of a run says how its only one went."""
_LONGEST = 1000
_BEGINS: tuple[tuple[ConditionType, str, str], ...] = (
    ("ServerReady", "ServerReady", "The server is ready."),
    ("Measuring", "MeasuringStarted", "The load generator sends its first queries."),
)
_WAITS: tuple[ConditionType, ...] = ("ServerReady", "Measuring", "Finished", "Stored")


def run_events(before: RunStatus, after: RunStatus, scenarios: int) -> tuple[Event, ...]:
    """Return the events for a change of the status of a run of so many scenarios."""
    return tuple(_events(before, after, scenarios))


def _events(before: RunStatus, after: RunStatus, scenarios: int) -> Iterator[Event]:
    if before.waiting_for_nodes is None and after.waiting_for_nodes is not None:
        yield _first_wait(after)
    yield from _waits(before, after)
    for kind, reason, words in _BEGINS:
        if is_true(after, kind) and not is_true(before, kind):
            yield Event("Normal", reason, words)
    if 1 < scenarios <= MAX_SCENARIO_EVENTS:
        for each in after.scenarios[len(before.scenarios) :]:
            yield _scenario(each)
    yield from _ends(before, after)


def _first_wait(after: RunStatus) -> Event:
    """Return the one event of a run that waits for nodes, however often it is tried again."""
    accepted = find_condition(after, "Accepted")
    message = "" if accepted is None else accepted.message
    return Event("Warning", "WaitingForNodes", message[:_LONGEST])


def _waits(before: RunStatus, after: RunStatus) -> Iterator[Event]:
    """Yield each new reason why a run waits."""
    for kind in _WAITS:
        now, then = find_condition(after, kind), find_condition(before, kind)
        if now is None or now.status == "True" or is_true(after, "Failed"):
            continue
        changed = then is None or then.reason != now.reason
        if changed and now.reason not in _QUIET:
            yield Event("Warning", now.reason, now.message[:_LONGEST])


_QUIET = {
    # What follows is WaitingForNodes, if it lasts.
    "Unschedulable",
    "GpuUnavailable",
    "ServerStarting",
    "External",
    "CleanedUp",
    "LoadStarting",
    "Preparing",
    "Ended",
}


def _scenario(each: ScenarioSummary) -> Event:
    why = f" {' '.join(each.reasons)}"[:_LONGEST] if each.reasons else ""
    words = f"{each.name} is measured: {each.verdict}.{why}"
    return Event("Normal" if each.verdict == "VALID" else "Warning", "ScenarioMeasured", words)


def _ends(before: RunStatus, after: RunStatus) -> Iterator[Event]:
    failed = find_condition(after, "Failed")
    if failed is not None and is_true(after, "Failed") and not is_true(before, "Failed"):
        yield Event("Warning", failed.reason, failed.message[:_LONGEST])
    complete = find_condition(after, "Complete")
    if complete is not None and _is_judged(after) and not _is_judged(before):
        yield _complete(after, complete)


def _is_judged(status: RunStatus) -> bool:
    """Return whether a run is complete, and its result is awaited no more."""
    return is_true(status, "Complete") and not is_awaited(status)


def _complete(after: RunStatus, found: Condition) -> Event:
    """Return the end of a complete run, with its verdict, or with what became of its result."""
    words = found.message
    if valid := find_condition(after, "Valid"):
        words = f"{words} {valid.message}"
    is_normal = found.reason == "Measured" and is_true(after, "Valid")
    reason = "Complete" if found.reason == "Measured" else found.reason
    return Event("Normal" if is_normal else "Warning", reason, words[:_LONGEST])
