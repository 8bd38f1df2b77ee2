"""Figures of accuracy in the result document."""

from typing import Literal

from pydantic import Field

from inferometer_api.document import Count, Document


class ManifestInfo(Document):
    """The manifest of the model, and what its constraint was resolved to."""

    name: str
    version: str
    license: str
    sha256: str
    """Checksum of the manifest's file."""
    framework: str
    """The engine that it needs: of several, the one that the server has. If the server reports no \
engine, all of them with their versions."""
    framework_constraint: str
    """The versions that it takes of that engine; empty if `framework` has several."""
    resolved_engine: str = ""
    """The engine that computes, as the server reports it; empty if it does not."""
    resolved_version: str = ""
    """The version of that engine; empty if the server does not report it."""


class EvaluatedDataset(Document):
    """The data set of the figures."""

    name: str
    version: str
    license: str
    uri: str
    sha256: str | None = None
    """Checksum of its file, if the spec states it."""
    samples: Count
    """Samples in it, of which some may not have been requested."""
    samples_sha256: str | None = None
    """SHA-256 of the samples that were read, in order: identity, content, label and context of \
each. Equal for equal samples, whether they come from a folder, an archive or a list. Absent in \
results of earlier versions."""


class AccuracyFigure(Document):
    """The value of one measure."""

    metric: str
    value: float
    """Shares are from 0 to 1; WER and CER may exceed 1."""
    samples: Count
    """Samples that it covers: those that were processed."""
    correct: Count | None = None
    """Samples that are right, if each is right or wrong."""
    low: float | None = None
    """Lower 95 % bound: Wilson's of a share, Student's t of a mean, within the measure's range. \
Absent if it is not known."""
    high: float | None = None
    """Upper 95 % bound."""


class SampleFailure(Document):
    """A sample that was not processed."""

    sample: str
    """Its ID."""
    stage: Literal["Input", "Request", "Output"]
    """Input: it could not be read or prepared. Request: the server failed. Output: its reply or \
its label could not be used."""
    message: str


class WrongSample(Document):
    """A sample whose prediction is wrong."""

    sample: str
    """Its ID."""
    expected: str
    predicted: str


class StepTime(Document):
    """Mean time of one step around the model, in the load generator or in the server."""

    step: str
    nanoseconds: Count
    """Mean over the samples that passed it: time on a CPU in the load generator, elapsed time in \
the server."""


class AccuracyResult(Document):
    """How often the model is right, over the samples of one data set, each sent once."""

    dataset: EvaluatedDataset
    requested: Count
    """Samples that were to be sent."""
    processed: Count
    """Samples that count in the figures."""
    failed: Count
    """Samples that could not be processed. They count as wrong in no figure."""
    figures: list[AccuracyFigure]
    failures: list[SampleFailure] = Field(default_factory=list)
    """The first 20 of the failed samples."""
    wrong: list[WrongSample] = Field(default_factory=list)
    """The first 20 of the samples that are not right by the first measure that can say so."""
    unexpected: list[WrongSample] = Field(default_factory=list)
    """Samples whose prediction differs from that in the manifest's expectedOutputs."""
    expected_checked: Count = 0
    """Samples that have an entry in expectedOutputs."""
    steps: list[StepTime] = Field(default_factory=list)
    """Time of the steps before and after the model, in their order."""
