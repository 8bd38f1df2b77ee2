"""What does an inference request in JSON ask for, and how is it answered?

The JSON of a request whose tensors are all binary says only how they lie in the bytes that follow.
Such a plan is the same for many requests, so it is kept by the bytes it was read from, together
with the head of its last answer. Tensor data is read anew for every request.
"""

from dataclasses import dataclass, field
from typing import Any

import orjson

from inferometer_serving.errors import invalid
from inferometer_serving.json_tensors import from_json, to_json
from inferometer_serving.signature import Shape, Signature, TensorSpec
from inferometer_serving.tensors import Array, Raw, from_raw, to_raw

_PLANS_KEPT = 1024
_LONGEST_PLAN_KEPT_BYTES = 4096


@dataclass(frozen=True, slots=True)
class PlannedInput:
    """One input of a request: its tensor, or where in the binary data it lies."""

    spec: TensorSpec
    shape: Shape
    start: int
    stop: int
    tensor: Array | None


@dataclass(frozen=True, slots=True)
class PlannedOutput:
    """One output that the request wants, and in which form."""

    spec: TensorSpec
    binary: bool


@dataclass(slots=True)
class InferencePlan:
    """All that a request's JSON says."""

    request_id: str | None
    inputs: tuple[PlannedInput, ...]
    outputs: tuple[PlannedOutput, ...]
    binary_bytes: int
    output_names: list[str] = field(init=False)
    last_key: tuple[Any, ...] | None = field(init=False, default=None)
    """Shapes and sizes of the outputs that `last_head` announces."""
    last_head: bytes = field(init=False, default=b"")

    def __post_init__(self) -> None:
        self.output_names = [each.spec.name for each in self.outputs]

    def tensors(self, raw: Raw) -> dict[str, Array]:
        """Return the inputs by name. Raises RequestRefusedError where `raw` does not fit."""
        if len(raw) != self.binary_bytes:
            raise invalid(
                f"The request has {len(raw)} bytes after its JSON, but its binary_data_size "
                f"members add up to {self.binary_bytes}: make them agree."
            )
        if len(self.inputs) == 1 and self.inputs[0].tensor is None:
            only = self.inputs[0]
            return {only.spec.name: from_raw(only.spec.name, only.spec.datatype, only.shape, raw)}
        view = memoryview(raw)
        return {
            each.spec.name: from_raw(
                each.spec.name, each.spec.datatype, each.shape, view[each.start : each.stop]
            )
            if each.tensor is None
            else each.tensor
            for each in self.inputs
        }


class PlanReader:
    """Reads requests for one model."""

    def __init__(self, signature: Signature) -> None:
        self._signature = signature
        self._all_outputs = {
            binary: tuple(PlannedOutput(each, binary) for each in signature.outputs)
            for binary in (False, True)
        }
        self._kept: dict[bytes, InferencePlan] = {}

    def read(self, document: bytes) -> InferencePlan:
        """Return what the JSON `document` asks for. Raises RequestRefusedError."""
        kept = self._kept.get(document)
        if kept is not None:
            return kept
        plan = self._read(document)
        if len(document) <= _LONGEST_PLAN_KEPT_BYTES and all(
            each.tensor is None for each in plan.inputs
        ):
            if len(self._kept) >= _PLANS_KEPT:
                self._kept.clear()
            self._kept[document] = plan
        return plan

    def _read(self, document: bytes) -> InferencePlan:
        try:
            request = orjson.loads(document)
        except orjson.JSONDecodeError as error:
            raise invalid(f"The request's JSON cannot be read: {error}.") from error
        members = _object("The request", "", request)
        request_id = members.get("id")
        if request_id is not None and not isinstance(request_id, str):
            raise invalid('The request\'s "id" is no string: send a string, or none.')
        default_binary = _flag(_parameters("The request", "", members), "binary_data_output")
        inputs, binary_bytes = _inputs(self._signature, members.get("inputs"))
        asked = members.get("outputs")
        if asked is None or asked == []:
            outputs = self._all_outputs[default_binary]
        else:
            outputs = _outputs(self._signature, asked, default_binary=default_binary)
        return InferencePlan(request_id, inputs, outputs, binary_bytes)


def raw_plan(signature: Signature, size: int) -> InferencePlan:
    """Return the plan of a request that is nothing but its one input's bytes.

    Raises RequestRefusedError where the model has several inputs, or the shape does not follow
    from `size`.
    """
    spec = signature.inputs[0] if len(signature.inputs) == 1 else None
    item = None if spec is None else spec.datatype.item_bytes
    if spec is None or item is None or spec.shape.count(-1) > 1:
        raise invalid(
            "A request without JSON (Inference-Header-Content-Length: 0) needs a model with one "
            "input of a numeric datatype and one open axis at most: send JSON."
        )
    fixed = item
    for extent in spec.shape:
        fixed *= 1 if extent == -1 else extent
    shape = tuple(size // fixed if extent == -1 and fixed else extent for extent in spec.shape)
    outputs = tuple(PlannedOutput(each, binary=True) for each in signature.outputs)
    return InferencePlan(None, (PlannedInput(spec, shape, 0, size, None),), outputs, size)


def answer(
    model_name: str, model_version: str, plan: InferencePlan, results: list[Array]
) -> tuple[bytes, list[Raw]]:
    """Return the outputs as a JSON document and the binary data behind it.

    Raises RequestRefusedError where JSON cannot carry an output.
    """
    reply: dict[str, object] = {"model_name": model_name, "model_version": model_version}
    if plan.request_id is not None:
        reply["id"] = plan.request_id
    raw: list[Raw] = []
    outputs: list[dict[str, object]] = []
    for planned, array in zip(plan.outputs, results, strict=True):
        spec = planned.spec
        output: dict[str, object] = {
            "name": spec.name,
            "datatype": spec.datatype.name,
            "shape": array.shape,
        }
        if planned.binary:
            data = to_raw(spec.datatype, array)
            output["parameters"] = {"binary_data_size": len(data)}
            raw.append(data)
        else:
            output["data"] = to_json(spec.name, spec.datatype, array)
        outputs.append(output)
    reply["outputs"] = outputs
    return orjson.dumps(reply, option=orjson.OPT_SERIALIZE_NUMPY), raw


def _inputs(signature: Signature, asked: object) -> tuple[tuple[PlannedInput, ...], int]:
    if not isinstance(asked, list) or not asked:
        raise invalid('The request has no list "inputs": send one member for each input.')
    position = 0
    planned: list[PlannedInput] = []
    for each in asked:
        made = _input(signature, _object("An input", "", each), position)
        position = made.stop
        planned.append(made)
    signature.check_complete([each.spec.name for each in planned])
    return tuple(planned), position


def _input(signature: Signature, members: dict[str, Any], position: int) -> PlannedInput:
    name, datatype = members.get("name"), members.get("datatype")
    if not isinstance(name, str) or not isinstance(datatype, str):
        raise invalid('An input lacks its "name" or "datatype": send both as strings.')
    parameters = _parameters("Input", name, members)
    _refuse_shared_memory("Input", name, parameters)
    shape = _shape(name, members.get("shape"))
    spec = signature.input(name, datatype, shape)
    size = parameters.get("binary_data_size")
    if size is None:
        if "data" not in members:
            raise invalid(
                f"Input '{name}' has neither \"data\" nor a binary_data_size: send one of them."
            )
        tensor = from_json(name, spec.datatype, shape, members["data"])
        return PlannedInput(spec, shape, position, position, tensor)
    if type(size) is not int or size < 0:
        raise invalid(f"Input '{name}' has a binary_data_size that is no size: send an integer.")
    if "data" in members:
        raise invalid(f"Input '{name}' has both \"data\" and a binary_data_size: send one of them.")
    return PlannedInput(spec, shape, position, position + size, None)


def _outputs(
    signature: Signature, asked: object, *, default_binary: bool
) -> tuple[PlannedOutput, ...]:
    if not isinstance(asked, list):
        raise invalid('The request\'s "outputs" is no list: send a list of names, or none.')
    planned = [
        _output(signature, _object("An output", "", each), default_binary=default_binary)
        for each in asked
    ]
    names = [each.spec.name for each in planned]
    if len(set(names)) != len(names):
        raise invalid("The request asks for an output more than once: ask for each once.")
    return tuple(planned)


def _output(
    signature: Signature, members: dict[str, Any], *, default_binary: bool
) -> PlannedOutput:
    name = members.get("name")
    if not isinstance(name, str):
        raise invalid('An output lacks its "name": send it as a string.')
    parameters = _parameters("Output", name, members)
    _refuse_shared_memory("Output", name, parameters)
    if "classification" in parameters:
        raise invalid(
            f"Output '{name}' was asked for as a classification, which this server does not "
            "have: ask for the tensor itself."
        )
    binary = default_binary
    if "binary_data" in parameters:
        binary = _flag(parameters, "binary_data")
    return PlannedOutput(signature.output(name), binary)


# What is checked is named in two parts, joined only where there is a fault to tell: this is hot.


def _object(kind: str, name: str, value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise invalid(f"{_named(kind, name)} is no JSON object: send an object.")
    return value


def _parameters(kind: str, name: str, members: dict[str, Any]) -> dict[str, Any]:
    value = members.get("parameters")
    return {} if value is None else _object("The parameters of", name or kind, value)


def _named(kind: str, name: str) -> str:
    return f"{kind} '{name}'" if name else kind


def _flag(parameters: dict[str, Any], name: str) -> bool:
    value = parameters.get(name, False)
    if not isinstance(value, bool):
        raise invalid(f'The parameter "{name}" is neither true nor false: send one of them.')
    return value


def _refuse_shared_memory(kind: str, name: str, parameters: dict[str, Any]) -> None:
    if "shared_memory_region" in parameters:
        raise invalid(
            f"{_named(kind, name)} is to lie in shared memory, which this server does not have: "
            "send and receive tensors in the messages."
        )


def _shape(name: str, value: object) -> Shape:
    if not isinstance(value, list) or any(type(each) is not int or each < 0 for each in value):
        raise invalid(
            f"Input '{name}' has a \"shape\" that is no list of sizes: send whole numbers."
        )
    return tuple(value)
