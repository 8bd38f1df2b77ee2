"""The reports of a load generator while it works: one `Report` per line of its standard output."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from inferometer_api.document import Count, Document, Integer
from inferometer_api.results.result import Environment, Outcome, ResultDocument, ScenarioResult
from inferometer_api.results.search import RepeatSummary

Stage = Literal[
    "WaitingForWorkers",
    "WaitingForServer",
    "WaitingForRestart",
    "Preparing",
    "Idle",
    "WarmUp",
    "Measuring",
    "Draining",
]
STAGE_PHRASES: Mapping[Stage, str] = {
    "WaitingForWorkers": "waiting for the workers",
    "WaitingForServer": "waiting for the server",
    "WaitingForRestart": "restarting the server",
    "Preparing": "preparing requests",
    "Idle": "measuring the idle power",
    "WarmUp": "warming up",
    "Measuring": "measuring",
    "Draining": "waiting for the last replies",
}
"""How logs and progress lines name each stage."""


class ProgressReport(Document):
    """Progress of the work, about twice a second.

    Idle: no load is sent while the idle power is measured. WaitingForRestart: the repeat before
    `repeat` is over, and the servers of `repeat` are awaited at POST /targets.
    """

    report: Literal["progress"] = "progress"
    stage: Stage
    scenario: str = ""
    step: str = ""
    scenario_index: Count = 0
    """0 for the first."""
    scenario_count: Count = 0
    fraction: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Progress of the stage, from 0 to 1."""
    elapsed_seconds: float = 0.0
    """Since the stage began."""
    repeat: Count = 1
    """Number of the repeat, from 1."""
    repeat_count: Count = 1
    server_pods: list[str] = Field(default_factory=list)
    """UIDs of the servers' pods of a further repeat; empty in the first one, whose servers stand \
in the plan."""
    detail: str = ""
    """Last answer of a server that is not ready."""
    queries: Count = 0
    failed: Count = 0
    sample_count: Count | None = None
    """How many samples an evaluation of a data set sends in all, each as a query; absent in other \
scenarios."""
    qps: float | None = None
    """Queries answered in the last second."""
    p99_nanoseconds: Count | None = None
    """Of the last second."""


class ListeningReport(Document):
    """Ports of the load generator; the first report with --metrics-listen."""

    report: Literal["listening"] = "listening"
    metrics_port: Integer | None = None
    """Port of GET /metrics and POST /targets."""
    fleet_web_port: Integer | None = None
    """Port of Locust's web page, if there is one."""


class EnvironmentReport(Document):
    """Conditions of the measurement; written once the server is ready."""

    report: Literal["environment"] = "environment"
    environment: Environment


class ScenarioReport(Document):
    """Result of one scenario."""

    report: Literal["scenario"] = "scenario"
    scenario: ScenarioResult


class RepeatsReport(Document):
    """Summary of all repeats of one scenario."""

    report: Literal["repeats"] = "repeats"
    summary: RepeatSummary


class FinalReport(Document):
    """The load generator's last line."""

    report: Literal["final"] = "final"
    outcome: Outcome
    document: ResultDocument | None = None
    """The whole result. Absent if there was no valid plan."""


Report = Annotated[
    ProgressReport
    | ListeningReport
    | EnvironmentReport
    | ScenarioReport
    | RepeatsReport
    | FinalReport,
    Field(discriminator="report"),
]
_REPORT: TypeAdapter[Report] = TypeAdapter(Report)


def read_report(line: str | bytes) -> Report:
    """Return the report in a line of a load generator's output; unknown fields are ignored.

    Raises pydantic's ValidationError.
    """
    return _REPORT.validate_json(line, extra="ignore")
