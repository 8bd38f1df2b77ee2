"""Input and output of the verdict's checks: a measured step, its conditions, and violations."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from inferometer_api.plan.load_plan import LoadNodeFault
from inferometer_api.results.accuracy import AccuracyResult
from inferometer_api.results.cold_start import ColdStartRecord
from inferometer_api.results.result import Step
from inferometer_api.results.search import Peak
from inferometer_api.scenarios.step_setting import Closed, JudgedPercentile
from inferometer_loadgen.record.backlog import Unanswered
from inferometer_loadgen.schedule.steps import SECOND_NS, End, StepPlan

ERROR_RATE_LIMIT = 0.001
DEFAULT_PERCENTILE = 99.0
"""Percentile, in percent, by which a scenario is judged unless it sets one."""


class NotObtained(NamedTuple):
    """A setting of an engine that differs from the requested one."""

    setting: str
    """precision, threads, or a name of spec.server.onnxRuntime such as provider."""
    requested: str
    effective: str
    detail: str = ""
    """A clause that explains the effective value."""


@dataclass(frozen=True, slots=True)
class ScenarioConditions:
    """Conditions of a scenario that its steps do not record."""

    kind: str
    rules: Literal["Default", "MLPerf"] = "Default"
    colocated: bool = False
    load_node_faults: tuple[LoadNodeFault, ...] = ()
    """Of the nodes that load comes from."""
    not_guaranteed: tuple[str, ...] = ()
    """Quality-of-service classes of server pods other than Guaranteed."""
    cpu_count: int = 0
    compute_nodes_fell_back: int = 0
    not_obtained: tuple[NotObtained, ...] = ()
    """What was requested of the engine, and is not what it computes with."""
    energy_requested: bool = False
    server_restarted: bool = False
    unready_server: str = ""
    """How the server reports that it is not ready although its model is, as a clause."""
    expectation_broken: str = ""
    """How predictions differ from the manifest's expectedOutputs, as clauses."""
    sampled: AccuracyResult | None = None
    """What was found over the samples that the load carried, with `sampledAccuracy`."""
    unchecked_constraint: str = ""
    """The versions of an engine that the manifest needs, if the server does not report its own."""
    cut_short: End | None = None
    """What ended the scenario before its own limits did."""
    peak: Peak | None = None
    """Result of `findPeak`."""
    cold_start: ColdStartRecord | None = None
    """The start of the server, in `coldStart`."""
    single_window: bool = False
    """Whether the scenario is measured only once."""
    spins: bool = False
    """Whether the load generator waits by spinning, without ever sleeping."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """One step: its plan, its result, and why it ended."""

    plan: StepPlan
    step: Step
    end: End
    unanswered: Unanswered = field(default_factory=Unanswered)
    """Of open loops only."""
    warmed_up: bool = True
    """Whether a warm-up until steady became steady."""

    @property
    def judged(self) -> JudgedPercentile:
        """The percentile by which the step is judged, and its bound; P99 in a closed loop.

        MLPerf judges single streams by their P90, which early stopping covers; readers of a
        latency look at its P99 as well.
        """
        planned = self.plan.judged
        if planned is None or isinstance(self.plan.loop, Closed):
            return JudgedPercentile(DEFAULT_PERCENTILE)
        return planned


class Violation(NamedTuple):
    """One violation of a rule: a sentence with figure and limit, and both separately."""

    sentence: str
    figure: str
    limit: str
    excess: float = 0.0
    """How many times the limit the figure is, to compare steps; 0 if it is not a number."""
    subject: str = ""
    """Node or GPU that the violation is about, if there may be several."""
    remedy: str = ""
    """What to do about it; empty: what the rule says."""


Violations = Iterator[Violation]


def format_seconds(nanoseconds: int) -> str:
    """Return a time in seconds for a sentence."""
    return f"{nanoseconds / SECOND_NS:.4g} s"


def format_milliseconds(nanoseconds: float) -> str:
    """Return a time in milliseconds for a sentence."""
    milliseconds = nanoseconds / 1_000_000
    # Four significant digits below a second; above it whole milliseconds, never an exponent.
    return f"{milliseconds:,.0f} ms" if milliseconds >= 1000 else f"{milliseconds:.4g} ms"
