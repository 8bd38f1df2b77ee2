"""Steps of a scenario, with the length of each."""

from dataclasses import dataclass
from enum import Enum
from typing import Any

from inferometer_api.scenarios.scenario_kind import ScenarioKind
from inferometer_api.scenarios.step_setting import (
    FIRST_QUERIES,
    ONE_CLIENT,
    Bursts,
    Closed,
    JudgedPercentile,
    Open,
    Steady,
    StepInputs,
    StepSetting,
)
from inferometer_api.scenarios.table import SCENARIOS, effective_validity, step_settings
from inferometer_api.spec.scenario import Scenario, Validity

SECOND_NS = 1_000_000_000
MIN_QUERIES_PER_STEP = 10


class End(Enum):
    """Why a step ended."""

    DONE = "both minimums held"
    MAX_DURATION = "the maximum duration was reached"
    INTERRUPTED = "the run was ended from outside"
    SERVER_LOST = "no connection to the server could be made"
    WORKER_LOST = "a worker of the fleet was lost"
    DECIDED = "the probe was decided"
    FAILED = "the run failed"
    SAMPLE_ERROR = "a sample could not be processed (onSampleError: Stop)"


@dataclass(frozen=True, slots=True)
class LoadShare:
    """A worker's share of a step: the arrivals k with k % workers == index."""

    index: int = 0
    workers: int = 1

    def of(self, amount: int) -> int:
        """Return this worker's share of a number; the first workers take the remainder."""
        return amount // self.workers + (self.index < amount % self.workers)


WHOLE_LOAD = LoadShare()


@dataclass(frozen=True, slots=True)
class StepPlan:
    """One measurement at one setting: its load, and the conditions for its end."""

    label: str
    batch_size: int
    warm_up_ns: int
    """With `until_steady`, the minimum."""
    min_duration_ns: int
    max_duration_ns: int
    min_queries: int
    seed: int = 0
    loop: Closed | Open = ONE_CLIENT
    until_steady: bool = False
    judged: JudgedPercentile | None = None
    is_probe: bool = False
    """Whether it is a probe of a search, which has its own rules for the end."""
    runs_to_completion: bool = False
    """For a probe: whether it runs to its last query, even if it is decided before."""
    ends_with_fleet: bool = False
    """For a worker's part of a closed loop: whether its window ends by order of the fleet."""
    first_queries: int = FIRST_QUERIES
    """Queries before the warm-up, one by one."""


def plan_steps(
    scenario: Scenario, validity: Validity, seed: int, trace_file: str = ""
) -> list[StepPlan]:
    """Return the steps of a scenario in order; those of `findPeak` are planned as it runs.

    In `batch` and `concurrency` each step has an equal share of the warm-up, of both minimums and
    of the maximum, and at least 10 queries; in `batch` the minimum counts samples. The minimum of
    `offline` is its number of samples. With MLPerf's rules no minimum is below MLPerf's.
    `trace_file` is the path of a trace.
    """
    kind = SCENARIOS[scenario.kind]
    mlperf = kind.mlperf if validity.rules == "MLPerf" else None
    least = 1 if mlperf is None else mlperf.samples
    settings = step_settings(scenario, StepInputs(trace_file, least))
    minimums = effective_validity(scenario, validity)
    return [_step(each, kind, minimums, len(settings), seed) for each in settings]


def target_qps(plan: StepPlan) -> float | None:
    """Return the mean target rate in queries a second; None for closed loops and traces."""
    match plan.loop:
        case Open(arrivals=Steady(milli_qps=rate)):
            return rate / 1000
        case Open(arrivals=Bursts() as setting):
            bursts = setting.burst_ns / setting.period_ns
            return (bursts * setting.burst_milli_qps + (1 - bursts) * setting.base_milli_qps) / 1000
        case _:
            return None


def sufficient_samples(plan: StepPlan, duration_ns: int) -> int:
    """Return how many samples `offline` should send to reach its minimum duration.

    It assumes the measured rate plus a tenth, since two runs are never equally fast.
    """
    sent = plan.min_queries * plan.batch_size
    return _share(11 * sent * plan.min_duration_ns, 10 * max(1, duration_ns))


def _step(
    setting: StepSetting, kind: ScenarioKind[Any], validity: Validity, step_count: int, seed: int
) -> StepPlan:
    return StepPlan(
        label=setting.label,
        batch_size=setting.batch_size,
        warm_up_ns=validity.warm_up_seconds * SECOND_NS // step_count,
        min_duration_ns=validity.min_duration_seconds * SECOND_NS // step_count,
        max_duration_ns=validity.max_duration_seconds * SECOND_NS // step_count,
        min_queries=_min_queries(setting, kind, validity.min_queries, step_count),
        seed=seed,
        loop=setting.loop,
        until_steady=validity.warm_up == "UntilSteady",
        judged=setting.judged,
        first_queries=setting.first_queries,
    )


def _min_queries(
    setting: StepSetting, kind: ScenarioKind[Any], minimum: int, step_count: int
) -> int:
    if isinstance(setting.loop, Closed) and setting.loop.total_queries is not None:
        return setting.loop.total_queries
    if kind.steps == "one":
        return minimum
    share = _share(minimum, step_count)
    if kind.counts == "samples":
        share = _share(share, setting.batch_size)
    return max(MIN_QUERIES_PER_STEP, share)


def _share(amount: int, parts: int) -> int:
    return -(-amount // parts)
