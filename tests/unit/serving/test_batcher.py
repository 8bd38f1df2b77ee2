"""Batches are formed as configured and lose no request, in virtual time."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from inferometer_serving.batching.batcher import Batcher

MAX_SAMPLES = 8
MAX_DELAY_NS = 100


@dataclass(frozen=True, eq=False)
class Request:
    """One request that waits."""

    key: str
    samples: int
    since_ns: int


class Batching(RuleBasedStateMachine):
    """A batcher and a plain list of what it must hold, in the order of arrival."""

    def __init__(self) -> None:
        super().__init__()
        self.batcher: Batcher[Request] = Batcher(MAX_SAMPLES, MAX_DELAY_NS)
        self.waiting: list[Request] = []
        self.now_ns = 0

    def first_ready(self) -> Request | None:
        """Return the oldest request whose group is full or that has waited long enough."""
        for request in self.waiting:
            total = sum(each.samples for each in self.waiting if each.key == request.key)
            if total >= MAX_SAMPLES or request.since_ns + MAX_DELAY_NS <= self.now_ns:
                return request
        return None

    @rule(key=st.sampled_from("ab"), samples=st.integers(1, MAX_SAMPLES))
    def put(self, key: str, samples: int) -> None:
        """Let a request come: who sleeps is woken where it can go earlier than what waited."""
        request = Request(key, samples, self.now_ns)
        before = self.batcher.due_ns()
        tells = self.batcher.put(request, key, samples, self.now_ns)
        self.waiting.append(request)
        after = self.batcher.due_ns()
        assert after is not None
        if before is None or after < before:
            assert tells

    @rule(passed_ns=st.integers(1, 150))
    def wait(self, passed_ns: int) -> None:
        """Let time go by."""
        self.now_ns += passed_ns

    @rule()
    def take(self) -> None:
        """Free an instance: it gets the longest prefix that fits of the first ready group."""
        first = self.first_ready()
        batch = self.batcher.take(self.now_ns)
        if first is None:
            assert batch == []
            return
        group = [each for each in self.waiting if each.key == first.key]
        assert batch == group[: len(batch)]
        assert batch[0] is first
        total = sum(each.samples for each in batch)
        assert total <= MAX_SAMPLES
        left = group[len(batch) :]
        assert not left or total + left[0].samples > MAX_SAMPLES
        self.waiting = [each for each in self.waiting if each not in batch]

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        """Let a client leave: its request is gone, once."""
        gone = data.draw(st.sampled_from(self.waiting))
        assert self.batcher.drop(gone)
        assert not self.batcher.drop(gone)
        self.waiting.remove(gone)

    @invariant()
    def tells_when_it_is_due(self) -> None:
        """Compare what it says of itself with the plain list."""
        assert len(self.batcher) == len(self.waiting)
        due_ns = self.batcher.due_ns()
        assert (due_ns is None) == (not self.waiting)
        if due_ns is not None:
            assert (due_ns <= self.now_ns) == (self.first_ready() is not None)


TestBatching = Batching.TestCase


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=30), st.integers(0, 500))
def test_with_a_free_instance_none_waits_longer_than_the_delay(
    gaps_ns: list[int], delay_ns: int
) -> None:
    """An instance that comes whenever a batch is due finds all requests, each in time."""
    batcher: Batcher[int] = Batcher(4, delay_ns)
    now_ns, waited = 0, {}
    arrivals = [sum(gaps_ns[: count + 1]) for count in range(len(gaps_ns))]

    def run_until(end_ns: float) -> None:
        while (due_ns := batcher.due_ns()) is not None and due_ns <= end_ns:
            for number in batcher.take(max(due_ns, now_ns)):
                waited[number] = max(due_ns, now_ns) - arrivals[number]

    for number, arrival_ns in enumerate(arrivals):
        run_until(arrival_ns - 1)
        now_ns = arrival_ns
        batcher.put(number, "all", 1, arrival_ns)
    run_until(float("inf"))
    assert sorted(waited) == list(range(len(gaps_ns)))
    assert max(waited.values()) <= delay_ns


def test_single_requests_go_in_order_of_arrival() -> None:
    """Where nothing is joined, requests of any size go first come first served, at once."""
    batcher: Batcher[str] = Batcher(1, 0)
    for number, key in enumerate("abab"):
        assert batcher.put(f"{key}{number}", key, number, number)
    assert [batcher.take(4) for _ in range(5)] == [["a0"], ["b1"], ["a2"], ["b3"], []]


def test_requests_without_samples_do_not_join_without_end() -> None:
    """A request of no sample counts as one."""
    batcher: Batcher[int] = Batcher(2, 1000)
    for number in range(3):
        batcher.put(number, "all", 0, 0)
    assert batcher.take(0) == [0, 1]
