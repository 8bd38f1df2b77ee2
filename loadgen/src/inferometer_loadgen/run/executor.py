"""Interface of executors: each measures and judges the scenarios of one run in its own way."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from inferometer_api.plan.load_plan import LoadPlan
from inferometer_api.results.result import ScenarioResult
from inferometer_api.scenarios.scenario_kind import ScenarioKind
from inferometer_api.scenarios.table import SCENARIOS
from inferometer_api.spec.scenario import Scenario, Validity
from inferometer_loadgen.input_files import InputFiles
from inferometer_loadgen.reporting.live_metrics import LiveMetrics
from inferometer_loadgen.reporting.progress_reporter import ProgressReporter
from inferometer_loadgen.reporting.report_writer import ReportSink
from inferometer_loadgen.schedule.steps import End, StepPlan, plan_steps
from inferometer_loadgen.server.control_plane import ServerDescription
from inferometer_loadgen.server.servers import Servers

CUTS_SHORT = frozenset({End.SERVER_LOST, End.WORKER_LOST, End.INTERRUPTED, End.SAMPLE_ERROR})
"""The ends of a step after which its scenario is not continued."""
_SEEDS = 2**32


@dataclass(frozen=True, slots=True)
class ScenarioRepeat:
    """One repeat of one scenario."""

    scenario: Scenario
    index: int
    """The scenario's index, from 0."""
    validity: Validity
    load_seed: int
    trace_file: str = ""
    """Path of the recorded arrival times or of the data set; empty if it has none."""
    repeat: int = 1

    @property
    def kind(self) -> ScenarioKind[Any]:
        """The row of its kind."""
        return SCENARIOS[self.scenario.kind]

    @property
    def seed(self) -> int:
        """The seed of this repeat."""
        return (self.load_seed + self.repeat - 1) % _SEEDS

    @property
    def steps(self) -> Sequence[StepPlan]:
        """The planned steps in order; none of a search, which chooses its steps."""
        return plan_steps(self.scenario, self.validity, self.seed, self.trace_file)


class Interruption:
    """A request to end the run at once."""

    def __init__(self) -> None:
        self.requested = False
        self.end_step: Callable[[], None] | None = None
        """Ends the current step and keeps its figures; None if the run's task is cancelled."""

    def request(self) -> bool:
        """Request it; return whether that ends a step."""
        self.requested = True
        if self.end_step is None:
            return False
        self.end_step()
        return True


@dataclass(frozen=True, slots=True)
class RunContext:
    """What the executors of one run share. Plan and servers change if the servers are replaced."""

    plan: LoadPlan
    servers: Servers
    reports: ReportSink
    progress: ProgressReporter
    live: LiveMetrics
    interruption: Interruption
    on_first_query: Callable[[], None]
    """Called before the first query of a step is sent."""
    on_first_answers: Callable[[Sequence[int]], None] = lambda _: None
    """Receives the latencies of the first queries of a step, in nanoseconds, before its warm-up."""
    files: InputFiles = field(default_factory=InputFiles)
    """Those that this process has read."""


@dataclass(frozen=True, slots=True)
class StepEnd:
    """How a step ended."""

    why: End
    trouble: str = ""
    """Of a lost server or worker: what is known about it, in sentences."""


class RepeatExecution(Protocol):
    """Measures the steps of one repeat, keeps what it observes, and judges it."""

    def next_step(self) -> StepPlan | None:
        """Return the step to measure next; None if there is no more."""

    async def run_step(self, step: StepPlan) -> StepEnd:
        """Measure a step. Raises what `run.faults` lists."""

    def judge(self, cut_short: End | None, *, server_restarted: bool) -> ScenarioResult | None:
        """Return the figures and the verdict; None if nothing was measured.

        `cut_short` is what ended the repeat before its own limits did.
        """


class Executor(Protocol):
    """Executes the scenarios of one run whose kinds name it in `SCENARIOS`."""

    async def prepare(
        self,
        run: RunContext,
        descriptions: Sequence[ServerDescription],
        repeats: Sequence[ScenarioRepeat],
    ) -> Sequence[str]:
        """Make what the steps need; return notes for the result's environment.

        `descriptions` are those of the servers of `run`, which are ready. `repeats` has the next
        repeat of each of its scenarios. Called again once other servers have replaced these. Raises
        what `run.faults` lists if they cannot be measured.
        """

    def start(self, repeat: ScenarioRepeat) -> RepeatExecution:
        """Begin one repeat of a scenario."""


ExecutorFactory = Callable[[RunContext], AbstractAsyncContextManager[Executor]]
"""Opens the executor of a run before the servers are ready, and closes it after the last step."""
Executors = Mapping[str, ExecutorFactory]
"""Executors by the name that the rows of scenario kinds use."""
