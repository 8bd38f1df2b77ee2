"""Counts and latencies agree with those of a server that knows the answers."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pytest

from inferometer_api.results.result import Distribution, ScenarioResult, Step
from support.agreement import (
    above,
    below,
    closed_loop_bounds,
    exceptions_beyond,
    latencies,
    nearest_rank,
)
from support.load_runs import a_plan, measure
from support.oracle_process import Integers, OracleProcess, Seen, oracle_process

MS = 1_000_000
SEED = 20_261_121
BOTH = pytest.mark.parametrize("protocol", ["HTTP", "GRPC"])
APART_NS = 1_000 * MS
"""Delayed queries take so much longer than others that their latency separates the two, also
on a machine that others keep busy."""
AMPLE = {"HTTP": {"connections": 512}, "GRPC": {"connections": 2, "streamsPerConnection": 500}}
"""A layout in which no query waits for a connection, also where each takes seconds."""
HELD_UP_NS = 50 * MS
"""More than the wire costs half of all queries."""
LAWS = ("fixed", "exponential", "bimodal")


@pytest.fixture(scope="module")
def oracle() -> Iterator[OracleProcess]:
    """Give an oracle that all tests of this file give orders to in turn."""
    with oracle_process() as running:
        yield running


def delays_by(law: str, least_ns: int = 10 * MS) -> Integers:
    """Return delays of `least_ns` and more by a law: of each inference in turn."""
    random = np.random.default_rng(SEED)
    match law:
        case "fixed":
            return np.full(4096, least_ns)
        case "exponential":
            return least_ns + np.rint(random.exponential(8 * MS, 4096)).astype(np.int64)
        case _:
            return least_ns + np.where(random.random(4096) < 0.2, 25 * MS, 0)


def measured(
    oracle: OracleProcess,
    protocol: str,
    scenario: Mapping[str, Any],
    seconds: int = 1,
    **load: object,
) -> tuple[ScenarioResult, Step, Seen]:
    """Measure one scenario of one step; return both and the window's inferences, by receipt."""
    plan = a_plan(
        oracle.url(protocol),
        scenario,
        load={"seed": SEED, **load},
        validity={"minDurationSeconds": seconds},
    )
    run = measure(plan)
    assert run.exit_code == 0, run.outcome.message
    (scenario_result,) = run.scenarios
    (step,) = scenario_result.steps
    seen = oracle.report()
    # Counts are equal, exactly: nothing is lost, nothing is counted twice.
    assert len(seen) == step.counts.queries + step.warm_up_queries
    assert step.counts.failed == 0
    assert (seen.sent > 0).all()
    return scenario_result, step, seen[step.warm_up_queries :]


def assert_percentiles(of: Distribution) -> None:
    """Percentiles are the histogram's own values of nearest rank."""
    ours = latencies(of)
    for each in of.percentiles:
        high = int(ours.high[nearest_rank(each.percentile, of.count) - 1])
        assert each.nanoseconds == min(high, of.max_nanoseconds), each.percentile


@BOTH
@pytest.mark.parametrize("law", ["at once", *LAWS])
def test_one_client_sees_the_oracles_times_within_its_gaps(
    oracle: OracleProcess, note: Callable[[str], None], protocol: str, law: str
) -> None:
    """With one query at a time every latency lies between the oracle's time and its two gaps."""
    delays = np.zeros(1, np.int64) if law == "at once" else delays_by(law)
    oracle.obey(delays)
    _, step, seen = measured(oracle, protocol, {"singleStream": {}})
    assert step.latency is not None
    ours = latencies(step.latency)
    most = closed_loop_bounds(seen)
    assert below(ours, seen.own) == 0
    assert above(ours, most) == 0
    assert seen.own.mean() <= step.latency.mean_nanoseconds + 1
    # The ends are without a gap on one side, and the window's own length bounds them together.
    assert step.latency.mean_nanoseconds * len(seen) <= step.duration_nanoseconds + len(seen)
    assert_percentiles(step.latency)
    costs = (most - seen.own)[1:-1]
    note(f"seed {SEED}, {len(seen)} queries, the wire's cost at most {_microseconds(costs)}")


@BOTH
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("arrivals", ["Poisson", "Constant"])
def test_open_loop_latencies_are_the_oracles_and_the_wires(
    oracle: OracleProcess,
    note: Callable[[str], None],
    require_quiet: Callable[[], None],
    protocol: str,
    law: str,
    arrivals: str,
) -> None:
    """What a delayed query costs beyond its delay is what one that is answered at once costs.

    A coin decides which of them are answered at once; so the two kinds meet the same disturbances
    (but in the drain, of delayed ones alone), and of both the same share may be slower than any
    limit, but for chance.
    """
    random = np.random.default_rng(SEED)
    delays = delays_by(law, APART_NS) * (random.random(4096) < 0.5)
    oracle.obey(delays)
    scenario = {"server": {"targetQps": 150, "arrivals": arrivals}}
    _, step, seen = measured(oracle, protocol, scenario, seconds=4, **AMPLE[protocol])
    assert step.latency is not None
    assert step.counts.scheduled == len(seen)
    ours = latencies(step.latency)
    assert below(ours, seen.own) == 0
    assert_percentiles(step.latency)
    at_once = (seen.due == seen.received).sum()
    delayed = len(seen) - int(at_once)
    # Waking from a sleep costs a delayed one as well; the oracle's own timers note how much.
    woken = np.sort((seen.sent - seen.due)[seen.due > seen.received])
    require_quiet()
    assert ours.high[at_once // 2] < HELD_UP_NS
    judged: list[int] = []
    for rank in (1, 4, int(at_once) // 20, int(at_once) // 4, int(at_once) // 2):
        cost = int(ours.high[at_once - rank])
        assert cost < APART_NS
        cost += int(woken[delayed - max(1, rank * delayed // int(at_once))])
        exceptions = rank - 1 + exceptions_beyond(rank, int(at_once), delayed)
        assert above(ours, seen.own + cost, exceptions) == 0, (rank, cost)
        judged.append(cost)
    note(f"seed {SEED}, {len(seen)} queries, the wire's cost {_microseconds(np.array(judged))}")


def _microseconds(costs: Integers) -> str:
    low, high = (round(int(each) / 1000) for each in np.quantile(costs, (0.5, 1)))
    return f"{low} us in the median, {high} us once"
