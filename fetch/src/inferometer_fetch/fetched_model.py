"""The facts about a model file that has been fetched and checked."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class GraphInput:
    """An input of the graph; -1 stands for an open axis."""

    name: str
    datatype: str
    """The Open Inference Protocol's name: "FP32"."""
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FetchedModel:
    """A model on this machine, with its size and content checked."""

    path: Path
    sha256: str
    """Of the ONNX file itself."""
    size_bytes: int
    """With external data."""
    name: str
    """The last part of its address without ".onnx"."""
    external_sha256: dict[str, str]
    """Of each file of external data, by its path relative to the model."""
    inputs: tuple[GraphInput, ...] | None
    """The inputs of a request; None if the file alone does not determine them."""
    source: Path | None = None
    """The file on this machine that it was copied from; None if it was not copied."""
