"""Inputs of a graph, read from its ONNX file without a runtime."""

from types import MappingProxyType

from onnx import GraphProto, TensorProto, TensorShapeProto

from inferometer_fetch.fetched_model import GraphInput

DATATYPE_NAMES = MappingProxyType(
    {
        int(TensorProto.BOOL): "BOOL",
        int(TensorProto.UINT8): "UINT8",
        int(TensorProto.UINT16): "UINT16",
        int(TensorProto.UINT32): "UINT32",
        int(TensorProto.UINT64): "UINT64",
        int(TensorProto.INT8): "INT8",
        int(TensorProto.INT16): "INT16",
        int(TensorProto.INT32): "INT32",
        int(TensorProto.INT64): "INT64",
        int(TensorProto.FLOAT16): "FP16",
        int(TensorProto.BFLOAT16): "BF16",
        int(TensorProto.FLOAT): "FP32",
        int(TensorProto.DOUBLE): "FP64",
        int(TensorProto.STRING): "BYTES",
    }
)
"""The Open Inference Protocol's name of each ONNX element type."""


def graph_inputs(graph: GraphProto) -> tuple[GraphInput, ...] | None:
    """Return the inputs of a request, in the graph's order.

    None if the file leaves a rank open, or has an input that is not a tensor of the Open Inference
    Protocol: then only the runtime knows them.
    """
    has_value = {each.name for each in graph.initializer}
    has_value.update(each.values.name for each in graph.sparse_initializer)
    inputs = []
    for value in graph.input:
        if value.name in has_value:
            continue
        tensor = value.type.tensor_type
        datatype = DATATYPE_NAMES.get(tensor.elem_type)
        if datatype is None or not tensor.HasField("shape"):
            return None
        shape = tuple(map(_size, tensor.shape.dim))
        inputs.append(GraphInput(value.name, datatype, shape))
    return tuple(inputs)


def _size(axis: TensorShapeProto.Dimension) -> int:
    known = axis.HasField("dim_value") and axis.dim_value >= 0
    return axis.dim_value if known else -1
