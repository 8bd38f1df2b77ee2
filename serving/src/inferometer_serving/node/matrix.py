"""Peaks of matrix products by precision, through the engines' own kernels, and the units used."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

from inferometer_api.nodes.characteristics import MatrixUnit, NodeFigure
from inferometer_api.nodes.figures import figure
from inferometer_serving.layers.brick_model import model_as_brick
from inferometer_serving.layers.kernels import Kernels, OnnxKernels, OpenVinoKernels
from inferometer_serving.model.session import EngineSettings
from inferometer_serving.node.samples import NodeProbe, NotMeasurableError, seconds_per_call
from inferometer_serving.options import Precision

_WIDTH = 1024
_REPEATS = 7
_INT8, _BF16, _FP16 = ("i8", "u8"), ("bf16",), ("f16", "fp16")
_UNITS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "amx_int8": ("amx", _INT8),
    "amx_bf16": ("amx", _BF16),
    "amx_fp16": ("amx", _FP16),
    "avx512_vnni": ("avx512", _INT8),
    "avx512_bf16": ("avx512", _BF16),
    "avx512_fp16": ("avx512", _FP16),
    "avx_vnni": ("avx2", _INT8),
    "avx512f": ("avx512", ()),
    "avx2": ("avx2", ()),
}
"""The kernel's names of units; the instruction set and the types of operands in OpenVINO's names of
kernels that use them. Without types: the rest of that set's kernels."""
_SETS = ("amx", "avx512", "avx2")
"""The widest first: a name contains those of the sets below its own too."""


def matrix_probes(names: dict[str, list[str]]) -> Iterator[NodeProbe]:
    """Yield a probe for each engine and precision; `names` gets the kernels of each engine."""
    threads = len(os.sched_getaffinity(0))
    openers: dict[tuple[str, str], Callable[[], Kernels]] = {
        ("onnxruntime", "FP32"): lambda: OnnxKernels(
            model_as_brick(product("FP32")), EngineSettings(threads=threads)
        ),
        ("onnxruntime", "INT8"): lambda: OnnxKernels(
            model_as_brick(product("INT8")), EngineSettings(threads=threads)
        ),
        ("onnxruntime", "BF16"): _no_bfloat16,
        **{
            ("openvino", each.value): partial(_open_vino, each, threads, names)
            for each in (Precision.FP32, Precision.BF16, Precision.INT8)
        },
    }
    for (engine, precision), opened in openers.items():
        yield NodeProbe(
            f"gemm ({engine}, {precision})", partial(_peak, engine, precision, threads, opened)
        )


def _peak(
    engine: str, precision: str, threads: int, opened: Callable[[], Kernels]
) -> Sequence[NodeFigure]:
    try:
        layer = opened()
    except ImportError as error:
        raise NotMeasurableError(f"{engine} is not installed") from error
    samples = [2.0 * _WIDTH**3 / seconds_per_call(layer.run) for _ in range(_REPEATS)]
    setting = {"engine": engine, "precision": precision, "threads": threads, "width": _WIDTH}
    return [figure("gemm", "flop/s", samples, setting)]


def _no_bfloat16() -> Kernels:
    raise NotMeasurableError("ONNX Runtime multiplies no BF16 matrices on a CPU")


def _open_vino(precision: Precision, threads: int, names: dict[str, list[str]]) -> OpenVinoKernels:
    is_int8 = precision is Precision.INT8
    # What is quantised is computed in INT8 whatever else is requested.
    settings = EngineSettings(threads=threads, precision=Precision.FP32 if is_int8 else precision)
    model = quantised_product() if is_int8 else product("FP32")
    layer = OpenVinoKernels(model_as_brick(model), settings)
    names.setdefault("openvino", []).extend(layer.names)
    if layer.precision != precision.value:
        raise NotMeasurableError(
            f"the engine computes in {layer.precision or 'an unknown precision'} on this CPU"
        )
    return layer


def product(precision: str) -> ModelProto:
    """Return a product of two square matrices."""
    kind = TensorProto.FLOAT if precision == "FP32" else TensorProto.UINT8
    out = TensorProto.FLOAT if precision == "FP32" else TensorProto.INT32
    node = "MatMul" if precision == "FP32" else "MatMulInteger"
    shape = [_WIDTH, _WIDTH]
    values = np.zeros(shape, np.float32 if precision == "FP32" else np.int8)
    return _model(
        [helper.make_node(node, ["x", "w"], ["y"])],
        helper.make_tensor_value_info("x", kind, shape),
        helper.make_tensor_value_info("y", out, shape),
        [numpy_helper.from_array(values + 1, "w")],
    )


def quantised_product() -> ModelProto:
    """Return a product whose operands are quantised to 8 bits, as quantisers write it."""
    shape = [_WIDTH, _WIDTH]
    floats = helper.make_tensor_value_info
    weights = np.random.default_rng(0).integers(-127, 127, shape, np.int8)
    return _model(
        [
            helper.make_node("QuantizeLinear", ["x", "sx", "zx"], ["qx"]),
            helper.make_node("DequantizeLinear", ["qx", "sx", "zx"], ["dx"]),
            helper.make_node("DequantizeLinear", ["w", "sw", "zw"], ["dw"]),
            helper.make_node("MatMul", ["dx", "dw"], ["y"]),
        ],
        floats("x", TensorProto.FLOAT, shape),
        floats("y", TensorProto.FLOAT, shape),
        [
            numpy_helper.from_array(np.array(0.05, np.float32), "sx"),
            numpy_helper.from_array(np.array(128, np.uint8), "zx"),
            numpy_helper.from_array(np.array(0.01, np.float32), "sw"),
            numpy_helper.from_array(np.array(0, np.int8), "zw"),
            numpy_helper.from_array(weights, "w"),
        ],
    )


def _model(nodes: Sequence[Any], x: Any, y: Any, constants: Sequence[Any]) -> ModelProto:
    graph = helper.make_graph(list(nodes), "product", [x], [y], initializer=list(constants))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def matrix_units(
    kernels: dict[str, list[str]], cpu_info: Path = Path("/proc/cpuinfo")
) -> list[MatrixUnit]:
    """Return the units that engines know, which of them the CPU has, and who used them."""
    flags = _flags(cpu_info)
    return [
        MatrixUnit(
            name=name,
            offered=name in flags,
            used_by={
                engine: found
                for engine, names in kernels.items()
                if (found := sorted({each for each in names if _unit_of(each, flags) == name}))
            },
        )
        for name in _UNITS
    ]


def _unit_of(kernel: str, flags: frozenset[str]) -> str | None:
    """Return the unit that a kernel uses, by its name; of those for its type, if it is offered."""
    words = kernel.lower().split("_")
    instructions = next((each for each in _SETS if each in words), "")
    for name, (its_set, types) in _UNITS.items():
        is_its_type = not types or (name in flags and not set(types).isdisjoint(words))
        if its_set == instructions and is_its_type:
            return name
    return None


def _flags(cpu_info: Path) -> frozenset[str]:
    try:
        text = cpu_info.read_text()
    except OSError:
        return frozenset()
    for line in text.splitlines():
        name, _, words = line.partition(":")
        if name.strip() in {"flags", "Features"}:
            return frozenset(words.split())
    return frozenset()
