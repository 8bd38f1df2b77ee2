"""Every Nth query of a window is traced, with its own times, in virtual time."""

import io
from dataclasses import replace
from itertools import count, pairwise

import pytest

from inferometer_loadgen.record.request_log import RequestLog
from inferometer_loadgen.record.request_tracer import RequestTracer
from inferometer_loadgen.wire import ReplyBody
from support.drills import A_STEP, BAD, Drill, after
from support.simulated import MILLISECOND, SECOND, Answer

EVERY = 7


def a_tracer() -> RequestTracer:
    """Return a tracer whose IDs are numbers."""
    numbers = count(1)
    return RequestTracer(EVERY, lambda size: next(numbers).to_bytes(size, "big"))


def mixed(index: int, _now: int) -> Answer:
    """Answer each query after a time of its own."""
    return Answer((1 + index % 5) * MILLISECOND)


@pytest.mark.parametrize("milli_qps", [100_000, None], ids=["open loop", "closed loop"])
def test_every_nth_query_of_the_window_is_traced(milli_qps: int | None) -> None:
    """Each carries its own traceparent, and its latency is the one that was recorded."""
    step = replace(A_STEP, warm_up_ns=SECOND)
    drill = Drill(mixed, step, milli_qps=milli_qps, capacity=4, tracer=a_tracer())
    statistics = drill.run()
    traces = drill.driver.traces
    queries = statistics.latency.count
    assert queries > 100
    assert len(traces) == pytest.approx(queries / EVERY, abs=5)
    sent = drill.server.traceparents
    assert {trace.traceparent for trace in traces} <= set(sent.values())
    assert len(set(sent.values())) == len(sent)
    numbers = {parent: number for number, parent in sent.items()}
    for trace in traces:
        number = numbers[trace.traceparent]
        assert trace.due_ns >= drill.driver.window_ns
        assert trace.due_ns <= trace.sent_ns <= trace.written_ns <= trace.answered_ns
        assert trace.sent_ns == drill.server.sent[number].at_ns
        assert trace.answered_ns - trace.sent_ns == (1 + number % 5) * MILLISECOND
        assert trace.first_byte_ns == trace.answered_ns
        assert trace.status == "ok"
    order = sorted(numbers[trace.traceparent] for trace in traces)
    assert {later - earlier for earlier, later in pairwise(order)} == {EVERY}


def test_waiting_is_part_of_a_traced_query() -> None:
    """A query that finds no free connection is sent later than it is due.

    One is due every 20 ms, and the only connection takes 25 ms for each: each waits 5 ms longer.
    """
    drill = Drill(after(15 * MILLISECOND), milli_qps=50_000, tracer=a_tracer())
    drill.run()
    assert {trace.sent_ns - trace.due_ns for trace in drill.driver.traces} == {0}
    full = Drill(after(25 * MILLISECOND), milli_qps=50_000, tracer=a_tracer())
    full.run()
    numbers = {parent: number for number, parent in full.server.traceparents.items()}
    assert len(numbers) > 20
    for trace in full.driver.traces:
        waited = trace.sent_ns - trace.due_ns
        assert waited == 5 * MILLISECOND * numbers[trace.traceparent]


def test_the_check_of_a_reply_delays_the_next_query_before_it_is_sent() -> None:
    """That time is a part of its wait, not of sending it, nor of the server's service time."""

    def check(_: ReplyBody) -> None:
        drill.loop.jump(drill.loop.now_ns() + 3 * MILLISECOND)

    drill = Drill(after(25 * MILLISECOND), milli_qps=50_000, tracer=a_tracer(), check=check)
    statistics = drill.run()
    numbers = {parent: number for number, parent in drill.server.traceparents.items()}
    traces = drill.driver.traces
    assert {numbers[trace.traceparent] for trace in traces} >= {EVERY - 1}
    for trace in traces:
        assert trace.sent_ns == drill.server.sent[numbers[trace.traceparent]].at_ns
        assert trace.written_ns == trace.sent_ns
    assert statistics.service_time.max_ns == 25 * MILLISECOND


def test_a_failed_query_has_its_kind_and_a_lost_one_no_trace() -> None:
    """Errors are kept with their kind; what timed out has no end, and is left out."""

    def answer(index: int, _now: int) -> Answer:
        if index % 3 == 0:
            return Answer(MILLISECOND, BAD)
        return Answer(None if index % 3 == 1 else MILLISECOND)

    tracer = a_tracer()
    drill = Drill(
        answer,
        milli_qps=100_000,
        capacity=200,
        timeout_ns=SECOND,
        tracer=tracer,
        check=lambda _: None,
    )
    drill.run()
    assert {trace.status for trace in drill.driver.traces} == {"ok", "status"}
    assert not tracer.in_flight


def test_without_a_tracer_no_query_carries_a_traceparent() -> None:
    """Nothing is added to the requests of a run that is not traced."""
    drill = Drill(after(MILLISECOND))
    drill.run()
    assert drill.server.traceparents == {}
    assert drill.driver.traces == []


def test_traces_and_the_log_of_requests_agree() -> None:
    """With both, the rows of the log hold the traced latencies."""
    file = io.StringIO()
    drill = Drill(mixed, milli_qps=None, tracer=a_tracer(), log=RequestLog(file))
    drill.run()
    assert drill.log is not None
    drill.log.write("s", 1, "")
    rows = [line.split(",") for line in file.getvalue().splitlines()[1:]]
    logged = {(int(row[3]), int(row[5])) for row in rows}
    window = drill.driver.window_ns
    traced = {(t.due_ns - window, t.answered_ns - window) for t in drill.driver.traces}
    assert traced
    assert traced <= logged
