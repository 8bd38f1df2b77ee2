"""The operator logs the start, each phase and the end of a run."""

from typing import Any

import structlog
from structlog.testing import capture_logs

from inferometer_api.status.run_status import Condition, RunStatus
from inferometer_operator.wiring.run_log import log_changes

_BEGAN, _ENDED = "2026-01-31T12:00:00.000Z", "2026-01-31T12:01:30.500Z"


def _lines(before: RunStatus, after: RunStatus) -> list[dict[str, Any]]:
    with capture_logs() as lines:
        log_changes(structlog.get_logger(), before, after)
    return [{name: value for name, value in each.items() if name != "log_level"} for each in lines]


def _over(kind: Any, reason: str, **fields: Any) -> RunStatus:
    kinds: list[tuple[Any, str]] = [(kind, reason), ("Finished", kind)]
    conditions = [
        Condition(type=each, status="True", reason=why, last_transition_time=_ENDED)
        for each, why in kinds
    ]
    return RunStatus(phase=kind, conditions=conditions, completion_time=_ENDED, **fields)


def test_each_change_is_one_line() -> None:
    """Start, phase and end; no other change is logged."""
    queued = RunStatus(phase="Queued")
    starting = RunStatus(phase="Starting", start_time=_BEGAN)
    measuring = starting.model_copy(update={"phase": "Measuring"})
    complete = _over("Complete", "Measured", start_time=_BEGAN)
    assert _lines(RunStatus(), queued) == [
        {"event": "run_phase", "phase": "Queued", "before": None}
    ]
    assert _lines(queued, starting) == [{"event": "run_started", "phase": "Starting"}]
    assert _lines(measuring, measuring.model_copy(update={"progress_percent": 5})) == []
    end = {"outcome": "Complete", "reason": "", "valid": False, "seconds": 90.5}
    assert _lines(measuring, complete) == [
        {"event": "run_phase", "phase": "Complete", "before": "Measuring"},
        {"event": "run_ended", **end},
    ]
    assert _lines(complete, complete) == []


def test_the_end_of_a_failed_run_has_its_reason() -> None:
    """A run that never began has no duration."""
    failed = _over("Failed", "Cancelled")
    (_, line) = _lines(RunStatus(phase="Queued"), failed)
    assert line["reason"] == "Cancelled"
    assert line["outcome"] == "Failed"
    assert line["seconds"] is None
