"""Rounds of timing: runs that another process disturbed are repeated."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import repeat

import pytest
from typing_extensions import override

from inferometer_api.layers.bricks import Brick, BrickSuite
from inferometer_api.layers.graph import Layer, LayerTensor
from inferometer_serving.layers import timing
from inferometer_serving.layers.timing import Item, time_items

MS = 1_000_000


@dataclass
class Machine:
    """A clock, and how often this process lost the CPU; every run takes what it is given."""

    durations_ms: Iterator[tuple[float, bool]]
    """How long each run takes, and whether another process takes the CPU meanwhile."""
    now_ns: int = 0
    preemptions: int = 0
    inputs: tuple[object, ...] = field(default=())

    def run(self) -> None:
        """Let time pass."""
        milliseconds, is_disturbed = next(self.durations_ms)
        self.now_ns += round(milliseconds * MS)
        self.preemptions += is_disturbed


def _timed(monkeypatch: pytest.MonkeyPatch, durations: Iterator[tuple[int, bool]]) -> Item:
    machine = Machine(durations)
    monkeypatch.setattr("time.perf_counter_ns", lambda: machine.now_ns)
    monkeypatch.setattr(timing, "_preemptions", lambda: machine.preemptions)
    item = Item("model", open=lambda: machine, rounds_wanted=1, needs_all_rounds=True)
    time_items([item], lambda *_: None)
    assert not item.failure
    return item


def test_a_disturbed_run_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """A round wants 2 runs of 4 ms; those of 9 ms were disturbed, and do not count."""
    runs = iter([(4, False), (4, False), (9, True), (4, False), (9, True), (4, False)])
    item = _timed(monkeypatch, runs)
    assert item.middle_ns == [4 * MS]
    assert item.disturbed_rounds == 0
    assert item.runs == 6


def test_a_round_of_disturbed_runs_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """After three times the wanted runs the disturbed ones count, and the round is marked."""
    runs = iter([(4, False), (4, False), *((9, True) for _ in range(6))])
    item = _timed(monkeypatch, runs)
    assert item.middle_ns == [9 * MS]
    assert item.disturbed_rounds == 1
    assert item.runs == 8


def test_a_long_run_may_lose_the_cpu_for_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A moment takes up to 4 ms: less than 2 % of 250 ms, and more of 150 ms."""
    for run_ms, expected_runs in ((250, 3), (150, 5)):
        item = _timed(monkeypatch, repeat((run_ms, True)))
        assert item.runs == expected_runs
        assert item.disturbed_rounds == (run_ms == 150)


@pytest.mark.parametrize(
    ("run_ms", "expected_runs"),
    [
        pytest.param(60, 1, id="one of one that is warm after its cold run"),
        pytest.param(12, 1, id="one of one that the item says is long"),
        pytest.param(4, 2, id="two of a long one, which takes more than the round should"),
        pytest.param(1, 5, id="as many as fill the round"),
        pytest.param(0.1, 8, id="no more of a short one than it may have"),
    ],
)
def test_a_round_has_as_many_warm_runs_as_fill_it(
    monkeypatch: pytest.MonkeyPatch, run_ms: float, expected_runs: int
) -> None:
    """A round of 5 ms and of 1 or 2 to 8 runs; opening and the cold run come on top."""
    machine = Machine(repeat((run_ms, False)))
    monkeypatch.setattr("time.perf_counter_ns", lambda: machine.now_ns)
    monkeypatch.setattr(timing, "_preemptions", lambda: 0)
    item = Item(
        "brick", lambda: machine, rounds_wanted=3, runs_ns=5 * MS, most_runs=8, long_ns=10 * MS
    )
    time_items([item], lambda *_: None)
    assert item.runs == 1 + 3 * (1 + expected_runs)


@pytest.mark.parametrize(
    ("runs", "expected_ms", "expected_runs"),
    [
        pytest.param([(12, False)] * 4, 12, 4, id="the cold run counts"),
        pytest.param(
            [(12, False), (15, True), *[(12, False)] * 3], 12, 5, id="but no disturbed one"
        ),
        pytest.param([(9, False)] * 10, 9, 10, id="nor that of what takes less"),
    ],
)
def test_a_long_brick_has_its_cold_run_alone(
    monkeypatch: pytest.MonkeyPatch,
    runs: list[tuple[float, bool]],
    expected_ms: int,
    expected_runs: int,
) -> None:
    """One run in each of three rounds, and one to open it."""
    machine = Machine(iter(runs))
    monkeypatch.setattr("time.perf_counter_ns", lambda: machine.now_ns)
    monkeypatch.setattr(timing, "_preemptions", lambda: machine.preemptions)
    item = Item("brick", lambda: machine, rounds_wanted=3, long_ns=10 * MS, is_cold_enough=True)
    time_items([item], lambda *_: None)
    assert (item.middle_ns, item.runs) == ([expected_ms * MS] * 3, expected_runs)


@dataclass
class Named:
    """Something that writes down its runs."""

    name: str
    runs: list[str]
    inputs: tuple[object, ...] = ()

    def run(self) -> None:
        """Write its name down."""
        self.runs.append(self.name)


@pytest.mark.parametrize(
    ("are_mixed", "large_bytes", "expected_runs"),
    [
        pytest.param(False, 8, "aaabbbccc", id="each for itself"),
        pytest.param(True, 8, "abcabcabc", id="as in a model"),
        pytest.param(True, 4 << 20, "aaabbbccc", id="one fills the caches alone"),
    ],
)
def test_the_runs_of_bricks_alternate(
    monkeypatch: pytest.MonkeyPatch, *, are_mixed: bool, large_bytes: int, expected_runs: str
) -> None:
    """A round is one cold run and two others, and the caches are those of a model."""
    monkeypatch.setattr(timing, "_preemptions", lambda: 0)
    runs: list[str] = []
    items = [
        Item(
            name,
            open=lambda name=name: Named(name, runs),  # type: ignore[misc]
            rounds_wanted=1,
            bytes=size,
            is_mixed=are_mixed,
            most_runs=2,
        )
        for name, size in (("a", 8), ("b", large_bytes), ("c", 8))
    ]
    time_items(items, lambda *_: None)
    assert "".join(runs) == "abc" + expected_runs


def test_a_brick_that_fails_ends_no_turn_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """It keeps the reason, and the others have their rounds."""
    monkeypatch.setattr(timing, "_preemptions", lambda: 0)
    runs: list[str] = []

    class Failing(Named):
        @override
        def run(self) -> None:
            super().run()
            if self.runs.count(self.name) == 3:
                raise ValueError("no more")

    items = [
        Item("failing", lambda: Failing("a", runs), 1, bytes=8, is_mixed=True, most_runs=2),
        Item("good", lambda: Named("b", runs), 1, bytes=8, is_mixed=True, most_runs=2),
    ]
    time_items(items, lambda *_: None)
    assert "".join(runs) == "abababb"
    assert [each.failure for each in items] == ["no more", ""]
    assert len(items[1].middle_ns) == 1


@pytest.mark.parametrize(
    ("uses", "expected_rounds"),
    [
        pytest.param([], 8, id="not known to be part of a model"),
        pytest.param([{"small": 1, "large": 1}], 3, id="1 % of its model"),
        pytest.param([{"small": 40, "large": 1}], 8, id="a third of it, since it runs 40 times"),
        pytest.param([{"small": 1, "large": 1}, {"small": 1}], 8, id="all of another one"),
    ],
)
def test_a_small_part_of_every_model_needs_few_rounds(
    monkeypatch: pytest.MonkeyPatch, uses: list[dict[str, int]], expected_rounds: int
) -> None:
    """Its rounds differ by a fifth, which is less than 2 % of every model's time."""
    small, large = (
        Machine(run for ms in repeat(times) for each in ms for run in [(each, False)] * 9)
        for times in ((0.9, 1.1, 1.0), (100.0,))
    )
    monkeypatch.setattr("time.perf_counter_ns", lambda: small.now_ns + large.now_ns)
    monkeypatch.setattr(timing, "_preemptions", lambda: 0)
    items = [
        Item("small", lambda: small, rounds_wanted=8, runs_ns=8 * MS, most_runs=8),
        Item("large", lambda: large, rounds_wanted=8, runs_ns=8 * MS, most_runs=8),
    ]
    time_items(items, lambda *_: None, uses=uses)
    assert [len(each.middle_ns) for each in items] == [expected_rounds, 3]


_COUNT_THREADS = """
import sys
from pathlib import Path

from inferometer_api.layers.bricks import BrickSuite
from inferometer_serving.layers.measure import MeasureOptions, measure
from inferometer_serving.layers.optimised_graph import GraphSettings

found = []
suite = BrickSuite.read_json(sys.stdin.buffer.read())
options = MeasureOptions(GraphSettings(threads=2), rounds=3)
tasks = Path("/proc/self/task")
timings = measure(suite, [], [], options, lambda *_: found.append(len(list(tasks.iterdir()))))
print(max(found), len(timings.bricks))
"""


def _threads_while_timing(bricks: int) -> int:
    """Return how many threads a process has while it times so many bricks with two threads."""
    tensors = [
        LayerTensor(kind="Activation", datatype="FLOAT", shape=[at + 1]) for at in range(bricks)
    ]
    layers = {
        f"{at}": Layer(operator="Relu", version=17, inputs=[each], outputs=[each])
        for at, each in enumerate(tensors)
    }
    suite = BrickSuite(
        engine="ONNX Runtime",
        engine_version="1",
        granularity=1,
        layers=layers,
        bricks={key: Brick(layers=[key]) for key in layers},
    )
    command = [sys.executable, "-c", _COUNT_THREADS]
    given = suite.model_dump_json(by_alias=True).encode()
    ended = subprocess.run(command, input=given, capture_output=True, check=True)
    threads, timed = map(int, ended.stdout.split())
    assert timed == bricks
    return threads


def test_bricks_share_their_threads() -> None:
    """Threads of one session that spin after its run would take the CPUs from the next one."""
    assert _threads_while_timing(9) == _threads_while_timing(1)
