"""Which measurements is a scenario made of, and how long is each?"""

from dataclasses import dataclass
from enum import Enum

from inferometer_api.scenario import Scenario, Validity

SECOND_NS = 1_000_000_000
LEAST_QUERIES_OF_A_STEP = 10


class End(Enum):
    """Why a step ended."""

    DONE = "both minimums held"
    MAX_DURATION = "the maximum duration was reached"
    INTERRUPTED = "the run was ended from outside"
    SERVER_LOST = "no connection to the server could be made"


@dataclass(frozen=True, slots=True)
class StepPlan:
    """One measurement at one setting: how it is loaded and what must hold before it ends."""

    label: str
    batch_size: int
    warm_up_ns: int
    min_duration_ns: int
    max_duration_ns: int
    min_queries: int


def steps_of(scenario: Scenario, validity: Validity) -> list[StepPlan]:
    """Return the steps of a scenario in order.

    In `batch` each size has an equal share of the warm-up, of both minimums (queries are counted
    in samples there) and of the maximum, and at least 10 queries.
    """
    if scenario.batch is None:
        return [_step(validity, "", 1, 1, validity.min_queries)]
    sizes = scenario.batch.batch_sizes
    samples = _share(validity.min_queries, len(sizes))
    return [
        _step(
            validity,
            f"batch {size}",
            size,
            len(sizes),
            max(LEAST_QUERIES_OF_A_STEP, _share(samples, size)),
        )
        for size in sizes
    ]


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
