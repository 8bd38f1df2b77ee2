"""What a load generator reports while it works: one `Report` per line of its standard output."""

from typing import Annotated, Literal

from pydantic import Field

from inferometer_api.document import Count, Document, Integer
from inferometer_api.results.result import Environment, Outcome, ScenarioResult
from inferometer_api.results.search import Repeated


class Progress(Document):
    """How far the work is. Written about twice a second.

    Idle: no load is sent, since the idle power is measured.
    """

    report: Literal["progress"] = "progress"
    stage: Literal[
        "WaitingForWorkers",
        "WaitingForServer",
        "Preparing",
        "Idle",
        "WarmUp",
        "Measuring",
        "Draining",
    ]
    scenario: str = ""
    step: str = ""
    scenario_index: Count = 0
    """0 for the first."""
    scenario_count: Count = 0
    fraction: Annotated[float, Field(ge=0, le=1)] = 0.0
    """How far the stage is."""
    elapsed_seconds: float = 0.0
    """Since the stage began."""
    repeat: Count = 1
    """Which repeat of the scenario, from 1."""
    repeat_count: Count = 1
    detail: str = ""
    """Why the stage goes on: what a server that is waited for last said."""
    queries: Count = 0
    failed: Count = 0
    qps: float | None = None
    """Queries answered in the last second."""
    p99_nanoseconds: Count | None = None
    """Of the last second."""


class Listening(Document):
    """Where something of it can be read; with --metrics-listen the first report."""

    report: Literal["listening"] = "listening"
    metrics_port: Integer | None = None
    """Of GET /metrics."""
    fleet_web_port: Integer | None = None
    """Of Locust's web page, where there is one."""


class Surroundings(Document):
    """Under which conditions the figures will be found; written once the server is ready."""

    report: Literal["surroundings"] = "surroundings"
    environment: Environment


class Measured(Document):
    """One scenario is measured and judged."""

    report: Literal["measured"] = "measured"
    scenario: ScenarioResult


class RepeatsMeasured(Document):
    """All repeats of one scenario are measured."""

    report: Literal["repeated"] = "repeated"
    repeated: Repeated


class Ended(Document):
    """The load generator's last line."""

    report: Literal["ended"] = "ended"
    outcome: Outcome
    first_query_at: str | None = None
    """When the first query was sent: RFC 3339, in UTC. Absent where none was."""


Report = Annotated[
    Progress | Listening | Surroundings | Measured | RepeatsMeasured | Ended,
    Field(discriminator="report"),
]
