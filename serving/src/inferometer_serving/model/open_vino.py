"""The engine OpenVINO, on CPUs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import openvino
from onnx import TensorProto, ValueInfoProto

from inferometer_models.errors import ModelRefusedError
from inferometer_models.graph_file import GraphFile
from inferometer_serving.infer.datatypes import DATATYPES, Datatype
from inferometer_serving.infer.signature import Signature, TensorSpec
from inferometer_serving.infer.tensors import Array
from inferometer_serving.model.placement import GraphPlacement, work_depends_on_values
from inferometer_serving.model.precision import LayerPrecisions, counted
from inferometer_serving.model.session import EngineSettings, Interrupt, Session, reason_of
from inferometer_serving.options import Device, Precision

PROVIDER = "OpenVINO CPU"
_HINTS = {Precision.FP32: "f32", Precision.BF16: "bf16", Precision.FP16: "f16"}
"""INT8 has none: OpenVINO computes in it what the model quantises."""
_PRECISIONS = {
    "f64": "FP64",
    "f32": "FP32",
    "bf16": "BF16",
    "f16": "FP16",
    "i8": "INT8",
    "u8": "INT8",
    "i4": "INT4",
    "u4": "INT4",
}
_MATRIX_LAYERS = frozenset(
    {"Convolution", "Deconvolution", "FullyConnected", "LLMMLP", "MatMul", "QKVProjection"}
    | {"RNNCell", "RNNSeq", "ScaledDotProductAttention", "ScaledDotProductAttentionWithKVCache"}
)
"""The layers of OpenVINO's CPU plugin that multiply matrices."""
_UNSUPPORTED = frozenset({"BF16", "BYTES"})


@dataclass(frozen=True, slots=True)
class ExecutedLayer:
    """One node of a compiled graph."""

    name: str
    kind: str
    precision: str
    kernel: str
    """The implementation that OpenVINO chose: brgconv_avx512_bf16."""
    shape: tuple[int, ...]
    """Of its first output; empty if it is not known before the inference."""
    order: int


def load(graph: GraphFile, settings: EngineSettings, interrupt: Interrupt) -> Session:
    """Compile a model for the CPU. Raises ModelRefusedError if OpenVINO cannot."""
    if settings.device is not Device.CPU:
        raise ModelRefusedError(
            f"The device {settings.device} was requested, but OpenVINO computes on CPUs here: set "
            "the device to CPU, or the runtime to OnnxRuntime."
        )
    compiled = compile_graph(graph, settings)
    if interrupt.is_set:
        raise ModelRefusedError("The server ended while OpenVINO compiled the model.")
    signature = _signature(graph, compiled)
    request = compiled.create_infer_request()
    interrupt.add(request.cancel)
    layers = executed_layers(compiled)
    return Session(
        runner=_RequestRunner(request, signature),
        signature=signature,
        providers=(PROVIDER,),
        placement=GraphPlacement({PROVIDER: len(layers)}, 0),
        work_depends_on_values=work_depends_on_values(graph.model),
        runtime_version=str(openvino.__version__),
        threads=int(compiled.get_property("INFERENCE_NUM_THREADS")),
        precisions=layer_precisions(layers),
        unload=_remover(interrupt, request.cancel),
    )


def _remover(interrupt: Interrupt, callback: Callable[[], None]) -> Callable[[], None]:
    return lambda: interrupt.remove(callback)


def compile_graph(graph: GraphFile, settings: EngineSettings, *, is_profiled: bool = False) -> Any:
    """Return the compiled model. Raises ModelRefusedError if OpenVINO cannot compile it."""
    properties = properties_of(settings, is_profiled=is_profiled)
    try:
        return openvino.Core().compile_model(str(graph.path), "CPU", properties)
    except Exception as error:
        raise ModelRefusedError(
            f"The model {graph.path} cannot be compiled by OpenVINO {openvino.__version__}: "
            f"{reason_of(error)}"
        ) from error


def properties_of(settings: EngineSettings, *, is_profiled: bool = False) -> dict[str, Any]:
    """Return OpenVINO's properties for these settings."""
    properties: dict[str, Any] = {
        "PERFORMANCE_HINT": "LATENCY",
        "NUM_STREAMS": 1,
        "INFERENCE_NUM_THREADS": settings.threads,
        # Instances would be pinned to the same CPUs.
        "ENABLE_CPU_PINNING": False,
        "PERF_COUNT": is_profiled,
    }
    if settings.precision in _HINTS:
        properties["INFERENCE_PRECISION_HINT"] = _HINTS[settings.precision]
    return properties


def executed_layers(compiled: Any) -> list[ExecutedLayer]:
    """Return the nodes of the compiled graph that have a kernel, in the order of execution."""
    layers = []
    for node in compiled.get_runtime_model().get_ordered_ops():
        facts = {name: str(value.astype(str)) for name, value in node.get_rt_info().items()}
        kernel = facts.get("primitiveType", "unknown")
        if kernel.startswith("unknown"):  # constants, inputs, outputs and mere views
            continue
        layers.append(
            ExecutedLayer(
                name=node.get_friendly_name(),
                kind=facts["layerType"],
                precision=facts.get("runtimePrecision", ""),
                kernel=kernel,
                shape=_shape(node),
                order=int(facts.get("execOrder", "0")),
            )
        )
    return sorted(layers, key=lambda layer: layer.order)


def layer_precisions(layers: list[ExecutedLayer]) -> LayerPrecisions:
    """Return the precisions of the layers that multiply matrices."""
    return counted(
        _PRECISIONS.get(layer.precision.lower(), layer.precision)
        for layer in layers
        if layer.kind in _MATRIX_LAYERS
    )


def _shape(node: Any) -> tuple[int, ...]:
    if not node.get_output_size() or node.get_output_partial_shape(0).is_dynamic:
        return ()
    return tuple(int(each) for each in node.get_output_shape(0))


def _signature(graph: GraphFile, compiled: Any) -> Signature:
    weights = {each.name for each in graph.model.graph.initializer}
    inputs = [each for each in graph.model.graph.input if each.name not in weights]
    return Signature(
        inputs=tuple(_spec(graph, "input", each, compiled.input) for each in inputs),
        outputs=tuple(
            _spec(graph, "output", each, compiled.output) for each in graph.model.graph.output
        ),
    )


def _spec(
    graph: GraphFile, kind: str, value: ValueInfoProto, port_of: Callable[[str], Any]
) -> TensorSpec:
    element = value.type.tensor_type.elem_type
    datatype = _BY_ELEMENT_TYPE.get(element) if value.type.HasField("tensor_type") else None
    if datatype is None or datatype.name in _UNSUPPORTED:
        found = TensorProto.DataType.Name(element) if datatype is not None else "no tensor"
        raise ModelRefusedError(
            f"The {kind} '{value.name}' of the model {graph.path} is {found}, which the server "
            "cannot pass to OpenVINO: set the runtime to OnnxRuntime."
        )
    try:
        shape = port_of(value.name).get_partial_shape()
    except RuntimeError as error:
        raise ModelRefusedError(
            f"OpenVINO removed the {kind} '{value.name}' of the model {graph.path}: set the "
            "runtime to OnnxRuntime, or export the model without it."
        ) from error
    axes = () if shape.rank.is_dynamic else tuple(shape)
    sizes = tuple(-1 if axis.is_dynamic else int(axis.get_length()) for axis in axes)
    return TensorSpec(value.name, datatype, sizes)


_BY_ELEMENT_TYPE: dict[int, Datatype] = {
    TensorProto.BOOL: DATATYPES["BOOL"],
    TensorProto.FLOAT: DATATYPES["FP32"],
    TensorProto.DOUBLE: DATATYPES["FP64"],
    TensorProto.FLOAT16: DATATYPES["FP16"],
    TensorProto.BFLOAT16: DATATYPES["BF16"],
    TensorProto.STRING: DATATYPES["BYTES"],
    **{
        getattr(TensorProto, name): DATATYPES[name]
        for name in ("INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64")
    },
}


class _RequestRunner:
    """Hands numpy arrays to one inference request, which reads them in place."""

    def __init__(self, request: Any, signature: Signature) -> None:
        self._infer = request.infer
        self._index = {each.name: at for at, each in enumerate(signature.outputs)}

    def run(self, output_names: list[str], inputs: dict[str, Array]) -> list[Array]:
        results = self._infer(inputs, share_inputs=True, share_outputs=True)
        # The request writes the next outputs into the same memory.
        return [np.array(results[self._index[name]]) for name in output_names]
