"""How does a result get from a load generator in a pod to whoever keeps it?"""

from pydantic import Field

from inferometer_api.document import Count, Document, Sha256
from inferometer_api.plan import Progress
from inferometer_api.result import Outcome
from inferometer_api.status import ScenarioSummary


class LoadReport(Document):
    """What a load generator answers at /progress, and leaves as its termination message."""

    progress: Progress | None = None
    scenarios: list[ScenarioSummary] = Field(default_factory=list)
    """Scenarios that are measured and judged."""
    outcome: Outcome | None = None
    """How it ended, once it has."""
    document_sha256: Sha256 | None = None
    """Of the result document in the log, once it is written."""
    document_bytes: Count = 0
