"""Clients, offline, shares, steady warm-ups and probes are driven as specified."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferometer_api.scenarios.step_setting import Closed, JudgedPercentile
from inferometer_loadgen.record.histogram import bucket_of
from inferometer_loadgen.schedule.arrivals import Stream, generator
from inferometer_loadgen.schedule.steps import End, LoadShare
from support.drills import A_STEP, BAD, CUT, Drill, after
from support.simulated import MILLISECOND, SECOND, Answer


def clients(number: int | None, total: int | None = None) -> Closed:
    """Return a closed loop."""
    return Closed(clients=number, total_queries=total)


def random_answers(seed: int, *, lost: float = 0.0) -> Callable[[int, int], Answer]:
    """Answer after exponential times of 30 ms; some never, and some badly."""
    random = generator(seed, Stream.INPUTS)

    def answer(_index: int, _now: int) -> Answer:
        loss_reason = random.random()
        delay = int(random.exponential(30 * MILLISECOND))
        return Answer(
            None if loss_reason < lost else delay, BAD if loss_reason > 1 - lost else None
        )

    return answer


@pytest.mark.parametrize("number", [1, 3, 8])
def test_clients_keep_so_many_queries_outstanding(number: int) -> None:
    """Each client sends its next query when its last is answered, and none sends more."""
    step = replace(A_STEP, warm_up_ns=SECOND, loop=clients(number))
    drill = Drill(after(30 * MILLISECOND), step, None, connections=number)
    tallied = drill.run()
    assert drill.end is End.DONE
    at = sorted({sent.at_ns for sent in drill.server.sent})
    assert at == [30 * MILLISECOND * turn for turn in range(len(at))]
    assert len(drill.server.sent) == number * len(at)
    # By Little's law; the window begins and ends with answers.
    rate = tallied.answered_within / drill.driver.duration_ns * SECOND
    assert rate == pytest.approx(number / 0.03, rel=0.01)


def test_queries_of_the_window_are_those_sent_in_it() -> None:
    """At its end each outstanding query is awaited, so that a slow one is not lost."""
    slow = 5 * SECOND
    step = replace(A_STEP, loop=clients(4))
    drill = Drill(
        lambda index, _: Answer(slow if index == 39_000 else MILLISECOND),
        step,
        None,
        connections=4,
    )
    tallied = drill.run()
    assert drill.driver.duration_ns == pytest.approx(10 * SECOND, rel=0.01)
    assert tallied.latency.max_ns == slow
    assert tallied.latency.count == len(drill.server.sent)
    assert tallied.answered_within < tallied.latency.count
    answered = sum(window.succeeded for window in tallied.windows.report(open_loop=False))
    assert answered == tallied.latency.count


def test_a_client_that_hangs_at_the_end_times_out() -> None:
    """A query that is never answered is an error, though all others were answered long ago."""
    step = replace(A_STEP, loop=clients(4))
    drill = Drill(
        lambda index, _: Answer(None if index == 1000 else MILLISECOND),
        step,
        None,
        connections=4,
        timeout_ns=30 * SECOND,
    )
    tallied = drill.run()
    assert drill.end is End.DONE
    assert tallied.errors == {"timeout": 1}
    assert drill.driver.progress().draining


def test_offline_begins_and_ends_with_nothing_outstanding() -> None:
    """All is sent as there is room, from rest, and the window ends with the last answer."""
    step = replace(A_STEP, warm_up_ns=SECOND, min_queries=100, loop=clients(None, 100))
    drill = Drill(after(300 * MILLISECOND), step, None, connections=3, capacity=2)
    tallied = drill.run()
    assert drill.end is End.DONE
    # Six at a time for 1.2 s, until the warm-up is over and the last of it is answered.
    assert tallied.warm_up_queries == 24
    assert drill.driver.window_ns == 1200 * MILLISECOND
    assert tallied.latency.count == tallied.answered_within == 100
    assert len(drill.server.sent) == 124
    assert drill.driver.duration_ns == 17 * 300 * MILLISECOND
    assert drill.driver.last_reply_ns == drill.driver.window_ns + drill.driver.duration_ns


def test_offline_shares_its_queries_over_servers() -> None:
    """Each server is sent its part, and a slow one keeps none of the others waiting."""
    step = replace(A_STEP, min_queries=100, loop=clients(None, 100))
    drill = Drill(after(MILLISECOND), step, None, others=[after(50 * MILLISECOND)] * 2)
    drill.run()
    assert [len(server.sent) for server in drill.servers] == [34, 33, 33]
    assert max(sent.at_ns for sent in drill.server.sent) < 40 * MILLISECOND
    assert drill.driver.duration_ns == 33 * 50 * MILLISECOND


def test_the_maximum_duration_ends_offline() -> None:
    """Past the maximum no more is sent, and the end says so."""
    step = replace(A_STEP, min_queries=10_000, loop=clients(None, 10_000))
    drill = Drill(after(SECOND), step, None, connections=4)
    assert drill.run().latency.count == 400
    assert drill.end is End.MAX_DURATION


def test_a_share_of_no_query_ends_at_once() -> None:
    """A worker whose share of offline is nothing has a window and no queries in it."""
    step = replace(A_STEP, warm_up_ns=SECOND, min_queries=0, loop=clients(None, 0))
    drill = Drill(after(MILLISECOND), step, None)
    assert drill.run().latency.count == 0
    assert drill.end is End.DONE


@pytest.mark.parametrize("milli_qps", [None, 100_000])
def test_a_window_opens_when_requested(milli_qps: int | None) -> None:
    """Until then the warm-up goes on, and each of its last three seconds ends once."""
    step = replace(A_STEP, warm_up_ns=SECOND, until_steady=True)
    drill = Drill(after(5 * MILLISECOND), step, milli_qps, connections=3)
    at = 7 * SECOND + 1
    tallied = drill.run({at: lambda drill: drill.driver.open_window()})
    assert drill.end is End.DONE
    assert drill.driver.window_ns - at in ({0} if milli_qps else {5 * MILLISECOND - 1})
    per_second = 100 if milli_qps else 200
    assert [tally.latencies.total for tally in drill.recorder.warm_up_windows] == [per_second] * 3
    assert {tally.max_ns for tally in drill.recorder.warm_up_windows} == {5 * MILLISECOND}
    assert tallied.latency.count == 10 * per_second
    assert tallied.warm_up_queries + tallied.latency.count == len(drill.server.sent)
    if milli_qps is not None:
        measured = [sent.at_ns for sent in drill.server.sent if sent.at_ns >= at]
        assert measured == list(range(at, at + 10 * SECOND, 10 * MILLISECOND))


def test_a_worker_sends_its_share() -> None:
    """Every third arrival is one worker's, in warm-up and window, and both end alike."""
    step = replace(A_STEP, warm_up_ns=SECOND, min_queries=1100)
    whole = Drill(after(MILLISECOND), step, poisson=True, connections=50)
    whole.run()
    shares = [
        Drill(after(MILLISECOND), step, poisson=True, connections=50, share=LoadShare(index, 3))
        for index in range(3)
    ]
    scheduled = sum(share.run().scheduled for share in shares)
    assert scheduled == whole.recorder.statistics.scheduled == 1100
    times = [sent.at_ns for sent in whole.server.sent]
    assert sorted(sent.at_ns for share in shares for sent in share.server.sent) == times
    assert {share.driver.duration_ns for share in shares} == {whole.driver.duration_ns}
    assert {share.driver.window_ns for share in shares} == {SECOND}


@settings(max_examples=30)
@given(st.integers(0, 2**16), st.integers(1, 100), st.booleans())
def test_overshoots_are_counted_exactly(seed: int, bound_ms: int, open_loop: bool) -> None:  # noqa: FBT001 - hypothesis fills it by name
    """Every latency beyond the bound and every failure is one overshoot."""
    bound_ns = bound_ms * MILLISECOND
    step = replace(A_STEP, judged=JudgedPercentile(99.0, bound_ns), loop=clients(3))
    drill = Drill(
        random_answers(seed, lost=0.02),
        step,
        40_000 if open_loop else None,
        connections=3,
        timeout_ns=200 * MILLISECOND,
    )
    tallied = drill.run()
    # Latencies are not kept one by one: of the bound's own counter either may be.
    sparse, counter = tallied.latency.sparse(), bucket_of(np.array([bound_ns]))[0]
    beyond = int(sparse.counts[sparse.buckets > counter].sum())
    within = int(sparse.counts[sparse.buckets < counter].sum())
    total = tallied.latency.count
    failed = tallied.errors.total()
    assert beyond <= tallied.overshoots - failed <= total - within


def test_without_a_bound_nothing_overshoots() -> None:
    """A step that is judged by no bound has no overshoots, whatever fails."""
    drill = Drill(lambda i, _: Answer(SECOND, BAD if i % 2 else None), replace(A_STEP), 1000)
    assert drill.run().overshoots == 0


@pytest.mark.parametrize("milli_qps", [None, 100_000])
def test_what_is_unanswered_is_overdue(milli_qps: int | None) -> None:
    """Queries in flight and in line count once they are older than the bound; no others do."""
    found: list[int] = []
    step = replace(A_STEP, loop=clients(4))
    drill = Drill(
        lambda _, now: Answer(20 * SECOND if now >= 3 * SECOND else MILLISECOND),
        step,
        milli_qps,
        connections=4,
    )
    drill.run(
        {
            3 * SECOND - MILLISECOND: lambda drill: found.append(drill.driver.overdue(MILLISECOND)),
            4 * SECOND + 1: lambda drill: found.append(drill.driver.overdue(500 * MILLISECOND)),
        }
    )
    # Due from 3 s to 3.5 s, every 10 ms: four in flight, the others in line.
    assert found == ([0, 51] if milli_qps else [0, 4])


@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**16),
    number=st.integers(1, 6),
    servers=st.integers(1, 3),
    total=st.none() | st.integers(1, 300),
    timeout_ms=st.integers(5, 200),
)
def test_every_query_of_a_closed_loop_is_accounted_for_once(
    seed: int, number: int, servers: int, total: int | None, timeout_ms: int
) -> None:
    """Whatever the servers do, what was sent is answered or failed once, and nothing is left."""
    drill = Drill(
        random_answers(seed, lost=0.05),
        replace(
            A_STEP,
            warm_up_ns=SECOND,
            min_duration_ns=3 * SECOND,
            min_queries=total or 1,
            loop=clients(None if total else number, total),
        ),
        None,
        number,
        1,
        timeout_ms * MILLISECOND,
        others=[random_answers(seed + each, lost=0.05) for each in range(1, servers)],
    )
    tallied = drill.run(
        {
            2 * SECOND: lambda drill: drill.server.lose(CUT),
            2 * SECOND + 300 * MILLISECOND: lambda drill: drill.server.come_back(),
        }
    )
    sent = [len(server.sent) for server in drill.servers]
    measured = tallied.latency.count + tallied.errors.total()
    assert drill.end is End.DONE
    assert measured + tallied.warm_up_queries == sum(sent)
    assert drill.driver.outstanding == 0
    if total is None:
        assert max(sent) - min(sent) <= 1
    else:
        assert measured == total
