"""Single layers, and what ONNX Runtime computes of them on the CPU."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnxruntime  # type: ignore[import-untyped]  # ships no types
from google.protobuf import json_format
from onnx import helper

from inferometer_api.layers.bricks import Brick, BrickSuite
from inferometer_api.layers.graph import Layer, LayerTensor
from inferometer_serving.infer.tensors import Array
from inferometer_serving.layers.brick_model import brick_model

_CONTRIBUTED = ("FusedConv", "FusedMatMul")


def single_layer(
    operator: str,
    inputs: Sequence[Sequence[int] | None],
    datatype: str = "FLOAT",
    **attributes: Any,
) -> Layer:
    """Return a layer with inputs of these shapes (None: absent), and the output that follows."""
    layer = Layer(
        domain="com.microsoft" if operator in _CONTRIBUTED else "",
        operator=operator,
        version=1 if operator in _CONTRIBUTED else 17,
        attributes=[
            json_format.MessageToDict(helper.make_attribute(name, value))
            for name, value in sorted(attributes.items())
        ],
        inputs=[
            LayerTensor(kind="Absent")
            if shape is None
            else LayerTensor(kind="Activation", datatype=datatype, shape=list(shape))
            for shape in inputs
        ],
        outputs=[LayerTensor(kind="Activation", datatype=datatype)],
    )
    output = layer.outputs[0].model_copy(update={"shape": list(computed_on_cpu(layer).shape)})
    return layer.model_copy(update={"outputs": [output]})


def suite_of(layer: Layer) -> tuple[BrickSuite, Brick]:
    """Return a suite of one layer."""
    brick = Brick(layers=["layer"])
    suite = BrickSuite(
        engine="ONNX Runtime",
        engine_version="",
        granularity=1,
        layers={"layer": layer},
        bricks={"layer": brick},
    )
    return suite, brick


def computed_on_cpu(layer: Layer) -> Array:
    """Return the output of a layer for its seeded inputs, computed in FP32."""
    single = [
        each.model_copy(update={"datatype": "FLOAT"}) if each.kind != "Absent" else each
        for each in layer.inputs
    ]
    outputs = [each.model_copy(update={"datatype": "FLOAT"}) for each in layer.outputs]
    made = brick_model(*suite_of(layer.model_copy(update={"inputs": single, "outputs": outputs})))
    session = onnxruntime.InferenceSession(
        made.whole().SerializeToString()
        if layer.outputs[0].shape
        else made.model.SerializeToString(),
        providers=["CPUExecutionProvider"],
    )
    found: Array = session.run(None, made.inputs)[0]
    return found


def relative_error(found: Array, expected: Array) -> float:
    """Return |found - expected| / |expected|; NaN if an element was never written."""
    wide = expected.astype(np.float64)
    difference = found.astype(np.float64) - wide
    return float(np.linalg.norm(difference) / np.linalg.norm(wide))


LAYERS: dict[str, tuple[str, list[Sequence[int] | None], dict[str, Any]]] = {
    "convolution": ("Conv", [(2, 8, 14, 14), (16, 8, 3, 3)], {"pads": [1, 1, 1, 1]}),
    "convolution with a bias": (
        "Conv",
        [(2, 8, 14, 14), (16, 8, 1, 1), (16,)],
        {"strides": [2, 2]},
    ),
    "dilated convolution": (
        "Conv",
        [(1, 4, 12, 10), (8, 4, 3, 3)],
        {"dilations": [2, 2], "pads": [2, 2, 2, 2]},
    ),
    "convolution of each channel": (
        "Conv",
        [(1, 8, 9, 9), (8, 1, 3, 3), (8,)],
        {"group": 8, "pads": [1, 1, 1, 1]},
    ),
    "convolution of a sequence": ("Conv", [(2, 8, 30), (16, 8, 3)], {"strides": [2]}),
    "fused convolution": (
        "FusedConv",
        [(1, 8, 14, 14), (8, 8, 3, 3), (8,)],
        {"activation": "Relu", "pads": [1, 1, 1, 1]},
    ),
    "fused convolution with a sum": (
        "FusedConv",
        [(1, 8, 14, 14), (8, 8, 3, 3), (8,), (1, 8, 14, 14)],
        {"activation": "Relu", "pads": [1, 1, 1, 1]},
    ),
    "product": ("MatMul", [(24, 40), (40, 56)], {}),
    "product with a shared matrix": ("MatMul", [(3, 24, 40), (40, 56)], {}),
    "batched product": ("MatMul", [(2, 3, 24, 40), (2, 3, 40, 56)], {}),
    "scaled transposed product": (
        "FusedMatMul",
        [(2, 3, 24, 40), (2, 3, 56, 40)],
        {"transB": 1, "alpha": 0.125},
    ),
    "product of a shared matrix": ("MatMul", [(24, 40), (5, 40, 56)], {}),
    "Gemm": ("Gemm", [(24, 40), (40, 56), (56,)], {}),
    "transposed Gemm": ("Gemm", [(40, 24), (56, 40), (56,)], {"transA": 1, "transB": 1}),
    "Gemm without a bias": ("Gemm", [(24, 40), (56, 40)], {"transB": 1, "alpha": 0.5}),
    "maxima": (
        "MaxPool",
        [(2, 8, 15, 15)],
        {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]},
    ),
    "means": (
        "AveragePool",
        [(2, 8, 15, 15)],
        {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1},
    ),
    "means without padding": (
        "AveragePool",
        [(2, 8, 15, 15)],
        {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]},
    ),
    "global means": ("GlobalAveragePool", [(2, 8, 7, 5)], {}),
    "softmax": ("Softmax", [(2, 4, 10, 33)], {"axis": -1}),
    "normalisation": (
        "BatchNormalization",
        [(2, 8, 7, 5), (8,), (8,), (8,), (8,)],
        {"epsilon": 0.01},
    ),
    "rectifier": ("Relu", [(2, 8, 7, 5)], {}),
    "sigmoid": ("Sigmoid", [(3, 100)], {}),
    "exponential unit": ("Elu", [(3, 100)], {"alpha": 0.5}),
    "sum": ("Add", [(2, 8, 7, 5), (2, 8, 7, 5)], {}),
    "sum with a vector": ("Add", [(2, 9, 40), (40,)], {}),
    "product with a channel's factor": ("Mul", [(2, 8, 7, 5), (2, 8, 1, 1)], {}),
    "product with a factor first": ("Mul", [(8, 1, 1), (2, 8, 7, 5)], {}),
}
"""Layers that cuDNN or cuBLAS computes, by what they are."""
