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
