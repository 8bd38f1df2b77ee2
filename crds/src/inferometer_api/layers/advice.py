"""Advice on a model on one machine, as a document: predicted gains next to achieved ones."""

from typing import Literal

from pydantic import Field

from inferometer_api.document import Document

KIND: Literal["ModelAdvice"] = "ModelAdvice"


class AdviceGain(Document):
    """The share of a latency that is saved; negative if it grows."""

    value: float
    low: float | None = None
    """The lower end of the 95 % interval; null with too few values."""
    high: float | None = None


class AdvicePiece(Document):
    """One piece of advice."""

    question: str
    """Q1 to Q6 of Benanza."""
    title: str
    """The question in words."""
    sentence: str
    predicted_gain: AdviceGain
    """The share of an inference, without a server, that it should save."""
    why_no_interval: str = ""
    """Why the predicted gain has no interval; empty if it has one."""
    predicted_served_gain: float | None = None
    """The same saving as a share of the latency through a server."""
    achieved_gain: AdviceGain | None = None
    """The share of the latency through a server that it saved; null if it was not measured."""
    settings: list[str] = Field(default_factory=list)
    """Fields of a run that apply it, as PATH=VALUE."""
    why_not_applied: str = ""
    """Why it was not, or cannot be, applied; empty if it was, or was not tried yet."""


class ModelAdvice(Document):
    """All advice on a model on one machine."""

    kind: Literal["ModelAdvice"] = KIND
    schema_version: str = Field(default="1.0", pattern=r"^[0-9]+\.[0-9]+$")
    model: str
    batch_size: int = 1
    machine: str
    """As in timings of layers."""
    device: Literal["CPU", "GPU"] = "CPU"
    threads: int = 1
    """Of the model as it is."""
    engine: str
    precision: str
    """The effective one of the model as it is."""
    nanoseconds: int
    """The median latency of an inference of the model as it is, without a server."""
    served_nanoseconds: int | None = None
    """The same through a server; null if it was not measured."""
    was_tried: bool = False
    """Whether what can be applied was applied and measured."""
    advice: list[AdvicePiece] = Field(default_factory=list)
    not_measured: dict[str, str] = Field(default_factory=dict)
    """Ways to run the model that could not be measured, by name, with the reasons."""
    notes: list[str] = Field(default_factory=list)
    """What cannot be answered, and why: sentences."""

    @property
    def can_be_tried(self) -> bool:
        """Whether a setting or a rewritten model applies a piece of it."""
        return any(not each.why_not_applied for each in self.advice)
