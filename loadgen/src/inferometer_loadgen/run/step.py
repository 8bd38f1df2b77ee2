"""Interface of step executors: each measures one step of a scenario in its own way."""

from dataclasses import dataclass
from typing import Protocol

from inferometer_loadgen.schedule.steps import End, StepPlan
from inferometer_loadgen.search.goal import StepObservation
from inferometer_loadgen.verdict.measurement import Measurement


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """How a step ended, and its figures."""

    end: End
    over: StepObservation
    measurement: Measurement | None = None
    """None if its window never began."""


class StepExecutor(Protocol):
    """Measures the steps of the scenario kinds that name it in `SCENARIOS`."""

    async def run(self, scenario: str, plan: StepPlan) -> StepOutcome:
        """Measure one step of the scenario with this name."""
