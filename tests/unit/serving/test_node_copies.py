"""The copies of the node benchmark: what they copy, and in whose loop."""

import mmap
import sys
from collections.abc import Callable

import numpy as np
import pytest

from inferometer_serving.node import host_memory, samples


@pytest.mark.parametrize("size", [1, 4096, 4097, 1 << 20])
def test_copies_are_repeated_outside_the_interpreter(size: int) -> None:
    """A thousand copies take as many calls as one, copy every byte, and nothing past the end."""
    origin = np.random.default_rng(size).integers(0, 256, size + 2, np.uint8)
    destination = np.zeros(size + 2, np.uint8)
    calls = []
    for times in (1, 1_000):
        found: list[object] = []
        sys.setprofile(lambda _, *what, found=found: found.append(what))
        try:
            host_memory.copy_repeatedly(destination[1:-1], origin[1:-1], times)
        finally:
            sys.setprofile(None)
        calls.append(len(found))
    assert calls[0] == calls[1] > 0
    np.testing.assert_array_equal(destination[1:-1], origin[1:-1])
    assert destination[0] == destination[-1] == 0


def test_a_repeat_takes_its_share_of_a_long_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of repeats grows until they take long enough for the clock."""
    repeats: list[int] = []

    def call(work: Callable[[], object]) -> float:
        work()
        return repeats[-1] * 1e-6

    monkeypatch.setattr(samples, "seconds_of", call)
    assert samples.seconds_per_repeat(repeats.append) == pytest.approx(1e-6)
    assert repeats[-1] * 1e-6 >= samples._LEAST_SECONDS
    assert repeats == [1 << power for power in range(len(repeats))]


def test_memory_of_copies_is_fresh_and_begins_with_a_page() -> None:
    """What was touched before may be on another NUMA node; huge pages are private."""
    first, second = (host_memory._memory(4096, value) for value in (1, 2))
    assert first.ctypes.data % mmap.PAGESIZE == second.ctypes.data % mmap.PAGESIZE == 0
    assert (first == 1).all()
    assert (second == 2).all()
