"""Models of bricks, with random weights, and sessions of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from json import dumps
from typing import Any

import numpy as np
import onnxruntime  # type: ignore[import-untyped]  # ships no types
from google.protobuf import json_format
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, helper

from inferometer_api.layers.bricks import Brick, BrickSuite
from inferometer_api.layers.graph import Layer, LayerTensor
from inferometer_serving.infer.tensors import Array
from inferometer_serving.layers.layer_tensors import number_of_datatype, random_array

_IR_VERSION = 10
ANY_TENSOR = LayerTensor(kind="Activation")
"""An output whose memory ONNX Runtime takes with each run."""
_INLINE_BYTES = 1 << 12
"""Larger weights are handed over as they lie in memory, which spares two copies."""
_REFERENCE_WIDTH = 512


@dataclass(frozen=True, slots=True)
class BrickModel:
    """A brick as a model of its own."""

    model: ModelProto
    """Its large weights are elsewhere."""
    inputs: dict[str, Array]
    outputs: dict[str, LayerTensor]
    large_weights: dict[str, Array]

    def whole(self) -> ModelProto:
        """Return the model with all weights in it, and the types of its outputs."""
        model = ModelProto()
        model.CopyFrom(self.model)
        for weight in model.graph.initializer:
            if weight.name in self.large_weights:
                weight.ClearField("external_data")
                weight.ClearField("data_location")
                weight.raw_data = self.large_weights[weight.name].tobytes()
        model.graph.ClearField("output")
        model.graph.output.extend(
            helper.make_tensor_value_info(name, _type(tensor), tensor.shape)
            for name, tensor in self.outputs.items()
        )
        return model


@dataclass(frozen=True, slots=True)
class Runnable:
    """A session whose inputs and outputs have their memory already."""

    session: Any
    binding: Any
    inputs: tuple[Any, ...]
    kept: tuple[Any, ...]
    """What ONNX Runtime reads in place."""

    def run(self) -> None:
        """Run it once."""
        self.session.run_with_iobinding(self.binding)


def brick_model(suite: BrickSuite, brick: Brick) -> BrickModel:
    """Return a brick as a model, with random weights and inputs.

    Raises ValueError if a tensor has a type without a form in numpy, or if an inner graph reads
    tensors of the graph around it.
    """
    layers = [suite.layers[key] for key in brick.layers]
    graph = _Graph(np.random.default_rng(0))
    chained = ""
    for at, layer in enumerate(layers):
        chained = graph.add(layer, chained, brick.feeds[at - 1] if at else -1)
    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "brick",
            [
                helper.make_tensor_value_info(name, _type(tensor), tensor.shape)
                for name, tensor in graph.inputs.items()
            ],
            [helper.make_empty_tensor_value_info(name) for name in graph.outputs],
            graph.initializers,
        ),
        opset_imports=[
            helper.make_opsetid(domain, version)
            for domain, version in {each.domain: each.version for each in layers}.items()
        ],
        ir_version=_IR_VERSION,
    )
    inputs = {name: graph.array(each) for name, each in graph.inputs.items()}
    return BrickModel(model, inputs, graph.outputs, graph.large_weights)


def model_as_brick(model: ModelProto) -> BrickModel:
    """Return a model with fixed shapes, and all weights in it, with random inputs."""
    inputs, outputs = (
        {
            each.name: LayerTensor(
                kind="Activation",
                datatype=TensorProto.DataType.Name(each.type.tensor_type.elem_type),
                shape=[axis.dim_value for axis in each.type.tensor_type.shape.dim],
            )
            for each in values
        }
        for values in (model.graph.input, model.graph.output)
    )
    generator = np.random.default_rng(0)
    arrays = {name: random_array(generator, each) for name, each in inputs.items()}
    return BrickModel(model, arrays, outputs, {})


def open_brick(suite: BrickSuite, brick: Brick, options: Any) -> Runnable:
    """Return a session of a brick, with options of its own.

    Raises Exception if ONNX Runtime refuses it by itself.
    """
    made = brick_model(suite, brick)
    values = {name: _value(array) for name, array in made.large_weights.items()}
    options.add_external_initializers(list(values), list(values.values()))
    return bind(_session(made.model, options), made.inputs, made.outputs)


def matrix_product(width: int) -> ModelProto:
    """Return a model that multiplies two square matrices in FP32."""
    shape = [width, width]
    tensors = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "xwy"]
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    graph = helper.make_graph([node], "product", tensors[:2], tensors[2:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def open_reference(options: Any) -> Runnable:
    """Return a session of a product of a few milliseconds that is the same in all measurements."""
    made = model_as_brick(matrix_product(_REFERENCE_WIDTH))
    return bind(_session(made.model, options), made.inputs, made.outputs)


def open_chain(length: int, options: Any) -> Runnable:
    """Return a session of layers that compute next to nothing: what it costs is the call."""
    names = [f"t{at}" for at in range(length + 1)]
    scalar = LayerTensor(kind="Activation", datatype="FLOAT", shape=[1])
    model = helper.make_model(
        helper.make_graph(
            [helper.make_node("Neg", [names[at]], [names[at + 1]]) for at in range(length)],
            "chain",
            [helper.make_tensor_value_info(names[0], TensorProto.FLOAT, (1,))],
            [helper.make_tensor_value_info(names[-1], TensorProto.FLOAT, (1,))],
        ),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=_IR_VERSION,
    )
    session = _session(model, options)
    return bind(session, {names[0]: np.ones(1, np.float32)}, {names[-1]: scalar})


def _session(model: ModelProto, options: Any) -> Any:
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def bind(session: Any, feeds: dict[str, Array], outputs: dict[str, LayerTensor]) -> Runnable:
    """Return a session that reads and writes the same memory with every run."""
    binding = session.io_binding()
    kept: list[Any] = []
    for name, array in feeds.items():
        kept.append(_value(array))
        binding.bind_ortvalue_input(name, kept[-1])
    for name, tensor in outputs.items():
        dtype = (
            helper.tensor_dtype_to_np_dtype(_type(tensor)) if tensor.datatype else np.dtype(object)
        )
        if dtype.hasobject or not tensor.shape:
            binding.bind_output(name)
            continue
        kept.append(_value(np.empty(tensor.shape, dtype)))
        binding.bind_ortvalue_output(name, kept[-1])
    return Runnable(session, binding, tuple(feeds.values()), tuple(kept))


class _Graph:
    """A graph that grows by one layer at a time."""

    def __init__(self, generator: np.random.Generator) -> None:
        self._generator = generator
        self.nodes: list[NodeProto] = []
        self.inputs: dict[str, LayerTensor] = {}
        self.outputs: dict[str, LayerTensor] = {}
        self.initializers: list[TensorProto] = []
        self.large_weights: dict[str, Array] = {}

    def array(self, tensor: LayerTensor) -> Array:
        """Return an array such as a tensor has."""
        return random_array(self._generator, tensor)

    def add(self, layer: Layer, chained: str, feed: int) -> str:
        """Add a layer whose input `feed` is the tensor `chained`; return its first output."""
        prefix = f"n{len(self.nodes)}"
        names: list[str] = []
        for at, tensor in enumerate(layer.inputs):
            name = f"{prefix}i{at}"
            if at == feed:
                name = chained
            elif tensor.kind == "Absent":
                name = ""
            elif tensor.same_as is not None:
                name = names[tensor.same_as]
            elif tensor.kind == "Weight":
                self._add_weight(name, tensor)
            else:
                self.inputs[name] = tensor
            names.append(name)
        outputs = [
            "" if tensor.kind == "Absent" else f"{prefix}o{at}"
            for at, tensor in enumerate(layer.outputs)
        ]
        node = NodeProto(op_type=layer.operator, domain=layer.domain, input=names, output=outputs)
        node.attribute.extend(_attribute(dumps(each)) for each in layer.attributes)
        if outside := next(_read_outside(node), ""):
            raise ValueError(
                f"The graph within {layer.operator} (control flow) reads '{outside}' of the graph "
                "around it, which it lacks alone."
            )
        self.nodes.append(node)
        self.outputs = {
            name: tensor for name, tensor in zip(outputs, layer.outputs, strict=True) if name
        }
        return outputs[0]

    def _add_weight(self, name: str, tensor: LayerTensor) -> None:
        array = self.array(tensor)
        weight = TensorProto(name=name, data_type=_type(tensor), dims=tensor.shape)
        if array.nbytes <= _INLINE_BYTES:
            weight.raw_data = array.tobytes()
        else:
            weight.data_location = TensorProto.EXTERNAL
            weight.external_data.add(key="location", value="memory")
            weight.external_data.add(key="length", value=str(array.nbytes))
            self.large_weights[name] = array
        self.initializers.append(weight)


@cache
def _attribute(text: str) -> AttributeProto:
    """Return an attribute from its JSON form; layers share few, and reading one takes long."""
    return json_format.Parse(text, AttributeProto())


def _read_outside(node: NodeProto) -> Iterator[str]:
    """Yield the tensors that the inner graphs of a node read from the graph around it."""
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            yield from _lacking(graph)


def _lacking(graph: GraphProto) -> Iterator[str]:
    known = {"", *(each.name for each in graph.input), *(each.name for each in graph.initializer)}
    known |= {name for node in graph.node for name in node.output}
    for node in graph.node:
        yield from (name for name in (*node.input, *_read_outside(node)) if name not in known)


def _value(array: Array) -> Any:
    try:
        return onnxruntime.OrtValue.ortvalue_from_numpy(array)
    except Exception as error:
        raise ValueError(
            f"One of its tensors is of type {array.dtype}, which ONNX Runtime takes from no array."
        ) from error


def _type(tensor: LayerTensor) -> int:
    return number_of_datatype(tensor.datatype)
