"""The record of a server's cold start, phase by phase."""

from pydantic import Field

from inferometer_api.document import Count, Document
from inferometer_api.spec.scenario import ColdStartState

IMAGE_PULLED = "imagePulled"
"""The phase of a start that pulls the image of the server."""
MODEL_FETCHED = "modelFetched"
"""The phase of a start that fetches the model."""


class StartPhase(Document):
    """One phase of the start."""

    name: str
    """In a cluster scheduled, volumes, imagePulled (if it is pulled), fetcherStarted, \
modelFetched, containerStarted; locally fetcherStarted, modelFetched. Then processStarted, \
imported, listening, modelRead, engineImported, sessionCreated, warmUp, ready, firstAnswer; \
serverStarted of a server that does not report its own phases."""
    start_nanoseconds: Count
    """From the creation of the server."""
    duration_nanoseconds: Count
    evidence: str
    """Where the times come from."""
    resolution_nanoseconds: Count = 1000
    """Of the times."""
    bytes: Count | None = None
    """What was transferred or read, if that is what the phase does."""
    parts: dict[str, Count] = Field(default_factory=dict)
    """Nanoseconds of its parts, by name: parse and initialise of the session (optimisation and \
prepacking), in ONNX Runtime."""

    @property
    def bytes_per_second(self) -> float | None:
        """The rate of its bytes; None if it has none."""
        if self.bytes is None or not self.duration_nanoseconds:
            return None
        return self.bytes * 1e9 / self.duration_nanoseconds


class ColdStartRecord(Document):
    """From the creation of a server to its first answer, and to its steady latency."""

    state: ColdStartState
    """What the node held before the start."""
    total_nanoseconds: Count
    """From the creation of the server until it is ready, and the time of its first answer."""
    phases: list[StartPhase]
    """In their order."""
    gap_nanoseconds: Count
    """The part of the total that no phase covers."""
    client_delay_nanoseconds: Count
    """From ready to the first query: the load generator prepares its requests. Not in the total."""
    first_queries_nanoseconds: list[Count]
    """Latencies of the first queries, at most 20, in their order."""
    steady_median_nanoseconds: Count | None = None
    """Median latency of the measured window."""
    model_bytes: Count | None = None
    """Size of the model's files before the start; 0 if they were not there. Absent if not known."""
    resident_bytes: Count | None = None
    """Bytes of these files that were in memory (page cache) before the start."""
    unavailable: dict[str, str] = Field(default_factory=dict)
    """Unknown phases and figures, each with its reason: a sentence without its period."""

    @property
    def resident_share(self) -> float | None:
        """The share of the model's files in memory before the start; None if not known."""
        if self.model_bytes is None or self.resident_bytes is None:
            return None
        return self.resident_bytes / self.model_bytes if self.model_bytes else 0.0

    @property
    def gap_share(self) -> float:
        """The gap as a share of the total."""
        return self.gap_nanoseconds / max(1, self.total_nanoseconds)
