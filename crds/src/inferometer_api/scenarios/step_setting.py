"""Setting of one step of a scenario: how it is loaded and which percentile judges it."""

from dataclasses import dataclass
from typing import Literal

SINGLE_QUERY_STEP, CLOSED_LOOP_STEP = "one at a time", "closed loop"
"""Labels of the steps of a search before its probes."""


FIRST_QUERIES = 3
"""Queries that show whether the server answers at all, before the warm-up."""


def probe_label(number: int) -> str:
    """Return the label of a probe of a search, counted from 1."""
    return f"probe {number}"


@dataclass(frozen=True, slots=True)
class Closed:
    """Queries that are kept outstanding, the next sent as soon as one is answered."""

    clients: int | None = 1
    """How many; None: as many as the connections have room for."""
    total_queries: int | None = None
    """How many are sent in all, without warm-up, if that is what ends the step (offline)."""


ONE_CLIENT = Closed()


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
class TraceArrivals:
    """Arrivals at the times of a file, multiplied by a scale."""

    file: str
    milli_time_scale: int


Arrivals = Steady | Bursts | TraceArrivals


@dataclass(frozen=True, slots=True)
class Open:
    """Queries by a schedule, whether or not the server keeps up."""

    arrivals: Arrivals


@dataclass(frozen=True, slots=True)
class SearchGoal:
    """What a search looks for, and the limits of its probes."""

    percentile: float
    bound_ns: int
    min_queries: int
    """Queries of a full probe."""
    max_seconds: float
    """Seconds after which a probe ends."""


@dataclass(frozen=True, slots=True)
class JudgedPercentile:
    """The percentile that judges a step, and the latency bound that it must keep."""

    percentile: float
    bound_ns: int | None = None


@dataclass(frozen=True, slots=True)
class StepSetting:
    """One step of a scenario, without the minimums that the run's validity sets."""

    label: str = ""
    """Empty if the scenario has one step."""
    batch_size: int = 1
    """Samples per request."""
    loop: Closed | Open = ONE_CLIENT
    judged: JudgedPercentile | None = None
    first_queries: int = FIRST_QUERIES
    """How many queries are sent before the warm-up, one by one."""


@dataclass(frozen=True, slots=True)
class StepInputs:
    """What the steps of a scenario depend on outside its spec."""

    trace_file: str = ""
    """Path of the recorded arrival times, on the machine that drives the load."""
    least_samples: int = 1
    """The fewest samples that the rules allow."""


NO_STEP_INPUTS = StepInputs()
