"""Bricks: layers, or short chains of layers, to be timed apart from their models."""

from typing import Literal

from pydantic import Field

from inferometer_api.document import Document
from inferometer_api.layers.graph import Layer


class Brick(Document):
    """A chain of layers, each of which reads what the one before it computes."""

    layers: list[str]
    """Keys of the layers in `layers` of the suite."""
    feeds: list[int] = Field(default_factory=list)
    """For each layer but the first, the position of the input that takes the chain's tensor."""


class BrickSuite(Document):
    """The unique bricks of some models. It has no names, weights, counts or order of layers."""

    kind: Literal["BrickSuite"] = "BrickSuite"
    schema_version: str = Field(default="1.1", pattern=r"^[0-9]+\.[0-9]+$")
    engine: str
    engine_version: str
    granularity: int = Field(ge=1, le=10)
    """The most layers of a brick."""
    layers: dict[str, Layer]
    bricks: dict[str, Brick]


class Timing(Document):
    """How long something takes, from several rounds."""

    nanoseconds: int
    """The median over the rounds of the shortest run in each: its weights lie in the caches."""
    lower_quartile_nanoseconds: int
    """A quarter of the rounds were at least as fast."""
    upper_quartile_nanoseconds: int
    """A quarter of the rounds were at least as slow."""
    rounds: int
    cold_nanoseconds: int
    """The median of the first run in each round, when its weights had left the caches."""
    runs: int
    """All runs, those with cold caches included."""
    session_nanoseconds: int
    """The time to open its session."""

    @property
    def spread(self) -> float:
        """How far apart the quartiles are, as a share of the median."""
        return (
            self.upper_quartile_nanoseconds - self.lower_quartile_nanoseconds
        ) / self.nanoseconds


class MachineState(Document):
    """What timings hold for: they may not be joined with those of another machine or engine."""

    cpu: str
    engine: str
    engine_version: str
    threads: int
    cache_bytes: int
    """Size of the last cache."""
    cache_bytes_per_second: float
    """How fast a thread reads from it."""
    memory_bytes_per_second: float
    """How fast a thread reads from memory."""


class BrickTimings(Document):
    """How long bricks take on one machine, and whole models measured in the same rounds."""

    kind: Literal["BrickTimings"] = "BrickTimings"
    schema_version: str = Field(default="1.1", pattern=r"^[0-9]+\.[0-9]+$")
    machine: MachineState
    run_nanoseconds: int
    """What one call of the engine costs, whatever it computes."""
    node_nanoseconds: int
    """What one layer costs that computes nothing."""
    seconds: float
    """How long all of it took."""
    bricks: dict[str, Timing]
    """By the key of the brick; the cost of the call is still part of it."""
    failed: dict[str, str]
    """The reason for each brick that could not be timed."""
    models: dict[str, Timing]
    """Whole models by name, for reference."""
