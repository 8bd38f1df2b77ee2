"""The operator's log of a run: its start, each phase, and its end."""

import structlog

from inferometer_api.status.run_status import RunStatus
from inferometer_api.timestamps import parse_time
from inferometer_operator.reconcile.conditions import find_condition, is_true


def log_changes(
    log: structlog.typing.FilteringBoundLogger, before: RunStatus, after: RunStatus
) -> None:
    """Log what a written status changed: one line each."""
    if before.start_time is None and after.start_time is not None:
        log.info("run_started", phase=after.phase)
    elif before.phase != after.phase:
        log.info("run_phase", phase=after.phase, before=before.phase)
    if is_true(after, "Finished") and not is_true(before, "Finished"):
        log.info("run_ended", **_end(after))


def _end(status: RunStatus) -> dict[str, object]:
    failed, valid = (find_condition(status, "Failed"), find_condition(status, "Valid"))
    began, ended = parse_time(status.start_time), parse_time(status.completion_time)
    return {
        "outcome": "Complete" if is_true(status, "Complete") else "Failed",
        "reason": failed.reason if failed is not None and failed.status == "True" else "",
        "valid": valid is not None and valid.status == "True",
        "seconds": round((ended - began).total_seconds(), 1) if began and ended else None,
    }
