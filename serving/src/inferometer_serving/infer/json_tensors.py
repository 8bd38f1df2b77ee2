"""Tensors in JSON."""

from collections.abc import Sequence
from itertools import chain

import numpy as np
import orjson

from inferometer_serving.errors import invalid
from inferometer_serving.infer.datatypes import Datatype
from inferometer_serving.infer.tensors import Array, from_values


def from_json(name: str, datatype: Datatype, shape: tuple[int, ...], data: object) -> Array:
    """Return the tensor that a "data" member holds: one flat list, or lists nested as `shape`.

    Raises RequestRefusedError if the nesting, an element's type, a value or the number of
    elements does not fit.
    """
    values = _flat(name, shape, data)
    if not datatype.json_types.issuperset(map(type, values)):
        odd = set(map(type, values)) - datatype.json_types
        words = " and ".join(sorted(_word(each) for each in odd))
        wanted = " or ".join(sorted(_word(each) for each in datatype.json_types))
        raise invalid(f"Input '{name}' of {datatype.name} holds {words}: send {wanted} elements.")
    return from_values(name, datatype, shape, values)


def to_json(name: str, datatype: Datatype, array: Array) -> bytes:
    """Return an output as JSON: one flat list.

    Raises RequestRefusedError if it holds NaN or infinity, for which JSON has no word.
    """
    flat = array.ravel()  # contiguous, as orjson requires
    if datatype.item_bytes is None:
        return orjson.dumps(flat.tolist())
    if datatype.name == "BF16":  # numpy itself has no such type
        flat = flat.astype(np.float32)
    text = orjson.dumps(flat, option=orjson.OPT_SERIALIZE_NUMPY)
    if b"null" in text:
        raise invalid(
            f"Output '{name}' holds NaN or infinity, for which JSON has no word: "
            'pending for it with "binary_data": true.'
        )
    return text


def _flat(name: str, shape: tuple[int, ...], data: object) -> Sequence[object]:
    if not isinstance(data, list):
        raise invalid(f"Input '{name}' has a \"data\" that is not a list: send a list of elements.")
    values: list[object] = data
    for depth in range(1, len(shape)):
        if not values or not isinstance(values[0], list):
            break
        lengths = {len(each) if isinstance(each, list) else -1 for each in values}
        if lengths != {shape[depth]}:
            raise invalid(
                f"Input '{name}' has lists nested otherwise than its shape {list(shape)}: "
                "nest them as the shape says, or send one flat list."
            )
        values = list(chain.from_iterable(each for each in values if isinstance(each, list)))
    return values


def _word(kind: type) -> str:
    words = {bool: "true/false", int: "integer", float: "number", str: "string", list: "list"}
    return words.get(kind, "null" if kind is type(None) else "object")
