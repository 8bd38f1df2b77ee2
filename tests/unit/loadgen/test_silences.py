"""For how long was no query of a closed loop answered well?"""

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
    """Return the longest time within the window of a drill without a good answer."""
    return longest_ns(drill.driver.silences)


def refusing(since_ns: int, until_ns: int) -> Drill:
    """Return a closed loop that is refused for a while."""
    return Drill(
        lambda _, now: Answer(EVERY, BAD if since_ns < now <= until_ns else None), milli_qps=None
    )


@pytest.mark.parametrize("clients", [1, 8])
@pytest.mark.parametrize("capacity", [1, 8])
def test_an_outage_is_a_silence(clients: int, capacity: int) -> None:
    """However many connections were lost: no query that waits tells of it."""
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
    """From the window's begin, between answers, and until its end."""
    drill = refusing(since * SECOND, until * SECOND)
    tallied = drill.run()
    assert tallied.errors["status"] >= 199
    assert silence_ns(drill) == pytest.approx(2 * SECOND, abs=2 * EVERY)
    assert drill.driver.duration_ns == pytest.approx(10 * SECOND, abs=EVERY)


def test_who_is_answered_breaks_the_silence() -> None:
    """One query that takes long beside others is none."""
    drill = Drill(
        lambda index, _: Answer(2 * SECOND if index == 100 else EVERY),
        replace(A_STEP, loop=Closed(2)),
        milli_qps=None,
        connections=2,
    )
    tallied = drill.run()
    assert tallied.latency.max_ns == 2 * SECOND
    assert silence_ns(drill) == EVERY


def test_answers_to_the_warm_up_break_the_silence() -> None:
    """Within the window they are answers as any; before it, nothing counts."""
    drill = Drill(
        lambda index, _: Answer(3 * SECOND + index * SECOND // 2 if index < 4 else 2 * SECOND),
        replace(A_STEP, warm_up_ns=SECOND, loop=Closed(4)),
        milli_qps=None,
        connections=4,
    )
    drill.run()
    assert drill.driver.window_ns == 3 * SECOND
    assert silence_ns(drill) == SECOND // 2


def test_what_comes_after_the_window_is_no_silence_of_it() -> None:
    """The queries that are outstanding then omit none."""
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
    """What was silent until then is told."""
    drill = Drill(after(60 * SECOND), milli_qps=None)
    drill.run({3 * SECOND: lambda drill: drill.driver.end(End.INTERRUPTED)})
    assert silence_ns(drill) == 3 * SECOND


def test_open_loops_have_none() -> None:
    """Their latencies show a stall in full."""
    drill = Drill(after(EVERY))
    drill.run()
    assert not drill.driver.silences


@st.composite
def in_order(draw: st.DrawFn) -> list[Silence]:
    """Return times that are in order and apart."""
    edges = draw(st.lists(st.integers(0, 50), max_size=20, unique=True).map(sorted))
    return [(begin, end) for begin, end in zip(edges[::2], edges[1::2], strict=False)]


@given(st.lists(in_order(), min_size=1, max_size=4))
def test_all_are_silent_when_each_is(of_each: list[list[Silence]]) -> None:
    """At each moment, whoever has how many silences, and in order again."""
    found = common_silences(of_each)
    for moment in range(50):
        is_common = all(any(b <= moment < e for b, e in each) for each in of_each)
        assert any(begin <= moment < end for begin, end in found) == is_common
    assert found == sorted(found)


def test_nobody_is_never_silent() -> None:
    """Where no worker had a part there is no silence."""
    assert common_silences([]) == []


@given(st.lists(st.integers(0, 2 * NOTABLE_NS), max_size=20))
def test_every_notable_silence_is_kept_and_the_longest_always(lengths: list[int]) -> None:
    """Whatever else there is: so many a run may have, and all that matter are few."""
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
