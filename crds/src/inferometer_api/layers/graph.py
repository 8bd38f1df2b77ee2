"""The layers of one model, as an engine runs them after its own optimisation.

A layer is an operator with its attributes and the datatypes and shapes of its tensors. Weights are
left out: equal layers of different models are one layer.
"""

from typing import Any, Literal

from pydantic import Field

from inferometer_api.document import Document


class LayerTensor(Document):
    """One input or output of a layer."""

    kind: Literal["Activation", "Weight", "Absent"]
    """Activation: computed for each query. Weight: part of the model. Absent: an optional input \
that the layer does without."""
    datatype: str = ""
    """As ONNX names it: FLOAT, INT64, ..."""
    shape: list[int] = Field(default_factory=list)
    values: list[int] | list[float] | None = None
    """The elements of a small tensor of integers, which often is a shape or an axis, and those of \
weights on which a shape depends, such as the scales of a Resize."""
    lowest: int | None = None
    """The lowest element that a larger tensor of integers had, such as indices."""
    highest: int | None = None
    sample: list[float] | None = None
    """Some of its fractions in ascending order, at equal distances, if its layer reads or writes \
denormal numbers: a CPU may compute them more slowly than others."""
    same_as: int | None = None
    """The position of an earlier input that is the same tensor."""


class Layer(Document):
    """A layer without its name and its weights."""

    domain: str = ""
    operator: str
    version: int
    """Of the operator set."""
    attributes: list[dict[str, Any]] = Field(default_factory=list)
    """ONNX attributes in the JSON form of protobuf, sorted by name."""
    inputs: list[LayerTensor] = Field(default_factory=list)
    outputs: list[LayerTensor] = Field(default_factory=list)


Layout = Literal["Blocked", "Plain"]
"""Blocked: all optimisations of ONNX Runtime, its layouts for the caches included. Plain: all but \
these, so that another engine can run the layers too."""


class LayerUse(Document):
    """One layer at its place in a model."""

    layer: str
    """Its key in `layers`."""
    name: str = ""
    """The engine's name of it."""
    inputs: list[int] = Field(default_factory=list)
    """The number of each activation that it reads, in the order of its inputs."""
    outputs: list[int] = Field(default_factory=list)
    """The number of each activation that it computes."""


class LayerGraph(Document):
    """The layers of one model in the order in which the engine runs them."""

    kind: Literal["LayerGraph"] = "LayerGraph"
    schema_version: str = Field(default="1.1", pattern=r"^[0-9]+\.[0-9]+$")
    model: str
    model_sha256: str
    engine: str
    engine_version: str
    batch_size: int
    layout: Layout = "Blocked"
    layers: dict[str, Layer]
    uses: list[LayerUse]
