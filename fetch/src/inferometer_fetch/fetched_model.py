"""What is known of a model once it lies on this machine?"""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class GraphInput:
    """An input as its file has it; -1 stands for an open axis."""

    name: str
    datatype: str
    """The protocol's word: "FP32"."""
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FetchedModel:
    """A model that lies on this machine, bounded and checked."""

    path: Path
    sha256: str
    """Of the ONNX file itself."""
    size_bytes: int
    """With external data."""
    name: str
    """What to serve it as: the last part of its address without ".onnx"."""
    external_sha256: dict[str, str]
    """Of each file of external data, by its place beside the model."""
    inputs: tuple[GraphInput, ...] | None
    """What a request must carry; None where the file alone does not tell."""
