"""The measured models and their requests.

    python -m bench.model_files tiny tiny.onnx

writes one of them to a file.
"""

import argparse
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import NodeProto, TensorProto, helper, numpy_helper

from inferometer_api.results.result import Tensor
from inferometer_fetch.built_in import write_model
from inferometer_models import zoo

FloatArray = NDArray[np.float32]
Protocol = Literal["HTTP", "GRPC"]

TINY_WEIGHTS: FloatArray = np.arange(1, 5, dtype=np.float32)
"""What the tiny model adds to its four numbers."""

_SEED = 42
_TOKENS = 30_000
"""Fewer than any vocabulary of the zoo has."""


@dataclass(frozen=True, slots=True)
class Measurand:
    """A model and the one input that is sent to it again and again."""

    name: str
    input: Tensor
    output: Tensor
    shape: tuple[int, ...]
    """The input's shape with a batch of 1."""
    task: str = "classification"
    """Its part of the zoo."""

    def array(self) -> NDArray[np.generic]:
        """Return the input: seeded random numbers in [0, 1), or tokens, the same each time."""
        if self.input.datatype == "INT64":
            return np.random.default_rng(_SEED).integers(0, _TOKENS, self.shape)
        return seeded_image(self.shape)

    def of_batch(self, samples: int) -> "Measurand":
        """Return the same with so many samples in a request."""
        return replace(self, shape=(samples, *self.shape[1:]))

    def of_side(self, pixels: int) -> "Measurand":
        """Return the same for square images of so many pixels a side."""
        sized = self.input.model_copy(update={"shape": [-1, 3, pixels, pixels]})
        return replace(self, input=sized, shape=(1, 3, pixels, pixels))

    def write(self, folder: Path) -> Path:
        """Write the model into a folder, with its weights if it is of the zoo; return its path."""
        path = folder / f"{self.name}.onnx"
        if self.name in _MADE:
            path.write_bytes(_MADE[self.name]())
        else:
            self._write_of_the_zoo(path)
        return path

    def _write_of_the_zoo(self, path: Path) -> None:
        write_model(zoo.entry(f"{self.task}/{self.name}"), path)
        model = onnx.load_model(path, load_external_data=False)
        for dimension, size in zip(
            model.graph.input[0].type.tensor_type.shape.dim, self.input.shape, strict=True
        ):
            if size > 0:
                dimension.dim_value = size
        path.write_bytes(model.SerializeToString())


def seeded_image(shape: tuple[int, ...]) -> FloatArray:
    """Return numbers in [0, 1), the same each time."""
    return np.random.default_rng(_SEED).random(shape, dtype=np.float32)


TINY = Measurand(
    name="tiny",
    input=Tensor(name="x", datatype="FP32", shape=[-1, 4]),
    output=Tensor(name="y", datatype="FP32", shape=[-1, 4]),
    shape=(1, 4),
)
RESNET50 = Measurand(
    name="resnet50",
    input=Tensor(name="input", datatype="FP32", shape=[-1, 3, 224, 224]),
    output=Tensor(name="output", datatype="FP32", shape=[-1, 1000]),
    shape=(1, 3, 224, 224),
)
SQUEEZENET = Measurand(
    name="squeezenet1_1",
    input=Tensor(name="input", datatype="FP32", shape=[-1, 3, 224, 224]),
    output=Tensor(name="output", datatype="FP32", shape=[-1, 1000]),
    shape=(1, 3, 224, 224),
)
SHUFFLENET = Measurand(
    name="shufflenet_v2_x0_5",
    input=Tensor(name="input", datatype="FP32", shape=[-1, 3, 224, 224]),
    output=Tensor(name="output", datatype="FP32", shape=[-1, 1000]),
    shape=(1, 3, 224, 224),
)
"""Of the zoo's models one of the fastest: 1.5 to 5 ms on one core, and less for small images."""
LARGE = Measurand(
    name="large",
    input=Tensor(name="x", datatype="FP32", shape=[-1, 3, 224, 224]),
    output=Tensor(name="y", datatype="FP32", shape=[-1, 3, 1, 1]),
    shape=(1, 3, 224, 224),
)
"""The input of an image model, 602 kB, and next to nothing to compute."""
MINILM = Measurand(
    name="minilm_l6",
    input=Tensor(name="input", datatype="INT64", shape=[-1, 128]),
    output=Tensor(name="output", datatype="FP32", shape=[-1, -1, 384]),
    shape=(1, 128),
    task="text",
)
MEASURANDS = {each.name: each for each in (TINY, LARGE, RESNET50, SQUEEZENET, SHUFFLENET, MINILM)}


def _tiny() -> bytes:
    return _one_node(
        helper.make_node("Add", ["x", "weights"], ["y"], name="add"),
        ("batch", 4),
        ("batch", 4),
        [numpy_helper.from_array(TINY_WEIGHTS, "weights")],
    )


def _large() -> bytes:
    node = helper.make_node("GlobalMaxPool", ["x"], ["y"], name="pool")
    return _one_node(node, ("batch", 3, 224, 224), ("batch", 3, 1, 1), [])


_MADE = {"tiny": _tiny, "large": _large}


def _one_node(
    node: NodeProto,
    of: tuple[str | int, ...],
    to: tuple[str | int, ...],
    weights: list[TensorProto],
) -> bytes:
    graph = helper.make_graph(
        [node],
        node.name,
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, of)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, to)],
        initializer=weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return model.SerializeToString()


def main() -> None:
    """Write a model to the file that the command line names."""
    parser = argparse.ArgumentParser(description="Write a model that the benchmarks measure.")
    parser.add_argument("name", choices=sorted(MEASURANDS))
    parser.add_argument("file", type=Path)
    options = parser.parse_args()
    written = MEASURANDS[options.name].write(options.file.parent)
    written.replace(options.file)


if __name__ == "__main__":
    main()
