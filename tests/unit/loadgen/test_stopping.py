"""A step reports early stopping, and MLPerf's rules raise its minimums."""

import numpy as np
import pytest

from inferometer_api.scenarios.step_setting import Closed, JudgedPercentile
from inferometer_api.spec.mlperf import fewest_queries
from inferometer_api.spec.scenario import Scenario, Validity
from inferometer_loadgen.record.recorder import Recorder, StepStatistics
from inferometer_loadgen.run.step_result import early_stopping
from inferometer_loadgen.schedule.steps import SECOND_NS, plan_steps
from inferometer_loadgen.verdict.early_stopping import required_queries

MS = 1_000_000


def tallied(
    milliseconds: list[int], *, failed: int = 0, bound_ns: int | None = None
) -> StepStatistics:
    """Return what was counted of queries with these latencies, and of failed ones."""
    recorder = Recorder(bound_ns)
    recorder.latencies.extend(each * MS for each in milliseconds)
    for _ in range(failed):
        recorder.fail("status", "")
    recorder.flush()
    return recorder.statistics


def test_with_a_bound_it_reports_the_queries_needed() -> None:
    """One answer that is late and one failed are two overshoots: at P90 it takes 81 queries."""
    found = early_stopping(
        JudgedPercentile(90.0, 10 * MS), tallied([10] * 97 + [11], failed=1, bound_ns=10 * MS)
    )
    assert found is not None
    assert (found.queries, found.overshoots, found.required_queries) == (99, 2, 81)
    assert (found.latency_bound_nanoseconds, found.estimate_nanoseconds) == (10 * MS, None)


@pytest.mark.parametrize(
    ("queries", "failed", "discarded", "estimate_ms"),
    [
        # LoadGen's t is the most overshoots that the queries allow; it takes sorted[queries - t].
        (63, 0, 0, None),
        (64, 0, 0, 64),
        (80, 0, 0, 80),
        (81, 0, 1, 80),
        (97, 0, 2, 95),
        (96, 1, 2, 95),  # a failed query is later than every answer: one of the two discarded
        (94, 3, 2, None),
    ],
)
def test_without_a_bound_it_estimates_the_percentile_as_loadgen_does(
    queries: int, failed: int, discarded: int, estimate_ms: int | None
) -> None:
    """The estimate is the highest latency but those that may be beyond it."""
    found = early_stopping(
        JudgedPercentile(90.0), tallied(list(range(1, queries + 1)), failed=failed)
    )
    assert found is not None
    assert (found.queries, found.overshoots) == (queries + failed, discarded)
    assert found.required_queries == (64 if queries < 64 else None)
    if estimate_ms is None:
        assert found.estimate_nanoseconds is None
    else:
        assert np.isclose(found.estimate_nanoseconds or 0, estimate_ms * MS, rtol=0.001)


@pytest.mark.parametrize("percentile", [50.0, 90.0, 95.0, 97.0, 99.0, 99.9])
def test_a_run_is_doubted_by_the_same_number_of_queries(percentile: float) -> None:
    """The queries announced before a run are those that early stopping requires after it."""
    assert fewest_queries(percentile) == required_queries(0, percentile)


def test_without_a_percentile_there_is_nothing_to_say() -> None:
    """Throughput by batch size is judged by no percentile."""
    assert early_stopping(None, tallied([1])) is None


def a_validity(**values: int) -> Validity:
    """Return MLPerf's rules with these minimums of a run's own."""
    return Validity(rules="MLPerf", **values)  # type: ignore[arg-type]  # the numbers


@pytest.mark.parametrize(
    ("member", "seconds", "queries"),
    [
        ({"singleStream": {}}, 600, 100),
        ({"multiStream": {}}, 600, 662),
        ({"server": {"targetQps": 10}}, 600, 100),
        ({"batch": {"batchSizes": [1]}}, 60, 10),
        ({"burst": {"baseQps": 1, "burstQps": 2, "burstSeconds": 1, "periodSeconds": 2}}, 60, 10),
    ],
)
def test_mlperfs_minimums_hold_where_they_are_higher(
    member: dict[str, object], seconds: int, queries: int
) -> None:
    """Each scenario that MLPerf has takes its duration and queries; others keep the run's own."""
    scenario = Scenario.model_validate({"name": "s", **member})
    (step,) = plan_steps(scenario, a_validity(min_queries=10), seed=1)
    assert (step.min_duration_ns, step.min_queries) == (seconds * SECOND_NS, queries)
    assert step.max_duration_ns == 600 * SECOND_NS
    more = a_validity(min_queries=2000, min_duration_seconds=700, max_duration_seconds=800)
    (step,) = plan_steps(scenario, more, seed=1)
    assert (step.min_duration_ns, step.min_queries) == (700 * SECOND_NS, 2000)


@pytest.mark.parametrize(("samples", "sent"), [(1000, 3072), (80_000, 10_000)])
def test_mlperfs_offline_sends_its_samples(samples: int, sent: int) -> None:
    """At least 24,576 samples are sent, in requests of the requested batch size."""
    scenario = Scenario.model_validate(
        {"name": "s", "offline": {"samples": samples, "batchSize": 8}}
    )
    (step,) = plan_steps(scenario, a_validity(), seed=1)
    assert step.loop == Closed(clients=None, total_queries=sent)
    (step,) = plan_steps(scenario, Validity(), seed=1)
    assert step.loop == Closed(clients=None, total_queries=samples // 8)
