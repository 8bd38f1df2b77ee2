"""A server that stood still is distinguished from one with random latencies."""

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
def test_one_stall_in_a_minute_is_found(service_ms: int) -> None:
    """One query that takes 2 s more is found, although no percentile shows it."""
    usual = np.full(58_000 // service_ms, service_ms)
    assert is_stalled([*usual, 2000 + service_ms])
    assert not is_stalled(usual)


@pytest.mark.parametrize("count", [30, 101, 150, 250, 1000, 10_000])
def test_random_latencies_are_no_stall(count: int) -> None:
    """Of 500 runs with exponential latencies of 0.5 s at most 2 violate ServerStall."""
    random = np.random.default_rng(count)
    found = sum(is_stalled(random.exponential(500, count)) for _ in range(500))
    assert found <= 2  # 1 in 1,000 is to be expected, and the seeds are fixed


def test_a_slow_query_among_others_is_not_a_stall() -> None:
    """Other answers during a slow query show that the server did not stand still."""
    latency = times(50 * MS).model_copy(update={"max_nanoseconds": 5 * SECOND})
    step = a_step(latency=latency, longest_silence_nanoseconds=70 * MS)
    assert names(verdict(step, **CLOSED)) == []


def test_a_stall_is_reported_with_length_and_limit() -> None:
    """A fleet reports the silence that all its workers share."""
    (reason,) = verdict(silent(2_007 * MS), **CLOSED).reasons
    assert reason.message.startswith(
        "No query was answered for 2.007 s, with a P99 latency of 50 ms; the limit is 1.05 s."
    )
    assert "so the affected queries are in no percentile" in reason.message
    (reason,) = verdict(silent(2_007 * MS, workers=workers(0, 0)), **CLOSED).reasons
    assert reason.message.startswith(
        "No query was answered for 2.007 s, with a P99 latency of 50 ms"
    )


def test_a_fleet_stood_still_if_each_of_its_workers_did() -> None:
    """One stopped worker does not explain a silence, since an answer to any other ends it."""
    facts = [ClientHealth(wake_up_lag_max_nanoseconds=each) for each in (2 * SECOND, 50 * MS)]
    for asleep, rule in (((0, 0), "ClientStall"), ((0, 1), "ServerStall")):
        shares = [
            share.model_copy(update={"client": facts[which]})
            for share, which in zip(workers(0, 0), asleep, strict=True)
        ]
        # A worker without a share does not count.
        idle = shares[0].model_copy(update={"client": facts[1], "queries": 0})
        (reason,) = verdict(silent(2_007 * MS, workers=[*shares, idle]), **CLOSED).reasons
        assert (reason.rule, reason.figure) == (rule, "2.007 s")
    message = verdict(silent(2_007 * MS, client=facts[0]), **CLOSED).reasons[0].message
    assert message.startswith(
        "The load generator itself stood still for 2 s: it read no answer for 2.007 s, with a P99 "
        "latency of 50 ms; the limit is 1.05 s."
    )


@pytest.mark.parametrize("shares", [[], workers(0, 0)], ids=["one", "fleet"])
def test_a_silence_with_failed_queries_mentions_them(
    shares: list[WorkerShare],
) -> None:
    """With failed queries, the message says that none was answered successfully."""
    judged = verdict(silent(2_007 * MS, failed=1, workers=shares), **CLOSED)
    (reason,) = (each for each in judged.reasons if each.rule == "ServerStall")
    assert reason.message.startswith(
        "No query was answered successfully for 2.007 s, with a P99 latency of 50 ms; the limit is "
        "1.05 s."
    )
