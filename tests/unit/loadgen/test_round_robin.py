"""Queries go to the servers in round-robin order, in virtual time."""

import pytest

from inferometer_loadgen.schedule.steps import End
from support.drills import CUT, Drill, after
from support.simulated import MILLISECOND, SECOND


@pytest.mark.parametrize("milli_qps", [None, 100_000])
def test_servers_share_queries_evenly(milli_qps: int | None) -> None:
    """Each of three servers gets every third query, however slow one of them is."""
    slow = [after(9 * MILLISECOND), after(35 * MILLISECOND)]
    drill = Drill(after(MILLISECOND), milli_qps=milli_qps, others=slow, connections=2)
    tallied = drill.run()
    counts = [len(server.sent) for server in drill.servers]
    assert max(counts) - min(counts) <= 1
    assert sum(counts) == tallied.latency.count
    assert {len(server.connections) for server in drill.servers} == {2}
    if milli_qps is None:
        order = sorted(
            (sent.at_ns, n) for n, server in enumerate(drill.servers) for sent in server.sent
        )
        assert [place for _, place in order[:6]] == [0, 1, 2, 0, 1, 2]


def test_a_slow_server_keeps_none_of_the_others_waiting() -> None:
    """Queries wait in the line of the server whose they are, and their wait is their latency."""
    drill = Drill(after(MILLISECOND), others=[after(30 * MILLISECOND)])
    tallied = drill.run()
    assert drill.end is End.DONE
    fast, slow = drill.servers
    assert [sent.at_ns for sent in fast.sent] == list(range(0, 10 * SECOND, 20_000_000))
    assert len(slow.sent) == len(fast.sent) == 500
    assert tallied.waited_for_connection == 499
    # A query every 20 ms, and 30 ms for each: the last one waits for 499 times 10 ms.
    assert tallied.latency.max_ns == (499 * 10 + 30) * MILLISECOND
    assert tallied.latency.min_ns == MILLISECOND


@pytest.mark.parametrize("milli_qps", [None, 100_000])
def test_one_server_of_several_that_is_lost_ends_the_step(milli_qps: int | None) -> None:
    """Three seconds without a connection to one server end the step, though others answer."""
    drill = Drill(after(MILLISECOND), milli_qps=milli_qps, others=[after(MILLISECOND)])
    drill.run({2 * SECOND: lambda drill: drill.servers[1].lose(CUT)})
    assert drill.end is End.SERVER_LOST
    assert drill.loop.now_ns() <= 6 * SECOND
