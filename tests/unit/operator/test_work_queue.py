"""A key is in one pair of hands at a time, and none that was added is lost."""

import asyncio
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from inferometer_operator.wiring.work_queue import WorkQueue
from support.waiting import within_deadline

_KEYS = st.sampled_from("abcd")


class WorkQueueCourse(RuleBasedStateMachine):
    """Adds, takes and ends in any order, next to the simplest model of the same."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.queue = WorkQueue(lambda key: key == "a", lambda: self.now)
        self.wanted: dict[str, float] = {}
        self.in_work: set[str] = set()

    @rule(key=_KEYS, after=st.integers(0, 5))
    def add(self, key: str, after: int) -> None:
        """Add a key: the earliest time counts."""
        self.queue.add(key, after)
        self.wanted[key] = min(self.wanted.get(key, 1e9), self.now + after)

    @rule(key=_KEYS)
    def discard(self, key: str) -> None:
        """Discard a key: it is wanted no longer."""
        self.queue.discard(key)
        self.wanted.pop(key, None)

    @rule(seconds=st.integers(1, 4))
    def pass_time(self, seconds: int) -> None:
        """Let time pass."""
        self.now += seconds

    @rule()
    def take(self) -> None:
        """Take one that is due, never one in work, and the urgent one first."""
        due = {key for key, at in self.wanted.items() if at <= self.now and key not in self.in_work}
        taken = self.queue.take()
        assert taken in due if due else taken is None
        if taken is not None:
            assert taken == "a" or "a" not in due
            del self.wanted[taken]
            self.in_work.add(taken)

    @rule(key=_KEYS)
    def done(self, key: str) -> None:
        """End the work on a key."""
        if key in self.in_work:
            self.queue.done(key)
            self.in_work.discard(key)

    @invariant()
    def nothing_is_lost(self) -> None:
        """As many wait as are wanted."""
        assert len(self.queue) == len(self.wanted)


TestWorkQueueCourse = WorkQueueCourse.TestCase


@given(st.lists(_KEYS, min_size=1, max_size=20))
def test_keys_that_are_due_go_in_the_order_of_their_times(keys: list[str]) -> None:
    """None overtakes another for ever."""
    now = 0.0
    queue = WorkQueue(clock=lambda: now)
    for seconds, key in enumerate(keys):
        queue.add(key, seconds)
    now = 100.0
    taken = []
    while (found := queue.take()) is not None:
        taken.append(found)
    assert taken == list(dict.fromkeys(keys))


def test_a_key_that_is_added_again_and_again_takes_no_memory() -> None:
    """A run that measures for a day is looked at every ten seconds."""
    now = 0.0
    queue = WorkQueue(clock=lambda: now)
    for _ in range(10_000):
        queue.add("a", 86_400.0)
        queue.add("a")
        assert queue.take() == "a"
        queue.done("a")
        now += 1.0
    assert len(vars(queue)["_later"]) < 100


def test_whoever_waits_gets_a_key_when_it_is_due() -> None:
    """At once if it is added so, and an earlier time counts for one who waits for a later one."""

    async def got(add: Callable[[WorkQueue], None]) -> str:
        queue = WorkQueue()
        queue.add("later", 3600.0)
        waiting = asyncio.create_task(queue.get())
        await asyncio.sleep(0)
        add(queue)
        async with within_deadline("a key that is due"):
            return await waiting

    assert asyncio.run(got(lambda queue: queue.add("now"))) == "now"
    assert asyncio.run(got(lambda queue: queue.add("later", 0.001))) == "later"
