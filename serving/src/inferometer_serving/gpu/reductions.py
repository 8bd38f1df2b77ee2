"""Reductions of a model's layers as segments for matrix units of a GPU."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

from inferometer_api.layers.graph import Layer
from inferometer_serving.gpu.device import GpuDevice, device_memory, stream
from inferometer_serving.gpu.segmented import (
    KernelPlan,
    Operand,
    Operation,
    Segments,
    SegmentsRefusedError,
    segmented_kernel,
)
from inferometer_serving.gpu.segmented_tuning import plan_for, random_values

ENGINE = "matrix-units"
"""In the layer database."""
_OPERATIONS: dict[str, Operation] = {"ReduceSum": "Sum", "ReduceMean": "Sum", "CumSum": "Scan"}
_OPERANDS: dict[str, Operand] = {"FLOAT16": "float16", "BFLOAT16": "bfloat16"}


def segments_of(
    operator: str, datatype: str, shape: Sequence[int], axes: Sequence[int]
) -> Segments:
    """Return the segments of ReduceSum, ReduceMean or CumSum over some axes of a tensor.

    Raises SegmentsRefusedError if they do not follow one another in memory, or are not of 16 bits.
    """
    if operator not in _OPERATIONS:
        raise SegmentsRefusedError(f"{operator} is no sum or prefix sum of segments.")
    if datatype not in _OPERANDS:
        raise SegmentsRefusedError(
            f"Matrix units sum float16 and bfloat16 here; the input is {datatype or 'unknown'}."
        )
    rank = len(shape)
    reduced = {axis % rank for axis in axes} if rank else set()
    if not all(-rank <= axis < rank for axis in axes):
        raise SegmentsRefusedError(f"Axes {list(axes)} are not within a tensor of rank {rank}.")
    inner = [axis for axis in range(rank) if axis >= min(reduced, default=rank)]
    if any(shape[axis] != 1 for axis in inner if axis not in reduced):
        raise SegmentsRefusedError(
            f"Axes {sorted(reduced)} of shape {list(shape)} are not the innermost: their elements "
            "do not follow one another in memory."
        )
    length = prod(shape[axis] for axis in inner)
    if not reduced or not length or not prod(shape):
        raise SegmentsRefusedError(f"Shape {list(shape)} has nothing to sum over {list(axes)}.")
    if _OPERATIONS[operator] == "Scan" and length != max(shape[axis] for axis in inner):
        raise SegmentsRefusedError("CumSum has one axis.")
    return Segments(_OPERATIONS[operator], _OPERANDS[datatype], length, prod(shape) // length)


def layer_segments(layer: Layer) -> Segments:
    """Return the segments of a layer. Raises SegmentsRefusedError.

    ONNX lets outputs have the type of the input; the kernels write float32. That is more bytes, so
    that a prefix sum's time is no lower than that of a kernel which writes 16 bits.
    """
    if not layer.inputs:
        raise SegmentsRefusedError(f"{layer.operator} has no input.")
    flags = {str(each.get("name")): int(each.get("i", 0)) for each in layer.attributes}
    if layer.operator == "CumSum" and (flags.get("exclusive") or flags.get("reverse")):
        raise SegmentsRefusedError("The kernels scan forwards and inclusively.")
    source = layer.inputs[0]
    return segments_of(layer.operator, source.datatype, source.shape, _axes(layer))


def has_segments(layer: Layer) -> bool:
    """Return whether a layer sums or scans segments that the kernels take."""
    try:
        layer_segments(layer)
    except SegmentsRefusedError:
        return False
    return True


def _axes(layer: Layer) -> list[int]:
    """Return the axes, which newer operator sets have as an input; all axes if there are none."""
    named: dict[str, Any] = {str(each.get("name")): each for each in layer.attributes}
    if "axes" in named:
        return [int(axis) for axis in named["axes"].get("ints", [])]
    if len(layer.inputs) > 1 and layer.inputs[1].kind != "Absent":
        values = layer.inputs[1].values
        if values is None:
            raise SegmentsRefusedError("The axes are known only when the model runs.")
        if values:
            return [int(each) for each in values]
    if named.get("noop_with_empty_axes", {}).get("i"):
        raise SegmentsRefusedError("No axis is summed.")
    return list(range(len(layer.inputs[0].shape)))


@dataclass(frozen=True, slots=True)
class OpenedReduction:
    """A layer's kernel with random numbers in the GPU's memory."""

    plan: KernelPlan
    stream: Any
    launch: Callable[[], None]
    """Puts it in the stream."""


def open_reduction(gpu: GpuDevice, layer: Layer, resources: ExitStack) -> OpenedReduction:
    """Compile the tuned kernel of a layer, and allocate its tensors.

    Raises SegmentsRefusedError, GpuUnavailableError and CudaError.
    """
    segments = layer_segments(layer)
    plan = plan_for(segments, gpu.compute_capability)
    source = resources.enter_context(random_values(2 * segments.elements))
    target = resources.enter_context(device_memory(4 * segments.outputs))
    on = resources.enter_context(stream())
    kernel = resources.enter_context(segmented_kernel(gpu, segments, plan))
    scale = 1 / segments.length if layer.operator == "ReduceMean" else 1.0
    return OpenedReduction(plan, on, partial(kernel.launch, source, target, on, scale))
