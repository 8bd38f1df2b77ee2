"""Small changes of a run's status wait, so that it costs few writes."""

from typing import Any

import pytest

from inferometer_api.status.run_status import Condition, Display, RunStatus, ScenarioSummary
from inferometer_operator.reconcile.progress import may_wait_seconds
from inferometer_operator.wiring.status_memory import StatusMemory

_TIME = "2026-01-31T12:00:00Z"
_READY = Condition(
    type="ServerReady",
    status="False",
    last_transition_time=_TIME,
    reason="ServerStarting",
    message="The image is pulled.",
)
_COMPLETE = Condition(
    type="Complete", status="True", last_transition_time=_TIME, reason="Measured", message=""
)
_STORED = RunStatus(
    phase="Measuring",
    start_time=_TIME,
    progress_percent=20,
    display=Display(qps="10.0"),
    conditions=[_READY],
)
_REWORDED = _READY.model_copy(update={"message": "The container starts."})
_SCENARIO = ScenarioSummary(name="latency", verdict="VALID")
_NOT_BEGUN = _STORED.model_copy(update={"start_time": None})
_WITHOUT_PROGRESS = _STORED.model_copy(update={"progress_percent": None, "display": None})


@pytest.mark.parametrize(
    ("change", "seconds"),
    [
        ({"progress_percent": 44, "display": Display(qps="11.0")}, 240.0),
        ({"display": Display(qps="11.0")}, 240.0),
        ({"conditions": [_REWORDED]}, 30.0),
        ({"conditions": [_REWORDED], "progress_percent": 44}, 30.0),
        ({"progress_percent": 45}, 0.0),
        ({"conditions": [_REWORDED], "progress_percent": 45}, 0.0),
        ({"scenarios": [_SCENARIO]}, 0.0),
        ({"nodes": ["a"]}, 0.0),
        ({"conditions": [_READY.model_copy(update={"reason": "ImageNotPulled"})]}, 0.0),
        ({"conditions": [_READY.model_copy(update={"status": "True"})]}, 0.0),
        ({"conditions": [_REWORDED, _COMPLETE]}, 0.0),
        ({}, 0.0),
    ],
)
def test_only_words_and_a_little_progress_wait(change: dict[str, Any], seconds: float) -> None:
    """Whatever else changes is written at once, and takes them along."""
    assert may_wait_seconds(_STORED.model_copy(update=change), _STORED) == seconds


@pytest.mark.parametrize(
    ("stored", "change"),
    [
        (_NOT_BEGUN, {"conditions": [_REWORDED]}),
        (_WITHOUT_PROGRESS, {"progress_percent": 0, "display": Display(qps="1.0")}),
        (
            _STORED.model_copy(update={"conditions": [_READY, _COMPLETE]}),
            {"conditions": [_REWORDED, _COMPLETE]},
        ),
    ],
    ids=["a queued run", "the first progress", "a run that has ended"],
)
def test_what_is_awaited_is_written_at_once(stored: RunStatus, change: dict[str, Any]) -> None:
    """The words of a queued or ended run, and the first progress."""
    assert may_wait_seconds(stored.model_copy(update=change), stored) == 0.0


def test_a_change_that_waits_is_looked_at_again_when_it_is_due() -> None:
    """Also if nothing else happens to the run."""
    now = [0.0]
    memory = StatusMemory({"metadata": {}}, clock=lambda: now[0])
    assert memory.is_due_after(240.0)
    memory.note_write()
    now[0] = 10.0
    assert not memory.is_due_after(30.0)
    assert memory.next_seconds == 20.0
    now[0] = 30.0
    assert memory.is_due_after(30.0)
    assert memory.next_seconds is None
