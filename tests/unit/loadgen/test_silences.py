"""For how long was no query of a closed loop answered well?"""

from dataclasses import replace

import pytest

from inferometer_loadgen.schedule.steps import Closed, End
from support.drills import A_STEP, BAD, CUT, Drill, after
from support.simulated import MILLISECOND, SECOND, Answer

EVERY = 10 * MILLISECOND


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
    assert tallied.longest_silence_ns == 2 * SECOND + EVERY
    assert tallied.latency.max_ns == EVERY


@pytest.mark.parametrize(
    ("since", "until"), [(-1, 2), (2, 4), (8, 20)], ids=["begin", "middle", "end"]
)
def test_failures_are_silence(since: int, until: int) -> None:
    """From the window's begin, between answers, and until its end."""
    drill = refusing(since * SECOND, until * SECOND)
    tallied = drill.run()
    assert tallied.errors["status"] >= 199
    silence_ns = tallied.longest_silence_ns
    assert silence_ns == pytest.approx(2 * SECOND, abs=2 * EVERY)
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
    assert tallied.longest_silence_ns == EVERY


def test_answers_to_the_warm_up_break_the_silence() -> None:
    """Within the window they are answers as any; before it, nothing counts."""
    drill = Drill(
        lambda index, _: Answer(3 * SECOND + index * SECOND // 2 if index < 4 else 2 * SECOND),
        replace(A_STEP, warm_up_ns=SECOND, loop=Closed(4)),
        milli_qps=None,
        connections=4,
    )
    tallied = drill.run()
    assert drill.driver.window_ns == 3 * SECOND
    assert tallied.longest_silence_ns == SECOND // 2


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
    assert tallied.longest_silence_ns == EVERY


def test_an_end_from_outside_ends_the_silence() -> None:
    """What was silent until then is told."""
    drill = Drill(after(60 * SECOND), milli_qps=None)
    tallied = drill.run({3 * SECOND: lambda drill: drill.driver.end(End.INTERRUPTED)})
    assert tallied.longest_silence_ns == 3 * SECOND


def test_open_loops_have_none() -> None:
    """Their latencies show a stall in full."""
    assert Drill(after(EVERY)).run().longest_silence_ns is None
