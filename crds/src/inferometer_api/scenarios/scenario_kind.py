"""Description of one kind of scenario: one row of the table in `table.py`."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from inferometer_api.scenarios.step_setting import (
    JudgedPercentile,
    SearchGoal,
    StepInputs,
    StepSetting,
)
from inferometer_api.spec.mlperf import Minimums
from inferometer_api.spec.scenario import LoadProfile, Validity

Profile = TypeVar("Profile", bound=LoadProfile)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioKind(Generic[Profile]):
    """Everything that the components decide by the kind of a scenario."""

    profile: type[Profile]
    """The spec model of the member that selects this kind."""
    executor: str
    """Name of the load generator's executor: load sends requests and measures the replies."""
    loop: Literal["closed", "open"]
    """Closed: latency counts from the send; open: from the scheduled time."""
    steps: Literal["one", "sweep", "search"]
    """one: a single step; sweep: one step per setting, each with an equal share of the minimums;
    search: each step is chosen by what the steps before it measured."""
    settings: Callable[[Profile, StepInputs], tuple[StepSetting, ...]]
    """The planned steps in order; none of a search."""
    usual_labels: tuple[str, ...] = ()
    """Labels of the steps that a search usually has, to estimate its progress."""
    search: Callable[[Profile], SearchGoal] | None = None
    """The goal of a search; None for the other kinds."""
    finds_knee: bool = False
    """Whether the knee of a sweep is looked for."""
    varies: Literal["batch size", "number of clients"] | None = None
    """What a sweep varies."""
    counts: Literal["queries", "samples"] = "queries"
    """What `validity.minQueries` counts."""
    judged: Callable[[Profile], JudgedPercentile | None]
    """The percentile that judges every step, with its latency bound; None: no percentile does."""
    mlperf: Minimums | None
    """The minimums of MLPerf Inference; None: MLPerf has no such scenario."""
    headline: Literal["latency", "throughput", "knee", "peak", "accuracy"]
    """The figure that sums the scenario up."""
    needs_percentiles: bool
    """Whether too few queries for its latency percentiles are worth a caution."""
    wording: Callable[[Profile], str]
    """What the scenario does, in a few words."""
    shares_connections: Literal["always", "over gRPC", "never"]
    """Whether its queries share `load.connections`; else each client has a connection."""
    least_seconds: Callable[[Profile, Validity], float]
    """How long one repeat takes at least if it becomes VALID, warm-up included."""
    warnings: Callable[[Profile, Validity], Iterable[str]]
    """What may disappoint in a valid spec: sentences without the path of the member."""
