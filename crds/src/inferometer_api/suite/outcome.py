"""The outcome of an execution of a suite: what the results of its runs do not show."""

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from inferometer_api.document import Count, Document, Timestamp
from inferometer_api.suite.labels import EXECUTION_LABEL, SUITE_LABEL
from inferometer_api.suite.plan_suite import PlannedRun, SuitePlan
from inferometer_api.suite.progress import RunOutcome
from inferometer_api.suite.status import MOST_PLANNED, GateStatus

_Text = Annotated[str, Field(max_length=1024)]
_Name = Annotated[str, Field(max_length=253)]

_Unmeasured = Literal["F", "D", "S"]
_UNMEASURED: dict[str, _Unmeasured] = {"F": "F", "D": "D"}


class UnmeasuredRun(Document):
    """A run of a suite that has no result."""

    name: _Name
    """Name of the run."""

    values: Annotated[dict[_Name, _Name], Field(max_length=8)] = Field(default_factory=dict)
    """Its cell: axes and their values."""

    system: _Name = ""
    """The system that it was meant for."""

    block: Count = 1
    """The repeat."""

    role: Literal["cell", "opening", "closing"] = "cell"
    """Whether it is a cell, or one of the anchor's runs."""

    state: _Unmeasured
    """Failed, deleted, or skipped."""

    reason: _Text = ""
    """Why it failed."""


class ReusedRun(Document):
    """A run of a suite for which an earlier result stands."""

    name: _Name
    """Name that the run would have."""

    values: Annotated[dict[_Name, _Name], Field(max_length=8)] = Field(default_factory=dict)
    """Its cell: axes and their values."""

    system: _Name = ""
    """The system that it was meant for."""

    block: Count = 1
    """The repeat."""

    result: Annotated[str, Field(max_length=64)] = ""
    """ID of the result; empty if that is no longer stored."""


class SuiteOutcome(Document):
    """The outcome of an execution of a suite."""

    kind: Literal["SuiteOutcome"] = "SuiteOutcome"
    """Always SuiteOutcome."""

    suite: Annotated[str, Field(min_length=1, max_length=63)]
    """The suite, as the label of its runs names it."""

    execution: Annotated[str, Field(min_length=1, max_length=63)]
    """The execution, as the label of its runs names it."""

    finished_at: Timestamp
    """When it was over."""

    planned: Count
    """Runs that it consists of, those of the anchor included."""

    gate: GateStatus | None = None
    """What the gate decided. Absent without a gate."""

    unmeasured: Annotated[list[UnmeasuredRun], Field(max_length=MOST_PLANNED)] = Field(
        default_factory=list
    )
    """Runs without a result."""

    reused: Annotated[list[ReusedRun], Field(max_length=MOST_PLANNED)] = Field(default_factory=list)
    """Runs for which an earlier result stands."""


def suite_outcome(
    plan: SuitePlan, outcomes: Sequence[RunOutcome], gate: GateStatus | None, finished_at: str
) -> SuiteOutcome:
    """Return the outcome of an execution that is over; runs that still wait count as skipped."""
    return SuiteOutcome(
        suite=plan.runs[0].data["metadata"]["labels"][SUITE_LABEL],
        execution=execution_label(plan),
        finished_at=finished_at,
        planned=len(plan.runs),
        gate=gate,
        unmeasured=[
            _unmeasured(run, outcome)
            for run, outcome in zip(plan.runs, outcomes, strict=True)
            if outcome.state not in {"V", "I", "R"}
        ],
        reused=[
            ReusedRun(
                name=run.name,
                values=_values(run),
                system=run.block.system.name,
                block=run.block.repeat,
                result=outcome.result,
            )
            for run, outcome in zip(plan.runs, outcomes, strict=True)
            if outcome.state == "R"
        ],
    )


def execution_label(plan: SuitePlan) -> str:
    """Return the execution of a plan, as the label of its runs names it."""
    return str(plan.runs[0].data["metadata"]["labels"][EXECUTION_LABEL])


def _unmeasured(run: PlannedRun, outcome: RunOutcome) -> UnmeasuredRun:
    return UnmeasuredRun(
        name=run.name,
        values=_values(run),
        system=run.block.system.name,
        block=run.block.repeat,
        role=run.role,
        state=_UNMEASURED.get(outcome.state, "S"),
        reason=outcome.problem[:1024],
    )


def _values(run: PlannedRun) -> dict[str, str]:
    included = {"cell": run.cell.included} if run.cell.included else {}
    return {**included, **dict(run.cell.values)}
