"""The driver sends, times and accounts for every query, in virtual time."""

from dataclasses import replace
from itertools import accumulate, islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferometer_loadgen.record.silences import longest_ns
from inferometer_loadgen.requests.replies import gaps
from inferometer_loadgen.schedule.arrivals import Stream, generator
from inferometer_loadgen.schedule.steps import End
from inferometer_loadgen.wire import ReplyBody
from support.drills import A_STEP, BAD, CUT, Drill, after
from support.simulated import (
    MILLISECOND,
    SECOND,
    Answer,
)


def test_open_loop_sends_the_schedule() -> None:
    """Each query of the window is sent at its time, and its latency is the server's delay."""
    drill = Drill(after(3 * MILLISECOND))
    tallied = drill.run()
    assert drill.end is End.DONE
    assert [sent.at_ns for sent in drill.server.sent] == list(range(0, 10 * SECOND, 10_000_000))
    assert tallied.scheduled == tallied.latency.count == 1000
    assert tallied.latency.min_ns == tallied.latency.max_ns == 3 * MILLISECOND
    assert tallied.service_time.max_ns == 3 * MILLISECOND
    assert tallied.dispatch_lag.max_ns == 0
    assert drill.driver.duration_ns == 10 * SECOND
    assert tallied.waited_for_connection == 0


def test_a_stall_is_in_the_latency_of_all_that_were_due() -> None:
    """A server that stalls for a second once shows it in the latency from the schedule (CO)."""

    def stalling(_index: int, now: int) -> Answer:
        return Answer(6 * SECOND - now if 5 * SECOND <= now < 6 * SECOND else MILLISECOND)

    tallied = Drill(stalling, milli_qps=200_000).run()
    assert tallied.latency.count == 2000
    p99, service_p99 = tallied.latency.at_percentile(99), tallied.service_time.at_percentile(99)
    assert p99 is not None
    assert service_p99 is not None
    # 200 of 2,000 queries were due within the stall: the 20th slowest still waited 0.9 s.
    assert p99 > 890 * MILLISECOND
    assert service_p99 == pytest.approx(MILLISECOND, rel=0.001)
    assert tallied.waited_for_connection >= 199


def test_waiting_for_a_connection_is_latency() -> None:
    """With one connection and a slow server each wait follows Lindley's recursion."""
    drill = Drill(after(12 * MILLISECOND), timeout_ns=3600 * SECOND)
    tallied = drill.run()
    departure, latencies = 0, []
    for due in range(0, 10 * SECOND, 10 * MILLISECOND):
        departure = max(due, departure) + 12 * MILLISECOND
        latencies.append(departure - due)
    assert tallied.latency.sum_ns == sum(latencies)
    assert tallied.latency.max_ns == max(latencies)
    assert tallied.waited_for_connection == 999
    assert tallied.dispatch_lag.max_ns == 0
    assert drill.driver.last_reply_ns == departure


def test_late_queries_are_sent_and_their_lag_is_recorded() -> None:
    """An instrument that was held up sends what it missed, and the lag is in the latency."""

    def held_up(at_ns: int) -> int:
        return 500 * MILLISECOND if at_ns == 2 * SECOND else 0

    tallied = Drill(after(MILLISECOND), lateness=held_up, connections=100).run()
    assert tallied.latency.count == tallied.scheduled == 1000
    assert tallied.dispatch_lag.max_ns == 500 * MILLISECOND
    assert tallied.latency.max_ns == 501 * MILLISECOND
    assert tallied.service_time.max_ns == MILLISECOND


def test_warm_up_is_not_measured() -> None:
    """Queries before the window are counted apart, however late they are answered."""
    slow_first = Drill(
        lambda index, _: Answer(5 * SECOND if index == 0 else MILLISECOND),
        replace(A_STEP, warm_up_ns=2 * SECOND),
        connections=2,
    )
    tallied = slow_first.run()
    assert tallied.warm_up_queries == 200
    assert tallied.latency.count == 1000
    assert tallied.latency.max_ns == MILLISECOND
    assert slow_first.driver.window_ns == 2 * SECOND


def test_the_window_is_as_long_as_both_minimums_ask() -> None:
    """Without enough queries in the least duration it ends when one more would be due."""
    drill = Drill(after(MILLISECOND), replace(A_STEP, min_queries=1500))
    assert drill.run().latency.count == 1500
    assert drill.end is End.DONE
    assert drill.driver.duration_ns == 1500 * 10 * MILLISECOND


def test_the_maximum_duration_ends_an_open_loop_early() -> None:
    """Past the maximum the schedule is cut, and the end says that a minimum is missing."""
    drill = Drill(after(MILLISECOND), replace(A_STEP, min_queries=10**6))
    assert drill.run().latency.count == 10_000
    assert drill.end is End.MAX_DURATION
    assert drill.driver.duration_ns == 100 * SECOND


def test_the_last_slow_query_is_waited_for() -> None:
    """No slow query is lost to the window's end."""
    drill = Drill(lambda index, _: Answer(30 * SECOND if index == 999 else 0), connections=2)
    assert drill.run().latency.max_ns == 30 * SECOND
    assert drill.loop.now_ns() == pytest.approx(39.99 * SECOND, abs=SECOND)


@pytest.mark.parametrize("milli_qps", [None, 10_000])
def test_a_query_without_an_answer_times_out(milli_qps: int | None) -> None:
    """Past its timeout a query is cancelled on the wire and fails as a timeout, exactly then."""
    drill = Drill(
        lambda index, _: Answer(None if index % 10 == 3 else MILLISECOND),
        replace(A_STEP, min_queries=100, min_duration_ns=1),
        milli_qps,
        connections=5,
        timeout_ns=250 * MILLISECOND,
    )
    tallied = drill.run()
    assert tallied.errors == {"timeout": 10}
    assert tallied.latency.count == 90
    cancelled = [sent for sent in drill.server.sent if sent.cancelled]
    assert len(cancelled) == 10
    assert "250 ms" in tallied.examples["timeout"]
    if milli_qps is None:
        following = [
            b.at_ns - a.at_ns
            for a, b in zip(drill.server.sent, drill.server.sent[1:], strict=False)
            if a.cancelled
        ]
        assert all(gap == 250 * MILLISECOND for gap in following)


def test_queries_that_wait_in_vain_time_out_unsent() -> None:
    """While no connection has room, what is due fails its timeout after its scheduled time."""
    drill = Drill(after(MILLISECOND), timeout_ns=SECOND)
    lost, back = 2005 * MILLISECOND, 4005 * MILLISECOND
    tallied = drill.run(
        {lost: lambda drill: drill.server.lose(CUT), back: lambda drill: drill.server.come_back()}
    )
    assert tallied.errors == {"timeout": 100}  # those due from 2.01 to 3 s
    assert "No connection had room" in tallied.examples["timeout"]
    assert tallied.latency.count == len(drill.server.sent) == 900
    assert tallied.latency.max_ns == 996 * MILLISECOND  # due at 3.01 s, answered at 4.006 s


def test_closed_loop_keeps_one_query_outstanding() -> None:
    """The next query is sent when the last is answered, until both minimums hold."""
    drill = Drill(after(30 * MILLISECOND), replace(A_STEP, min_queries=100), None)
    tallied = drill.run()
    sent = [sent.at_ns for sent in drill.server.sent]
    assert sent == [30 * MILLISECOND * i for i in range(len(sent))]
    assert tallied.latency.count == len(sent) == 334
    assert tallied.latency.min_ns == tallied.latency.max_ns == 30 * MILLISECOND
    assert drill.driver.duration_ns == 334 * 30 * MILLISECOND


def test_closed_loop_sends_enough_queries() -> None:
    """A window goes on past the least duration until there are enough queries."""
    drill = Drill(after(SECOND), replace(A_STEP, min_queries=20), None)
    assert drill.run().latency.count == 20
    assert drill.end is End.DONE


def test_the_maximum_duration_ends_a_closed_loop() -> None:
    """Past the maximum the loop ends with the answer that is outstanding."""
    drill = Drill(after(40 * SECOND), replace(A_STEP, min_queries=20), None)
    assert drill.run().latency.count == 3
    assert drill.end is End.MAX_DURATION


def test_closed_loop_warm_up_ends_between_two_queries() -> None:
    """The query outstanding when the warm-up is over is not measured."""
    drill = Drill(after(300 * MILLISECOND), replace(A_STEP, warm_up_ns=SECOND), None)
    tallied = drill.run()
    assert tallied.warm_up_queries == 4
    assert drill.driver.window_ns == 1200 * MILLISECOND


@pytest.mark.parametrize("milli_qps", [None, 100_000])
def test_a_lost_server_ends_the_step(milli_qps: int | None) -> None:
    """Without any connection for 3 s a step ends, and what was due by then has failed."""
    drill = Drill(after(5 * MILLISECOND), milli_qps=milli_qps)
    tallied = drill.run({2 * SECOND + 1: lambda d: d.server.lose(CUT)})
    assert drill.end is End.SERVER_LOST
    assert 5 * SECOND <= drill.loop.now_ns() <= 5.5 * SECOND
    assert set(tallied.errors) == {"connection"}
    assert tallied.latency.count in {200, 400}
    if milli_qps is not None:
        assert tallied.latency.count + tallied.errors.total() == tallied.scheduled


def test_what_waits_has_failed_where_another_worker_has_lost_the_server() -> None:
    """A driver that is ended before it missed the server for 3 s itself leaves out no query."""
    drill = Drill(after(5 * MILLISECOND))
    tallied = drill.run(
        {
            2 * SECOND + 1: lambda d: d.server.lose(CUT),
            4 * SECOND + 1: lambda d: d.driver.end(End.SERVER_LOST),
        }
    )
    assert drill.end is End.SERVER_LOST
    assert tallied.latency.count + tallied.errors.total() == tallied.scheduled
    assert tallied.errors == {"connection": tallied.scheduled - 200}


@pytest.mark.parametrize("milli_qps", [None, 100_000])
def test_a_server_that_allows_no_query_for_a_while_is_not_lost(milli_qps: int | None) -> None:
    """Its connection is there: what is due waits until it is allowed, and shows as latency."""

    def allow(drill: Drill, capacity: int) -> None:
        (connection,) = drill.server.connections
        connection.connected = True
        connection.capacity = capacity
        connection._on_capacity(connection)

    drill = Drill(after(5 * MILLISECOND), milli_qps=milli_qps)
    tallied = drill.run({2 * SECOND + 1: lambda d: allow(d, 0), 7 * SECOND: lambda d: allow(d, 1)})
    assert (drill.end, tallied.errors) == (End.DONE, {})
    if milli_qps is None:
        assert longest_ns(drill.driver.silences) > 4900 * MILLISECOND
    else:
        assert tallied.latency.max_ns > 4900 * MILLISECOND


@pytest.mark.parametrize("milli_qps", [None, 100_000])
def test_the_loss_of_a_server_has_a_deadline(milli_qps: int | None) -> None:
    """A server that is back within the deadline is measured on; else the step ends there."""
    away = {
        1 * SECOND + 1: lambda d: d.server.lose(CUT),
        9 * SECOND: lambda d: d.server.come_back(),
    }
    for deadline, end in ((10 * SECOND, End.DONE), (7 * SECOND, End.SERVER_LOST)):
        drill = Drill(after(5 * MILLISECOND), milli_qps=milli_qps, reconnect_deadline_ns=deadline)
        drill.run(away)
        assert drill.end is end


@pytest.mark.parametrize("milli_qps", [None, 100_000])
def test_a_query_that_was_sent_again_is_counted(milli_qps: int | None) -> None:
    """Its latency counts from its due time, and it is no error."""

    def resend(drill: Drill) -> None:
        (connection,) = drill.server.connections
        connection.resent_token = 0
        connection._on_capacity(connection)
        connection.resent_token = None

    drill = Drill(after(5 * MILLISECOND), milli_qps=milli_qps)
    tallied = drill.run({2 * SECOND + MILLISECOND: resend})
    assert (drill.end, tallied.errors, tallied.resent) == (End.DONE, {}, 1)
    warming = replace(A_STEP, warm_up_ns=3 * SECOND)
    assert Drill(after(5 * MILLISECOND), warming).run({2 * SECOND: resend}).resent == 0


def test_the_reason_for_an_unreachable_server_is_reported() -> None:
    """In the words of the last attempt, in the error of each query that was due."""

    def lose(drill: Drill) -> None:
        drill.server.lose(CUT)
        drill.server.connections[0].last_error = "Its certificate has expired."

    drill = Drill(after(5 * MILLISECOND))
    tallied = drill.run({2 * SECOND + 2 * MILLISECOND: lose})
    assert drill.driver.last_error == "Its certificate has expired."
    assert tallied.errors.keys() == {"connection"}


@pytest.mark.parametrize("milli_qps", [None, 100_000])
def test_a_server_that_comes_back_is_measured_on(milli_qps: int | None) -> None:
    """A connection that was away for 2 s costs its outstanding query and shows as latency."""
    drill = Drill(after(5 * MILLISECOND), milli_qps=milli_qps)
    tallied = drill.run(
        {
            2 * SECOND + 1: lambda d: d.server.lose(CUT),
            4 * SECOND + 1: lambda d: d.server.come_back(),
        }
    )
    assert drill.end is End.DONE
    assert tallied.errors == {"connection": 1}
    assert drill.driver.reconnects == 1
    if milli_qps is not None:
        assert tallied.latency.count == 999
        assert tallied.latency.max_ns > 1900 * MILLISECOND


@pytest.mark.parametrize("milli_qps", [None, 100_000])
def test_an_end_from_outside_keeps_what_was_measured(milli_qps: int | None) -> None:
    """A step that is interrupted ends at once; what is outstanding then is forgotten."""
    drill = Drill(after(4 * MILLISECOND), milli_qps=milli_qps)
    tallied = drill.run({3 * SECOND + 1: lambda d: d.driver.end(End.INTERRUPTED)})
    assert drill.end is End.INTERRUPTED
    assert drill.driver.duration_ns == 3 * SECOND + 1
    assert tallied.latency.count == (300 if milli_qps else 750)
    assert not tallied.errors


def test_replies_are_checked_by_sample() -> None:
    """The first 8 replies and one in 64 are kept and checked; what does not fit is an error."""
    drill = Drill(
        lambda index, _: Answer(0, body=b"bad" if index in {3, 40} else b""),
        check=lambda reply: "It is bad." if reply.body else None,
    )
    tallied = drill.run()
    kept_indices = [index for index, sent in enumerate(drill.server.sent) if sent.keep]
    assert kept_indices[:8] == [*range(8)]
    assert 1000 / 96 <= len(kept_indices) - 8 <= 1000 / 32
    assert tallied.checked_replies == len(kept_indices)
    assert tallied.errors == {"content": 1 + (40 in kept_indices)}
    assert tallied.examples == {"content": "It is bad."}


def test_a_check_that_fails_is_an_error_counted() -> None:
    """A reply that no check can take makes no query vanish: it counts as `content`."""

    def check(reply: ReplyBody) -> str | None:
        raise TypeError(f"{len(reply.body)} bytes")

    drill = Drill(after(MILLISECOND), check=check, capacity=4)
    tallied = drill.run()
    assert drill.end is End.DONE
    assert tallied.errors == {"content": tallied.checked_replies}
    assert tallied.latency.count + tallied.checked_replies == tallied.scheduled == 1000
    assert "could not be checked" in tallied.examples["content"]


@pytest.mark.parametrize("pool_size", [2, 16, 61, 64, 100])
def test_every_request_of_a_pool_has_its_replies_checked(pool_size: int) -> None:
    """Whatever the pool's size, no place in it escapes the sample."""
    places = set(accumulate(islice(gaps(), 40 * pool_size)))
    assert {place % pool_size for place in places} == set(range(pool_size))


def test_the_window_has_checks_of_its_own() -> None:
    """The first 8 queries of the window are checked again, after those of the warm-up."""
    drill = Drill(after(0), step=replace(A_STEP, warm_up_ns=SECOND, min_duration_ns=SECOND // 10))
    tallied = drill.run()
    assert tallied.warm_up_queries > 0
    assert tallied.checked_replies >= 8


def test_a_timeout_at_the_end_is_no_drain() -> None:
    """The window's drain lasts to the last answer, not to the time-out of one that never came."""
    slow = 70 * SECOND  # beyond the time-out
    drill = Drill(lambda index, _: Answer(slow if index == 999 else MILLISECOND), connections=9)
    assert drill.run().errors == {"timeout": 1}
    assert drill.driver.last_reply_ns < drill.driver.window_ns + 11 * SECOND


def test_errors_are_not_in_the_latencies() -> None:
    """A failed query counts by its kind with the first message, and in no distribution."""
    drill = Drill(lambda i, _: Answer(50 * MILLISECOND if i % 2 else 0, BAD if i % 2 else None))
    tallied = drill.run()
    assert tallied.errors == {"status": 500}
    assert tallied.examples == {"status": BAD.message}
    assert tallied.service_time.max_ns == 0
    assert tallied.latency.count == tallied.service_time.count == 500


@pytest.mark.parametrize(("delay_ms", "places"), [(1, 1), (25, 3)])
def test_queries_are_spread_evenly_and_places_are_used_again(delay_ms: int, places: int) -> None:
    """Connections take turns, and memory for queries in flight does not grow with their number."""
    drill = Drill(after(delay_ms * MILLISECOND), connections=4, capacity=2)
    drill.run()
    per_connection = [0] * 4
    for sent in drill.server.sent:
        per_connection[sent.connection] += 1
    assert per_connection == [250] * 4
    assert len(drill.driver._since) == places


def test_windows_cover_each_second() -> None:
    """A second's window has the queries that were due and those that were answered in it."""
    windows = Drill(after(5 * MILLISECOND)).run().windows.report(open_loop=True)
    assert [window.duration_milliseconds for window in windows] == [1000] * 10
    assert [window.scheduled for window in windows] == [100] * 10
    assert [window.succeeded for window in windows] == [100] * 10
    assert {window.max_nanoseconds for window in windows} == {5 * MILLISECOND}


@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**16),
    connections=st.integers(1, 4),
    capacity=st.integers(1, 3),
    timeout_ms=st.integers(5, 200),
    open_loop=st.booleans(),
)
def test_every_query_is_accounted_for_once(
    seed: int, connections: int, capacity: int, timeout_ms: int, *, open_loop: bool
) -> None:
    """Whatever the server does, each query is answered or failed once, none twice."""
    random = generator(seed, Stream.INPUTS)

    def any_answer(_index: int, _now: int) -> Answer:
        loss_reason = random.random()
        if loss_reason < 0.05:
            return Answer(None)
        delay = int(random.exponential(30 * MILLISECOND))
        return Answer(delay, BAD if loss_reason < 0.2 else None)

    drill = Drill(
        any_answer,
        replace(A_STEP, warm_up_ns=SECOND, min_duration_ns=3 * SECOND),
        200_000 if open_loop else None,
        connections,
        capacity,
        timeout_ms * MILLISECOND,
        poisson=True,
    )
    tallied = drill.run(
        {
            2 * SECOND: lambda d: d.server.lose(CUT),
            2 * SECOND + 300 * MILLISECOND: lambda d: d.server.come_back(),
        }
    )
    total = tallied.latency.count + tallied.errors.total()
    assert drill.end is End.DONE
    if open_loop:
        assert total == tallied.scheduled
    else:
        assert total + tallied.warm_up_queries == len(drill.server.sent)
    assert tallied.latency.max_ns <= timeout_ms * MILLISECOND + MILLISECOND
    answered = sum(window.succeeded for window in tallied.windows.report(open_loop=open_loop))
    assert answered == tallied.latency.count
