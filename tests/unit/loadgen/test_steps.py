"""Steps of each kind of scenario, and their connections."""

from dataclasses import replace
from typing import Any

import pytest
from pydantic import TypeAdapter

from inferometer_api.scenarios.step_setting import (
    Bursts,
    Closed,
    JudgedPercentile,
    Open,
    Steady,
    TraceArrivals,
)
from inferometer_api.spec.load import Load
from inferometer_api.spec.scenario import Scenario, Validity
from inferometer_loadgen.schedule.layout import ConnectionLayout, connection_layout, worker_part
from inferometer_loadgen.schedule.steps import (
    SECOND_NS,
    LoadShare,
    StepPlan,
    plan_steps,
    sufficient_samples,
    target_qps,
)

VALIDITY = Validity(
    warm_up_seconds=6,
    min_duration_seconds=60,
    max_duration_seconds=600,
    min_queries=1000,
)


def steps(validity: Validity = VALIDITY, **scenario: Any) -> list[StepPlan]:
    """Return the steps of a scenario with seed 7."""
    return plan_steps(Scenario.model_validate({"name": "s", **scenario}), validity, 7, "/a.csv")


def only(**scenario: Any) -> StepPlan:
    """Return the step of a scenario that has one."""
    (step,) = steps(**scenario)
    return step


def test_each_kind_has_its_loop_and_percentile() -> None:
    """Closed loops have their clients, open ones their arrivals, and some a percentile."""
    single = only(singleStream={})
    assert (single.loop, single.judged, single.batch_size) == (Closed(), JudgedPercentile(90.0), 1)
    multi = only(multiStream={"samplesPerQuery": 8})
    assert (multi.loop, multi.judged, multi.batch_size) == (Closed(), JudgedPercentile(99.0), 8)
    assert multi.min_queries == 1000
    server = only(
        server={
            "targetQps": "12.5",
            "arrivals": "Constant",
            "latencyBoundMicroseconds": 200,
            "percentile": "P99.9",
        }
    )
    assert server.loop == Open(Steady("Constant", 12_500))
    assert server.judged == JudgedPercentile(99.9, 200_000)
    burst = only(burst={"baseQps": 5, "burstQps": "40.5", "burstSeconds": 2, "periodSeconds": 10})
    assert burst.loop == Open(Bursts(5000, 40_500, 2 * SECOND_NS, 10 * SECOND_NS))
    trace = only(trace={"uri": "file:a.csv", "timeScale": "0.5"})
    assert trace.loop == Open(TraceArrivals("/a.csv", 500))
    assert [target_qps(step) for step in (single, server, trace)] == [None, 12.5, None]
    assert target_qps(burst) == pytest.approx(0.2 * 40.5 + 0.8 * 5)
    assert {step.seed for step in (single, multi, server, burst, trace)} == {7}
    assert steps(findPeak={"latencyBoundMicroseconds": 1000}) == []


def test_clients_share_the_minimums() -> None:
    """Each number of clients is a step with an equal share of the time and at least 10 queries."""
    found = steps(concurrency={"clients": [1, 4, 16]})
    assert [step.label for step in found] == ["clients 1", "clients 4", "clients 16"]
    assert [step.loop for step in found] == [Closed(clients=number) for number in (1, 4, 16)]
    assert {step.min_queries for step in found} == {334}
    assert {step.warm_up_ns for step in found} == {2 * SECOND_NS}
    assert {step.min_duration_ns for step in found} == {20 * SECOND_NS}
    small_validity = VALIDITY.model_copy(update={"min_queries": 3})
    assert {
        step.min_queries for step in steps(small_validity, concurrency={"clients": [1, 4]})
    } == {10}


def test_the_minimum_of_a_batch_counts_samples() -> None:
    """A batch of eight needs an eighth of the queries."""
    found = steps(batch={"batchSizes": [1, 8]})
    assert [step.min_queries for step in found] == [500, 63]


def test_offline_has_its_samples_for_a_minimum() -> None:
    """The minimum number of queries does not apply: all samples are sent."""
    step = only(offline={"samples": 1001, "batchSize": 8})
    assert step.loop == Closed(clients=None, total_queries=126)
    assert (step.min_queries, step.batch_size) == (126, 8)
    # A tenth more than what 40 s took, to last 60 s.
    assert sufficient_samples(step, 40 * SECOND_NS) == -(-126 * 8 * 60 * 11 // (40 * 10))


def test_a_warm_up_lasts_until_steady_if_requested() -> None:
    """Every step of every kind has the setting."""
    until = VALIDITY.model_copy(update={"warm_up": "UntilSteady"})
    scenarios: tuple[dict[str, Any], ...] = ({"singleStream": {}}, {"batch": {"batchSizes": [1]}})
    for scenario in scenarios:
        assert all(step.until_steady for step in steps(until, **scenario))
        assert not any(step.until_steady for step in steps(**scenario))


def test_a_step_travels_as_json() -> None:
    """A decoded step equals the encoded one."""
    adapter = TypeAdapter(StepPlan)
    scenarios: tuple[dict[str, Any], ...] = (
        {"server": {"targetQps": 3, "latencyBoundMicroseconds": 5}},
        {"burst": {"baseQps": 5, "burstQps": 40, "burstSeconds": 2, "periodSeconds": 10}},
        {"trace": {"uri": "file:a.csv"}},
        {"offline": {}},
        {"concurrency": {"clients": [3]}},
    )
    for scenario in scenarios:
        for step in steps(**scenario):
            assert adapter.validate_json(adapter.dump_json(step)) == step


@pytest.mark.parametrize(
    ("protocol", "loop", "share", "expected"),
    [
        ("HTTP", Open(Steady("Poisson", 1)), LoadShare(), ConnectionLayout(5, 1)),
        ("GRPC", Open(Steady("Poisson", 1)), LoadShare(), ConnectionLayout(5, 7)),
        ("HTTP", Closed(None, 9), LoadShare(), ConnectionLayout(5, 1)),
        ("GRPC", Closed(None, 9), LoadShare(), ConnectionLayout(5, 7)),
        ("HTTP", Closed(1), LoadShare(), ConnectionLayout(1, 1)),
        ("GRPC", Closed(1), LoadShare(), ConnectionLayout(1, 1)),
        ("HTTP", Closed(12), LoadShare(), ConnectionLayout(12, 1)),
        ("GRPC", Closed(12), LoadShare(), ConnectionLayout(5, 3)),
        ("GRPC", Closed(3), LoadShare(), ConnectionLayout(3, 1)),
        ("HTTP", Open(Steady("Poisson", 1)), LoadShare(0, 2), ConnectionLayout(3, 1)),
        ("HTTP", Open(Steady("Poisson", 1)), LoadShare(1, 2), ConnectionLayout(2, 1)),
        ("HTTP", Open(Steady("Poisson", 1)), LoadShare(6, 8), ConnectionLayout(1, 1)),
        ("GRPC", Closed(6), LoadShare(0, 2), ConnectionLayout(3, 2)),
    ],
)
def test_connections_have_room_for_the_loop(
    protocol: str, loop: Closed | Open, share: LoadShare, expected: ConnectionLayout
) -> None:
    """Open loops have the requested connections; clients have one each, or share them."""
    load = Load.model_validate({"protocol": protocol, "connections": 5, "streamsPerConnection": 7})
    assert connection_layout(load, loop, share) == expected


@pytest.mark.parametrize("workers", [1, 2, 3, 7])
def test_shares_of_a_closed_loop_add_up(workers: int) -> None:
    """Clients and queries are split without loss; an open loop's stay as they are."""
    step = replace(only(singleStream={}), loop=Closed(16, 101), min_queries=1003)
    parts = [worker_part(step, LoadShare(index, workers)) for index in range(workers)]
    loops = [part.loop for part in parts if isinstance(part.loop, Closed)]
    assert sum(loop.clients or 0 for loop in loops) == 16
    assert sum(loop.total_queries or 0 for loop in loops) == 101
    assert not any(part.ends_with_fleet for part in parts), "each ends with its last query"
    unlimited = worker_part(replace(step, loop=Closed(None)), LoadShare(0, workers))
    assert unlimited.loop == Closed(None)
    assert unlimited.ends_with_fleet == (workers > 1)
    by_schedule = only(server={"targetQps": 3})
    assert worker_part(by_schedule, LoadShare(0, workers)) == by_schedule


@pytest.mark.parametrize(("clients", "workers"), [(16, 1), (3, 2), (16, 7), (5, 5)])
def test_workers_with_fewer_clients_have_fewer_queries_to_answer(
    clients: int, workers: int
) -> None:
    """Each client has the same number, so that all workers end at the same time."""
    step = replace(only(singleStream={}), loop=Closed(clients), min_queries=1003)
    parts = [worker_part(step, LoadShare(index, workers)) for index in range(workers)]
    assert sum(part.min_queries for part in parts) >= 1003
    for part in parts:
        assert isinstance(part.loop, Closed)
        assert 0 <= part.min_queries - 1003 * (part.loop.clients or 0) / clients < 1
