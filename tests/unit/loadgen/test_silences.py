"""Silences: times without a successful answer in a closed loop."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer_api.scenarios.step_setting import Closed
from inferometer_loadgen.record.silences import (
    NOTABLE_NS,
    Silence,
    Silences,
    common_silences,
    longest_ns,
)
from inferometer_loadgen.schedule.steps import End
from support.drills import A_STEP, BAD, CUT, Drill, after
from support.simulated import MILLISECOND, SECOND, Answer

EVERY = 10 * MILLISECOND


def silence_ns(drill: Drill) -> int:
    """Return the longest time within the window without a successful answer."""
    return longest_ns(drill.driver.silences)


def refusing(since_ns: int, until_ns: int) -> Drill:
    """Return a closed loop that is refused for a while."""
    return Drill(
        lambda _, now: Answer(EVERY, BAD if since_ns < now <= until_ns else None), milli_qps=None
    )


@pytest.mark.parametrize("clients", [1, 8])
@pytest.mark.parametrize("capacity", [1, 8])
def test_an_outage_is_a_silence(clients: int, capacity: int) -> None:
    """An outage is a silence, however many connections were lost."""
    drill = Drill(
        after(EVERY),
        replace(A_STEP, loop=Closed(clients)),
        milli_qps=None,
        connections=8,
        capacity=capacity,
    )
    tallied = drill.run(
        {
            4 * SECOND + 1: lambda drill: drill.server.lose(CUT),
            6 * SECOND: lambda drill: drill.server.come_back(),
        }
    )
    assert drill.end is End.DONE
    assert silence_ns(drill) == 2 * SECOND + EVERY
    assert tallied.latency.max_ns == EVERY


@pytest.mark.parametrize(
    ("since", "until"), [(-1, 2), (2, 4), (8, 20)], ids=["begin", "middle", "end"]
)
def test_failures_are_silence(since: int, until: int) -> None:
    """Failures from the window's start, between answers and until its end are silence."""
    drill = refusing(since * SECOND, until * SECOND)
    tallied = drill.run()
    assert tallied.errors["status"] >= 199
    assert silence_ns(drill) == pytest.approx(2 * SECOND, abs=2 * EVERY)
    assert drill.driver.duration_ns == pytest.approx(10 * SECOND, abs=EVERY)


def test_an_answer_to_any_client_ends_the_silence() -> None:
    """One long query among answered ones is not a silence."""
    drill = Drill(
        lambda index, _: Answer(2 * SECOND if index == 100 else EVERY),
        replace(A_STEP, loop=Closed(2)),
        milli_qps=None,
        connections=2,
    )
    tallied = drill.run()
    assert tallied.latency.max_ns == 2 * SECOND
    assert silence_ns(drill) == EVERY


def test_answers_to_the_warm_up_end_the_silence() -> None:
    """Within the window they count like other answers; before it, nothing counts."""
    drill = Drill(
        lambda index, _: Answer(3 * SECOND + index * SECOND // 2 if index < 4 else 2 * SECOND),
        replace(A_STEP, warm_up_ns=SECOND, loop=Closed(4)),
        milli_qps=None,
        connections=4,
    )
    drill.run()
    assert drill.driver.window_ns == 3 * SECOND
    assert silence_ns(drill) == SECOND // 2


def test_time_after_the_window_is_not_a_silence() -> None:
    """The drain of the outstanding queries is not part of the window."""
    drill = Drill(
        lambda _, now: Answer(5 * SECOND if now >= 9_990 * MILLISECOND else EVERY),
        replace(A_STEP, loop=Closed(2)),
        milli_qps=None,
        connections=2,
        others=[after(EVERY)],
    )
    tallied = drill.run()
    assert tallied.latency.max_ns == 5 * SECOND
    assert silence_ns(drill) == EVERY


def test_an_end_from_outside_ends_the_silence() -> None:
    """A silence until the interruption is recorded."""
    drill = Drill(after(60 * SECOND), milli_qps=None)
    drill.run({3 * SECOND: lambda drill: drill.driver.end(End.INTERRUPTED)})
    assert silence_ns(drill) == 3 * SECOND


def test_open_loops_have_no_silences() -> None:
    """Their latencies show a stall in full."""
    drill = Drill(after(EVERY))
    drill.run()
    assert not drill.driver.silences


@st.composite
def in_order(draw: st.DrawFn) -> list[Silence]:
    """Return silences in order, without overlaps."""
    edges = draw(st.lists(st.integers(0, 50), max_size=20, unique=True).map(sorted))
    return [(begin, end) for begin, end in zip(edges[::2], edges[1::2], strict=False)]


@given(st.lists(in_order(), min_size=1, max_size=4))
def test_all_are_silent_when_each_is(of_each: list[list[Silence]]) -> None:
    """The result is the intersection at each moment, in order."""
    found = common_silences(of_each)
    for moment in range(50):
        is_common = all(any(b <= moment < e for b, e in each) for each in of_each)
        assert any(begin <= moment < end for begin, end in found) == is_common
    assert found == sorted(found)


def test_no_workers_have_no_common_silence() -> None:
    """Without workers with a share there is no silence."""
    assert common_silences([]) == []


@given(st.lists(st.integers(0, 2 * NOTABLE_NS), max_size=20))
def test_every_notable_silence_is_recorded_and_the_longest_always(lengths: list[int]) -> None:
    """All notable silences are kept, and otherwise the longest."""
    silences, now = Silences(), 0
    added = []
    for length in lengths:
        silences.add(now, now + length)
        added.append((now, now + length))
        now += length + 1
    assert longest_ns(silences.found) == longest_ns(added)
    notable = [each for each in added if each[1] - each[0] >= NOTABLE_NS]
    assert [each for each in silences.found if each[1] - each[0] >= NOTABLE_NS] == notable
    assert len(silences.found) <= len(notable) + 1
