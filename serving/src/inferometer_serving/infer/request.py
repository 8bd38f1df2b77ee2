"""Reads inference requests in JSON.

The requests of one client usually differ only in their tensors and ids. The rest is their form,
which is read once and cached. Tensors and ids are never cached, except in a request whose tensors
all follow the JSON: it is cached as a whole.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

import orjson

from inferometer_serving.errors import invalid
from inferometer_serving.infer.answer import PlannedOutput
from inferometer_serving.infer.plan import (
    InferencePlan,
    InferenceRequest,
    PlannedInput,
    planned_outputs,
)
from inferometer_serving.infer.signature import Shape, Signature

T = TypeVar("T")

_MOST_CACHED = 1024
_OF_THE_WIRE = frozenset({"binary_data_output", "binary_data_size", "binary_data"})
_LONGEST_CACHED_BYTES = 4096


class RequestReader:
    """Reads requests for one model."""

    def __init__(self, signature: Signature) -> None:
        self._signature = signature
        self._all_outputs = {
            is_binary: planned_outputs(signature.outputs, is_binary=is_binary)
            for is_binary in (False, True)
        }
        self._whole: dict[bytes, InferenceRequest] = {}
        self._plans: dict[bytes, InferencePlan] = {}

    def read(self, document: bytes) -> InferenceRequest:
        """Return the request in a JSON `document`. Raises RequestRefusedError."""
        cache = self._whole.get(document)
        if cache is not None:
            return cache
        try:
            members = _object("The request", "", orjson.loads(document))
        except orjson.JSONDecodeError as error:
            raise invalid(f"The request's JSON cannot be read: {error}.") from error
        request_id = members.pop("id", None)
        if request_id is not None and not isinstance(request_id, str):
            raise invalid('The request\'s "id" is no string: send a string, or none.')
        data = _take_data(members)
        plan = self._plan_of(members)
        request = InferenceRequest(plan, request_id, data)
        if plan.is_binary:
            _keep(self._whole, document, request)
        return request

    def _plan_of(self, members: dict[str, Any]) -> InferencePlan:
        try:
            form = orjson.dumps(members)
        except orjson.JSONEncodeError:  # nested deeper than it writes
            return self._plan(members)
        plan = self._plans.get(form)
        if plan is None:
            plan = self._plan(members)
            _keep(self._plans, form, plan)
        return plan

    def _plan(self, members: dict[str, Any]) -> InferencePlan:
        wants_binary = _flag(_parameters("The request", "", members), "binary_data_output")
        inputs = _inputs(self._signature, members.get("inputs"))
        parameters = joined_by(_all_parameters(members))
        requested = members.get("outputs")
        if requested is None or requested == []:
            return InferencePlan(inputs, self._all_outputs[wants_binary], parameters)
        outputs = _outputs(self._signature, requested, default_binary=wants_binary)
        return InferencePlan(inputs, outputs, parameters)


def joined_by(parameters: Mapping[str, Mapping[str, object]]) -> bytes:
    """Return what requests must have in common to be joined: their parameters.

    `parameters` are those of the request itself, under no name, and those of its inputs. Only those
    that say how tensors travel do not count.
    """
    counted = {
        name: {key: value for key, value in each.items() if key not in _OF_THE_WIRE}
        for name, each in parameters.items()
    }
    counted = {name: each for name, each in counted.items() if each}
    return orjson.dumps(counted, option=orjson.OPT_SORT_KEYS) if counted else b""


def _all_parameters(members: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the parameters of a request that was read and found right."""
    found: dict[str, dict[str, Any]] = {
        each["name"]: each.get("parameters") or {} for each in members["inputs"]
    }
    found[""] = members.get("parameters") or {}
    return found


def _keep(cache: dict[bytes, T], key: bytes, value: T) -> None:
    """Keep what was read, within bounds: few clients need more, and none can fill the memory."""
    if len(key) <= _LONGEST_CACHED_BYTES:
        if len(cache) >= _MOST_CACHED:
            cache.clear()
        cache[key] = value


def _take_data(members: dict[str, Any]) -> list[object]:
    """Return each input's "data", or None, and put null in its place."""
    inputs = members.get("inputs")
    taken: list[object] = []
    if isinstance(inputs, list):
        for each in inputs:
            if isinstance(each, dict) and "data" in each:
                taken.append(each["data"])
                each["data"] = None
            else:
                taken.append(None)
    return taken


def _inputs(signature: Signature, requested: object) -> tuple[PlannedInput, ...]:
    if not isinstance(requested, list) or not requested:
        raise invalid('The request has no list "inputs": send one member for each input.')
    position = 0
    planned: list[PlannedInput] = []
    for each in requested:
        made = _input(signature, _object("An input", "", each), position)
        position = made.stop
        planned.append(made)
    signature.check_complete([each.spec.name for each in planned])
    return tuple(planned)


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
        return PlannedInput(spec, shape, is_json=True, start=position, stop=position)
    if type(size) is not int or size < 0:
        raise invalid(f"Input '{name}' has a binary_data_size that is no size: send an integer.")
    if "data" in members:
        raise invalid(f"Input '{name}' has both \"data\" and a binary_data_size: send one of them.")
    return PlannedInput(spec, shape, is_json=False, start=position, stop=position + size)


def _outputs(
    signature: Signature, requested: object, *, default_binary: bool
) -> tuple[PlannedOutput, ...]:
    if not isinstance(requested, list):
        raise invalid('The request\'s "outputs" is not a list: send a list of names, or none.')
    planned = [
        _output(signature, _object("An output", "", each), default_binary=default_binary)
        for each in requested
    ]
    names = [each.spec.name for each in planned]
    if len(set(names)) != len(names):
        raise invalid("The request names an output more than once: name each once.")
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
            f"Output '{name}' was requested as a classification, which this server does not "
            "have: request the tensor itself."
        )
    binary = default_binary
    if "binary_data" in parameters:
        binary = _flag(parameters, "binary_data")
    return PlannedOutput(signature.output(name), binary)


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
            f"Input '{name}' has a \"shape\" that is not a list of sizes: send whole numbers."
        )
    return tuple(value)
