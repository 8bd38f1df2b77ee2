"""The inferences of the warm-up."""

from collections.abc import Mapping, Sequence

import numpy as np

from inferometer_models.errors import ModelRefusedError
from inferometer_serving.infer.signature import Shape, Signature, TensorSpec
from inferometer_serving.infer.tensors import Array


def warm_up_inputs(
    signature: Signature, batch_size: int, shapes: Mapping[str, Shape]
) -> dict[str, Array]:
    """Return inputs of zeros (empty strings) for a batch size.

    The batch size takes the place of every open first axis; other open axes come from `shapes`. A
    model whose batch is fixed takes that batch, and 1 stands for it. Raises ModelRefusedError if
    an axis stays open, a shape does not fit, or the batch size is not the fixed one.
    """
    unknown = sorted(set(shapes) - set(signature.input_by_name))
    if unknown:
        raise ModelRefusedError(
            f"A warm-up shape was given for '{unknown[0]}', but the model's inputs are "
            f"{', '.join(signature.input_by_name)}: name one of these."
        )
    _check_batch(signature.inputs, batch_size)
    return {
        spec.name: _zeros(spec, _shape(spec, batch_size, shapes.get(spec.name)))
        for spec in signature.inputs
    }


def _check_batch(inputs: Sequence[TensorSpec], batch_size: int) -> None:
    if batch_size == 1 or any(each.has_open_batch for each in inputs):
        return
    fixed = [each for each in inputs if each.shape and each.shape[0] != batch_size]
    if fixed:
        raise ModelRefusedError(
            f"A batch of {batch_size} was requested, but the model's input '{fixed[0].name}' has "
            f"the fixed shape {list(fixed[0].shape)}: request a batch of {fixed[0].shape[0]}."
        )


def fits(spec: TensorSpec, shape: Sequence[int]) -> bool:
    """Return whether an input can have this shape."""
    return len(shape) == len(spec.shape) and all(
        wanted in (-1, each) for wanted, each in zip(spec.shape, shape, strict=True)
    )


def _shape(spec: TensorSpec, batch_size: int, given: Shape | None) -> Shape:
    shape = list(spec.shape if given is None else given)
    if not fits(spec, shape):
        raise ModelRefusedError(
            f"The warm-up shape {shape} was given for input '{spec.name}', but the model takes "
            f"{list(spec.shape)}, where -1 is any size: give a shape that fits."
        )
    if spec.has_open_batch:
        shape[0] = batch_size
    if -1 in shape:
        raise ModelRefusedError(
            f"Input '{spec.name}' has the shape {list(spec.shape)} with open axes (-1) next to "
            f"the batch: set the whole shape to warm up with, as in --warm-up-shape "
            f"{spec.name}={','.join(str(8 if each == -1 else each) for each in shape)}."
        )
    return tuple(shape)


def _zeros(spec: TensorSpec, shape: Shape) -> Array:
    if spec.datatype.item_bytes is None:
        return np.full(shape, "", dtype=np.object_)
    return np.zeros(shape, dtype=spec.datatype.dtype)
