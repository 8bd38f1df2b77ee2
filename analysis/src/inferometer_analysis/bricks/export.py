"""Reduces bricks to what may leave the house: shapes and settings of layers, no part of a model."""

from collections.abc import Mapping
from typing import Any

from inferometer_api.layers.bricks import Brick, BrickSuite
from inferometer_api.layers.graph import Layer, LayerTensor

_MOST_ELEMENTS = 16
"""Longer lists in attributes are parameters, not settings."""
_PARTS = frozenset({"g", "graphs", "t", "tensors", "sparseTensor", "sparseTensors"})
"""Fields of ONNX attributes that have graphs and tensors of a model in them."""
_LISTS = ("ints", "floats")
_SETTINGS_IN_WORDS = frozenset({"activations"})
"""Attributes whose words choose a function; those of others may be names of classes."""
_CLASSICAL = "ai.onnx.ml"
"""Trees, tables and scalers, whose parameters are attributes."""
_FEW_BITS = frozenset({"INT4", "UINT4", "INT8", "UINT8"})


def exportable(suite: BrickSuite) -> tuple[BrickSuite, tuple[str, ...]]:
    """Return the bricks that show no part of a model, and the operators that the others have.

    Left out are bricks with graphs, tensors or parameters in attributes. Integer weights of
    quantised layers lose their values: random ones take as long. Keys stay, so that times that
    were measured elsewhere belong to the models here.
    """
    left_out = {key: each.operator for key, each in suite.layers.items() if _shows_model(each)}
    bricks: dict[str, Brick] = {
        key: each for key, each in suite.bricks.items() if left_out.keys().isdisjoint(each.layers)
    }
    needed = {key for each in bricks.values() for key in each.layers}
    layers = {key: _without_weights(suite.layers[key]) for key in suite.layers if key in needed}
    operators = tuple(sorted(set(left_out.values())))
    return suite.model_copy(update={"layers": layers, "bricks": bricks}), operators


def _shows_model(layer: Layer) -> bool:
    return layer.domain == _CLASSICAL or any(map(_is_part, layer.attributes))


def _is_part(attribute: Mapping[str, Any]) -> bool:
    words = attribute.get("strings") and attribute.get("name") not in _SETTINGS_IN_WORDS
    is_long = any(len(attribute.get(each, ())) > _MOST_ELEMENTS for each in _LISTS)
    return bool(words or is_long or not _PARTS.isdisjoint(attribute))


def _without_weights(layer: Layer) -> Layer:
    tensors = (*layer.inputs, *layer.outputs)
    if all(each.datatype not in _FEW_BITS for each in tensors):
        return layer
    return layer.model_copy(update={"inputs": list(map(_without_values, layer.inputs))})


def _without_values(tensor: LayerTensor) -> LayerTensor:
    if tensor.kind != "Weight" or tensor.datatype not in {*_FEW_BITS, "INT32"}:
        return tensor
    return tensor.model_copy(update={"values": None, "lowest": None, "highest": None})
