"""Which measurements is a scenario made of, and how long is each?"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Literal

from inferometer_api.document import milli
from inferometer_api.spec import mlperf
from inferometer_api.spec.scenario import Scenario, ServerLoad, Validity, percentile_value

SECOND_NS = 1_000_000_000
LEAST_QUERIES_OF_A_STEP = 10
SINGLE_STREAM_PERCENTILE = 90.0
MULTI_STREAM_PERCENTILE = 99.0
"""What MLPerf Inference judges these scenarios by."""


class End(Enum):
    """Why a step ended."""

    DONE = "both minimums held"
    MAX_DURATION = "the maximum duration was reached"
    INTERRUPTED = "the run was ended from outside"
    SERVER_LOST = "no connection to the server could be made"
    WORKER_LOST = "a worker of the fleet was lost"
    DECIDED = "what was probed is decided"
    FAILED = "the run failed"


@dataclass(frozen=True, slots=True)
class Closed:
    """Queries that are kept outstanding, the next sent as soon as one is answered."""

    clients: int | None = 1
    """How many; None: as many as the connections have room for."""
    total_queries: int | None = None
    """How many are sent in all, without warm-up, where that is what ends the step (offline)."""


@dataclass(frozen=True, slots=True)
class Steady:
    """Arrivals at one rate."""

    kind: Literal["Poisson", "Constant"]
    milli_qps: int


@dataclass(frozen=True, slots=True)
class Bursts:
    """Poisson arrivals at a low rate, with a high one at the start of each period."""

    base_milli_qps: int
    burst_milli_qps: int
    burst_ns: int
    period_ns: int


@dataclass(frozen=True, slots=True)
class Recorded:
    """Arrivals at the times of a file, multiplied by a scale."""

    file: str
    milli_time_scale: int


Arrivals = Steady | Bursts | Recorded


@dataclass(frozen=True, slots=True)
class Open:
    """Queries by a schedule, whether or not the server keeps up."""

    arrivals: Arrivals


@dataclass(frozen=True, slots=True)
class Judged:
    """The percentile that a step is judged by, and the latency that it must keep."""

    percentile: float
    bound_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Share:
    """Which part of a step a worker drives: the arrivals k with k % workers == index."""

    index: int = 0
    workers: int = 1

    def of(self, amount: int) -> int:
        """Return this worker's part of a number; the first workers have what does not divide."""
        return amount // self.workers + (self.index < amount % self.workers)


WHOLE = Share()


@dataclass(frozen=True, slots=True)
class StepPlan:
    """One measurement at one setting: how it is loaded and what must hold before it ends."""

    label: str
    batch_size: int
    warm_up_ns: int
    """With `until_steady` the least of it."""
    min_duration_ns: int
    max_duration_ns: int
    min_queries: int
    seed: int = 0
    loop: Closed | Open = Closed()
    until_steady: bool = False
    judged: Judged | None = None
    is_probe: bool = False
    """Of a search, whose own rules say when it is enough."""
    is_whole: bool = False
    """Of a probe: whether it runs to its last query, though it may be decided before."""
    ends_when_told: bool = False
    """Of a worker's part of a closed loop: whether its window ends when the fleet says so."""


def steps_of(
    scenario: Scenario, validity: Validity, seed: int, trace_file: str = ""
) -> list[StepPlan]:
    """Return the steps of a scenario in order; those of `findPeak` are made as it goes on.

    In `batch` and `concurrency` each step has an equal share of the warm-up, of both minimums and
    of the maximum, and at least 10 queries; in `batch` the minimum counts samples. `offline` has
    its samples for a minimum. With MLPerf's rules no minimum is below MLPerf's. `trace_file` is the
    path of a trace.
    """
    steps = _steps(scenario, validity.raised(scenario.kind), trace_file)
    until_steady = validity.warm_up == "UntilSteady"
    return [replace(step, seed=seed, until_steady=until_steady) for step in steps]


def target_qps(plan: StepPlan) -> float | None:
    """Return the rate, on average, that a step asks for; None of a closed loop or a trace."""
    match plan.loop:
        case Open(arrivals=Steady(milli_qps=rate)):
            return rate / 1000
        case Open(arrivals=Bursts() as asked):
            bursts = asked.burst_ns / asked.period_ns
            return (bursts * asked.burst_milli_qps + (1 - bursts) * asked.base_milli_qps) / 1000
        case _:
            return None


def samples_that_would_do(plan: StepPlan, duration_ns: int) -> int:
    """Return how many samples `offline` should send to last its least duration.

    At the rate that was found, and a tenth more, since no two runs are equally fast.
    """
    sent = plan.min_queries * plan.batch_size
    return _share(11 * sent * plan.min_duration_ns, 10 * max(1, duration_ns))


def _steps(scenario: Scenario, validity: Validity, trace_file: str) -> list[StepPlan]:
    if scenario.find_peak is not None:
        return []
    if scenario.batch is not None:
        return _batches(scenario.batch.batch_sizes, validity)
    if scenario.concurrency is not None:
        return _clients(scenario.concurrency.clients, validity)
    return [_only(scenario, validity, trace_file)]


def _only(scenario: Scenario, validity: Validity, trace_file: str) -> StepPlan:
    """Return the step of a scenario that has one."""
    step = _step(validity, "", 1, 1, validity.min_queries)
    if scenario.offline is not None:
        size = scenario.offline.batch_size
        least = mlperf.MINIMUMS["offline"].samples if validity.rules == "MLPerf" else 1
        total = _share(max(scenario.offline.samples, least), size)
        loop = Closed(clients=None, total_queries=total)
        return replace(step, batch_size=size, min_queries=total, loop=loop)
    if scenario.multi_stream is not None:
        size = scenario.multi_stream.samples_per_query
        return replace(step, batch_size=size, judged=Judged(MULTI_STREAM_PERCENTILE))
    arrivals = _arrivals(scenario, trace_file)
    if arrivals is not None:
        return replace(step, loop=Open(arrivals), judged=_judged(scenario.server))
    return replace(step, judged=Judged(SINGLE_STREAM_PERCENTILE))


def _batches(sizes: Sequence[int], validity: Validity) -> list[StepPlan]:
    samples = _share(validity.min_queries, len(sizes))
    return [
        _step(validity, f"batch {size}", size, len(sizes), _least(_share(samples, size)))
        for size in sizes
    ]


def _clients(numbers: Sequence[int], validity: Validity) -> list[StepPlan]:
    queries = _least(_share(validity.min_queries, len(numbers)))
    return [
        replace(
            _step(validity, f"clients {number}", 1, len(numbers), queries),
            loop=Closed(clients=number),
        )
        for number in numbers
    ]


def _least(queries: int) -> int:
    return max(LEAST_QUERIES_OF_A_STEP, queries)


def _arrivals(scenario: Scenario, trace_file: str) -> Arrivals | None:
    """Return when the queries of an open loop arrive; None of a closed one."""
    if scenario.server is not None:
        return Steady(scenario.server.arrivals, milli(scenario.server.target_qps))
    if scenario.burst is not None:
        burst = scenario.burst
        return Bursts(
            base_milli_qps=milli(burst.base_qps),
            burst_milli_qps=milli(burst.burst_qps),
            burst_ns=burst.burst_seconds * SECOND_NS,
            period_ns=burst.period_seconds * SECOND_NS,
        )
    if scenario.trace is not None:
        return Recorded(trace_file, milli(scenario.trace.time_scale))
    return None


def _judged(asked: ServerLoad | None) -> Judged | None:
    if asked is None:
        return None
    bound = asked.latency_bound_microseconds
    return Judged(percentile_value(asked.percentile), None if bound is None else bound * 1000)


def _step(
    validity: Validity, label: str, batch_size: int, step_count: int, min_queries: int
) -> StepPlan:
    return StepPlan(
        label=label,
        batch_size=batch_size,
        warm_up_ns=validity.warm_up_seconds * SECOND_NS // step_count,
        min_duration_ns=validity.min_duration_seconds * SECOND_NS // step_count,
        max_duration_ns=validity.max_duration_seconds * SECOND_NS // step_count,
        min_queries=min_queries,
    )


def _share(amount: int, parts: int) -> int:
    return -(-amount // parts)
