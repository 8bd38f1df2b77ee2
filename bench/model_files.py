"""Which models are measured, and what is sent to them?

    python -m bench.model_files tiny tiny.onnx

writes one of them to a file.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from inferometer_api.result import Tensor
from inferometer_models import zoo

FloatArray = NDArray[np.float32]
Protocol = Literal["HTTP", "GRPC"]

TINY_WEIGHTS: FloatArray = np.arange(1, 5, dtype=np.float32)
"""What the tiny model adds to its four numbers."""

_SEED = 42


@dataclass(frozen=True, slots=True)
class Measurand:
    """A model and the one input that is sent to it again and again."""

    name: str
    input: Tensor
    output: Tensor
    shape: tuple[int, ...]
    """The input's shape with a batch of 1."""

    def array(self) -> FloatArray:
        """Return the input: seeded random numbers in [0, 1), the same each time."""
        return np.random.default_rng(_SEED).random(self.shape, dtype=np.float32)

    def write(self, folder: Path) -> Path:
        """Write the model's ONNX file into a folder and return its path."""
        path = folder / f"{self.name}.onnx"
        path.write_bytes(_tiny() if self is TINY else zoo.read_onnx(f"classification/{self.name}"))
        return path


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
MEASURANDS = {each.name: each for each in (TINY, RESNET50, SQUEEZENET)}


def _tiny() -> bytes:
    shape = ("batch", 4)
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "weights"], ["y"], name="add")],
        "tiny",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        initializer=[numpy_helper.from_array(TINY_WEIGHTS, "weights")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return model.SerializeToString()


def main() -> None:
    """Write a model to the file that the command line names."""
    parser = argparse.ArgumentParser(description="Write a model that the benchmarks measure.")
    parser.add_argument("name", choices=sorted(MEASURANDS))
    parser.add_argument("file", type=Path)
    asked = parser.parse_args()
    written = MEASURANDS[asked.name].write(asked.file.parent)
    written.replace(asked.file)


if __name__ == "__main__":
    main()
