"""Is a server that stood still told from one whose latencies are only random?"""

import numpy as np
import pytest

from inferometer_api.results.result import ClientHealth, WorkerShare
from inferometer_loadgen.record.histogram import Histogram
from support.judged_steps import CLOSED, MS, SECOND, a_step, names, silent, times, verdict, workers


def is_stalled(milliseconds: "np.typing.ArrayLike") -> bool:
    """Judge a closed loop of one client with these latencies: each is a silence."""
    histogram = Histogram()
    histogram.add(np.rint(np.asarray(milliseconds) * 1e6).astype(np.int64))
    step = a_step(
        succeeded=histogram.count,
        latency=histogram.distribution(),
        longest_silence_nanoseconds=histogram.max_ns,
    )
    return "ServerStall" in names(verdict(step, **CLOSED))


@pytest.mark.parametrize("service_ms", [1, 50, 250, 400, 550])
def test_one_stall_in_a_minute_is_told(service_ms: int) -> None:
    """A query of 2 s more is told beside whatever service, where no percentile has it."""
    usual = np.full(58_000 // service_ms, service_ms)
    assert is_stalled([*usual, 2000 + service_ms])
    assert not is_stalled(usual)


@pytest.mark.parametrize("count", [30, 101, 150, 250, 1000, 10_000])
def test_random_latencies_are_no_stall(count: int) -> None:
    """Of 500 runs at exponential latencies of 0.5 s at most 2 are told to have stood still."""
    random = np.random.default_rng(count)
    found = sum(is_stalled(random.exponential(500, count)) for _ in range(500))
    assert found <= 2  # 1 in 1,000 is to be expected, and the seeds are fixed


def test_a_slow_query_beside_others_is_no_stall() -> None:
    """Whoever was answered meanwhile came, and is in the percentiles."""
    latency = times(50 * MS).model_copy(update={"max_nanoseconds": 5 * SECOND})
    step = a_step(latency=latency, longest_silence_nanoseconds=70 * MS)
    assert names(verdict(step, **CLOSED)) == []


def test_a_stall_is_told_by_what_was_seen_of_it() -> None:
    """Of a fleet it is what all workers had in common."""
    (reason,) = verdict(silent(2_007 * MS), **CLOSED).reasons
    assert reason.message.startswith(
        "No query was answered for 2.007 s beside a P99 of 50 ms, and what would have come"
    )
    assert "meanwhile was never sent and is in no percentile" in reason.message
    (reason,) = verdict(silent(2_007 * MS, workers=workers(0, 0)), **CLOSED).reasons
    assert reason.message.startswith("No query was answered for 2.007 s beside a P99 of 50 ms")


def test_a_fleet_stood_still_where_each_of_its_workers_did() -> None:
    """An answer to any of them ends a silence: one worker that was stopped explains none."""
    facts = [ClientHealth(wake_up_lag_max_nanoseconds=each) for each in (2 * SECOND, 50 * MS)]
    for asleep, rule in (((0, 0), "ClientStall"), ((0, 1), "ServerStall")):
        shares = [
            share.model_copy(update={"client": facts[which]})
            for share, which in zip(workers(0, 0), asleep, strict=True)
        ]
        # Who had no part in the step slept through nothing.
        idle = shares[0].model_copy(update={"client": facts[1], "queries": 0})
        (reason,) = verdict(silent(2_007 * MS, workers=[*shares, idle]), **CLOSED).reasons
        assert (reason.rule, reason.figure) == (rule, "2.007 s")
    told = verdict(silent(2_007 * MS, client=facts[0]), **CLOSED).reasons[0].message
    assert told.startswith(
        "The load generator itself stood still for 2 s: it took up no answer for 2.007 s beside a "
        "P99 of 50 ms, and what would have come meanwhile was never sent"
    )


@pytest.mark.parametrize("shares", [[], workers(0, 0)], ids=["one", "fleet"])
def test_a_server_that_refuses_while_it_answers_nobody_is_told_so(
    shares: list[WorkerShare],
) -> None:
    """Where queries failed nobody reads that none was sent meanwhile."""
    judged = verdict(silent(2_007 * MS, failed=1, workers=shares), **CLOSED)
    (reason,) = (each for each in judged.reasons if each.rule == "ServerStall")
    assert reason.message.startswith(
        "No query was answered well for 2.007 s beside a P99 of 50 ms, and what came meanwhile "
        "failed, or was never sent, and is in no percentile."
    )
