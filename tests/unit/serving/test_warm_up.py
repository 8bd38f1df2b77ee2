"""The warm-up uses the inputs that were requested."""

from pathlib import Path

import numpy as np
import pytest

from inferometer_models.errors import ModelRefusedError
from inferometer_serving.infer.datatypes import DATATYPES
from inferometer_serving.infer.signature import Shape, Signature, TensorSpec
from inferometer_serving.infer.tensors import Array
from inferometer_serving.model.loading import LoadedModel, warm_up
from inferometer_serving.model.placement import GraphPlacement
from inferometer_serving.model.session import Session
from inferometer_serving.model.warm_up import warm_up_inputs
from inferometer_serving.options import ServeOptions


def _signature(*shapes: Shape, datatype: str = "FP32") -> Signature:
    specs = (TensorSpec(f"x{at}", DATATYPES[datatype], shape) for at, shape in enumerate(shapes))
    return Signature(inputs=tuple(specs), outputs=())


def _shapes(signature: Signature, batch: int, **given: Shape) -> list[Shape]:
    return [each.shape for each in warm_up_inputs(signature, batch, given).values()]


def test_the_batch_takes_every_open_first_axis() -> None:
    """Every open first axis becomes the batch size; fixed inputs next to them stay as they are."""
    assert _shapes(_signature((-1, 4), (-1,), (3, 2), ()), 8) == [(8, 4), (8,), (3, 2), ()]


def test_a_given_shape_fills_open_axes_but_not_the_batch() -> None:
    """A whole shape fills the open axes; its first number gives way to the batch size."""
    assert _shapes(_signature((-1, 3, -1, -1)), 4, x0=(1, 3, 8, 9)) == [(4, 3, 8, 9)]


def test_one_stands_for_a_fixed_batch() -> None:
    """A model whose batch is fixed is warmed at that batch, requested by its number or by 1."""
    assert _shapes(_signature((6, 4)), 1) == [(6, 4)]
    assert _shapes(_signature((6, 4)), 6) == [(6, 4)]


@pytest.mark.parametrize(
    ("shape", "batch", "given", "sentence"),
    [
        ((6, 4), 2, {}, "request a batch of 6"),
        ((-1, -1), 1, {}, "--warm-up-shape x0=1,8"),
        ((-1, 4), 1, {"x0": (1, 5)}, "where -1 is any size"),
        ((-1, 4), 1, {"x0": (1, 4, 4)}, "where -1 is any size"),
        ((-1, 4), 1, {"z": (1, 4)}, "the model's inputs are x0"),
    ],
)
def test_what_does_not_fit_is_refused(
    shape: Shape, batch: int, given: dict[str, Shape], sentence: str
) -> None:
    """A batch, a shape or a name that the model lacks is refused by a sentence."""
    with pytest.raises(ModelRefusedError, match=sentence):
        warm_up_inputs(_signature(shape), batch, given)


def test_every_datatype_has_a_warm_up() -> None:
    """Inputs of every datatype can be made, strings as empty ones."""
    for name, datatype in DATATYPES.items():
        (array,) = warm_up_inputs(_signature((-1, 2), datatype=name), 1, {}).values()
        assert array.dtype == datatype.dtype
    assert array.tolist() == [["", ""]]


class Runner:
    """Keeps the shapes that it is run with."""

    def __init__(self) -> None:
        self.shapes: list[Shape] = []

    def run(self, output_names: list[str], inputs: dict[str, Array]) -> list[Array]:
        """Compute nothing."""
        self.shapes += [array.shape for array in inputs.values()]
        return [np.zeros(1) for _ in output_names]


def test_every_instance_is_warmed_at_every_batch_size() -> None:
    """The first request of any size finds each instance warm: it was run twice before."""
    runners = [Runner(), Runner()]
    nowhere = GraphPlacement({}, 0)
    sessions = [Session(each, _signature((-1, 4)), (), nowhere, False, "") for each in runners]
    options = ServeOptions(Path("m.onnx"), "m", instances=2, warm_up_batch_sizes=(1, 3, 8))
    warmed = warm_up(LoadedModel(tuple(sessions), "", {}, 0.0), options)
    assert warmed.batch_sizes == (1, 3, 8)
    for runner in runners:
        assert runner.shapes == [(1, 4), (1, 4), (3, 4), (3, 4), (8, 4), (8, 4)]
