"""An error at one key is tried again in its time, and ends nothing else."""

import asyncio
from collections.abc import Sequence

import pytest

from inferometer_operator.cluster.errors import ApiError, ApiUnreachableError
from inferometer_operator.wiring.reconcile_loop import keep_reconciling
from inferometer_operator.wiring.work_queue import WorkQueue


class _Course:
    """A queue on a clock of its own, and what reconciling a key does."""

    def __init__(self, outcomes: dict[str, Exception | float | None]) -> None:
        self.now = 0.0
        self.queue = WorkQueue(clock=lambda: self.now)
        self.outcomes = outcomes
        self.reconciled: list[str] = []
        for key in outcomes:
            self.queue.add(key)

    async def reconcile(self, key: str) -> float | None:
        """Do what was planned for a key."""
        self.reconciled.append(key)
        outcome = self.outcomes[key]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def work(self, *times: float) -> None:
        """Work on all that is due at each of some times."""
        asyncio.run(self._work(times))

    async def _work(self, times: Sequence[float]) -> None:
        for self.now in times:
            await self._work_now()

    async def _work_now(self) -> None:
        async with asyncio.TaskGroup() as group:
            loop = group.create_task(
                keep_reconciling(self.queue, self.reconcile, tasks=2, failed_event="test_failed")
            )
            for _ in range(50):
                await asyncio.sleep(0)
            loop.cancel()


_PAUSES = [
    (ApiError(409, "Conflict", "changed"), 0.5),
    (ApiError(500, "InternalError", "etcd"), 10.0),
    (ApiUnreachableError("no route"), 10.0),
    (KeyError("a mistake of ours"), 60.0),
    (3.0, 3.0),
]


@pytest.mark.parametrize(("outcome", "again_seconds"), _PAUSES)
def test_a_key_is_not_worked_on_before_the_pause_of_its_outcome(
    outcome: Exception | float, again_seconds: float
) -> None:
    """The other key is worked on all the same."""
    course = _Course({"a": outcome, "b": None})
    course.work(0.0, again_seconds - 0.1)
    assert sorted(course.reconciled) == ["a", "b"]


@pytest.mark.parametrize(("outcome", "again_seconds"), _PAUSES)
def test_a_key_is_worked_on_again_after_the_pause(
    outcome: Exception | float, again_seconds: float
) -> None:
    """A conflict soon, a refusal later, a mistake of ours last; what succeeded as it says."""
    course = _Course({"a": outcome, "b": None})
    course.work(0.0, again_seconds)
    assert sorted(course.reconciled) == ["a", "a", "b"]


@pytest.mark.parametrize("outcome", [None, ApiError(404, "NotFound", "gone")])
def test_a_key_that_is_done_or_gone_waits_for_an_event(outcome: Exception | None) -> None:
    """It is not worked on again by itself."""
    course = _Course({"a": outcome})
    course.work(0.0, 1e6)
    assert course.reconciled == ["a"]
    assert len(course.queue) == 0
