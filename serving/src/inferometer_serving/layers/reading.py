"""Reads the layers of an optimised graph, and what each of them is apart from its model."""

import hashlib
import json
from typing import Any

import onnxruntime  # type: ignore[import-untyped]  # ships no types
from google.protobuf import json_format
from onnx import AttributeProto, NodeProto, TensorProto, numpy_helper

from inferometer_api.layers.graph import Layer, LayerGraph, LayerTensor, LayerUse
from inferometer_models.graph_file import GraphFile
from inferometer_serving.layers.layer_tensors import FEW_ELEMENTS, describe_array, graph_inputs
from inferometer_serving.layers.optimised_graph import GraphSettings, OptimisedGraph, optimise

_IGNORED_IN_KEYS = frozenset({"lowest", "highest"})
_PRESENT_IN_KEYS = "sample"
_KEY_LENGTH = 16
_SHAPED_BY_FRACTIONS = frozenset({"Range", "Resize", "Upsample"})
"""Operators of which the shape of the result may depend on weights that are fractions."""
ENGINE = "ONNX Runtime"


def describe(graph: GraphFile, settings: GraphSettings) -> LayerGraph:
    """Return the layers of a model in the order in which ONNX Runtime runs them.

    Raises ModelRefusedError if they cannot be found.
    """
    return LayerGraph(
        model=graph.path.stem,
        model_sha256=graph.sha256,
        engine=ENGINE,
        engine_version=str(onnxruntime.__version__),
        batch_size=settings.batch_size,
        layout=settings.layout,
        **_read_layers(optimise(graph, settings)),
    )


def _read_layers(optimised: OptimisedGraph) -> dict[str, Any]:
    model = optimised.model
    versions = {each.domain: each.version for each in model.opset_import}
    shaping = {
        name
        for node in model.graph.node
        if node.op_type in _SHAPED_BY_FRACTIONS
        for name in node.input
    }
    weights = {
        each.name: _weight(each, is_shaping=each.name in shaping)
        for each in model.graph.initializer
    }
    numbers = {name: at for at, name in enumerate(graph_inputs(model))}
    known = optimised.tensors | weights
    layers: dict[str, Layer] = {}
    uses = []
    for index, node in enumerate(model.graph.node):
        layer = _layer(node, versions, known)
        key = layer_key(layer)
        layers.setdefault(key, layer)
        reads = [numbers[name] for name in node.input if name and name not in weights]
        for name in node.output:
            if name:
                numbers[name] = len(numbers)
        uses.append(
            LayerUse(
                layer=key,
                name=node.name or f"{node.op_type}_{index}",
                inputs=reads,
                outputs=[numbers[name] for name in node.output if name],
            )
        )
    return {"layers": layers, "uses": uses}


def layer_key(layer: Layer) -> str:
    """Return the key of a layer, the same for layers of equal work."""
    fields = layer.model_dump(mode="json", exclude_none=True)
    for side in ("inputs", "outputs"):
        for tensor in fields.get(side, ()):
            for name in _IGNORED_IN_KEYS:
                tensor.pop(name, None)
            if _PRESENT_IN_KEYS in tensor:
                tensor[_PRESENT_IN_KEYS] = True
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_KEY_LENGTH]


def _layer(
    node: NodeProto,
    versions: dict[str, int],
    known: dict[str, LayerTensor],
) -> Layer:
    first: dict[str, int] = {}
    inputs = []
    for at, name in enumerate(node.input):
        tensor = known[name] if name else LayerTensor(kind="Absent")
        if name in first:
            tensor = tensor.model_copy(update={"same_as": first[name]})
        elif name:
            first[name] = at
        inputs.append(tensor)
    written = (known[name] if name else LayerTensor(kind="Absent") for name in node.output)
    return Layer(
        domain=node.domain,
        operator=node.op_type,
        version=versions[node.domain],
        attributes=[
            _attribute(each) for each in sorted(node.attribute, key=lambda each: each.name)
        ],
        inputs=inputs,
        outputs=list(map(_without_sample, written)),
    )


def _without_sample(tensor: LayerTensor) -> LayerTensor:
    """Return a tensor as an output: a brick makes its outputs itself."""
    return tensor if tensor.sample is None else tensor.model_copy(update={"sample": None})


def _attribute(attribute: AttributeProto) -> dict[str, Any]:
    bare = AttributeProto()
    bare.CopyFrom(attribute)
    bare.ClearField("doc_string")
    bare.t.ClearField("name")
    if not attribute.HasField("t"):
        bare.ClearField("t")
    found: dict[str, Any] = json_format.MessageToDict(bare)
    return found


def _weight(tensor: TensorProto, *, is_shaping: bool) -> LayerTensor:
    datatype = TensorProto.DataType.Name(tensor.data_type)
    found = LayerTensor(kind="Weight", datatype=datatype, shape=list(tensor.dims))
    is_integer = datatype.startswith(("INT", "UINT"))
    if tensor.data_location == TensorProto.EXTERNAL or not (is_integer or is_shaping):
        return found
    array = numpy_helper.to_array(tensor)
    if not is_integer:
        values = [float(each) for each in array.flat] if array.size <= FEW_ELEMENTS else None
        return found.model_copy(update={"values": values})
    return describe_array(array, datatype).model_copy(update={"kind": "Weight"})
