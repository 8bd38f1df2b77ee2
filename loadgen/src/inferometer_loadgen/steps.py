"""Which measurements is a scenario made of, and how long is each?"""

from dataclasses import dataclass, replace
from enum import Enum
from typing import Literal

from inferometer_api.document import milli
from inferometer_api.scenario import Scenario, Validity, percentile_value

SECOND_NS = 1_000_000_000
LEAST_QUERIES_OF_A_STEP = 10


class End(Enum):
    """Why a step ended."""

    DONE = "both minimums held"
    MAX_DURATION = "the maximum duration was reached"
    INTERRUPTED = "the run was ended from outside"
    SERVER_LOST = "no connection to the server could be made"
    WORKER_LOST = "a worker of the fleet was lost"
    DECIDED = "what was probed is decided"


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
    """Whether it may end as soon as it is decided whether the bound is kept."""


def steps_of(scenario: Scenario, validity: Validity, seed: int) -> list[StepPlan]:
    """Return the steps of a scenario in order; those of `findPeak` are made as it goes on.

    In `batch` each size has an equal share of the warm-up, of both minimums (queries are counted
    in samples there) and of the maximum, and at least 10 queries.
    """
    if scenario.batch is None:
        step = _step(validity, "", 1, 1, validity.min_queries)
        return [replace(step, seed=seed, loop=_loop(scenario), judged=_judged(scenario))]
    sizes = scenario.batch.batch_sizes
    samples = _share(validity.min_queries, len(sizes))
    return [
        replace(
            _step(
                validity,
                f"batch {size}",
                size,
                len(sizes),
                max(LEAST_QUERIES_OF_A_STEP, _share(samples, size)),
            ),
            seed=seed,
        )
        for size in sizes
    ]


def _loop(scenario: Scenario) -> Closed | Open:
    asked = scenario.server
    if asked is None:
        return Closed()
    return Open(Steady(asked.arrivals, milli(asked.target_qps)))


def _judged(scenario: Scenario) -> Judged | None:
    asked = scenario.server
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
