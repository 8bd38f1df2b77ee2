"""Which tensors does a graph take, as far as its file tells without being opened?"""

from types import MappingProxyType

from onnx import GraphProto, TensorShapeProto

from inferometer_serving.fetch.fetched import GraphInput
from inferometer_serving.infer.datatypes import DATATYPES

_NAMES = MappingProxyType({each.onnx_code: each.name for each in DATATYPES.values()})


def graph_inputs(graph: GraphProto) -> tuple[GraphInput, ...] | None:
    """Return the inputs that a request must carry, in the graph's order.

    None where the file leaves a rank open or has an input that is no tensor the protocol knows:
    then only the runtime can tell.
    """
    has_value = {each.name for each in graph.initializer}
    has_value.update(each.values.name for each in graph.sparse_initializer)
    inputs = []
    for value in graph.input:
        if value.name in has_value:
            continue
        tensor = value.type.tensor_type
        datatype = _NAMES.get(tensor.elem_type)
        if datatype is None or not tensor.HasField("shape"):
            return None
        shape = tuple(map(_size, tensor.shape.dim))
        inputs.append(GraphInput(value.name, datatype, shape))
    return tuple(inputs)


def _size(axis: TensorShapeProto.Dimension) -> int:
    known = axis.HasField("dim_value") and axis.dim_value >= 0
    return axis.dim_value if known else -1
