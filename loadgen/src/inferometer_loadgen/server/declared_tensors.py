"""Inputs and outputs that the spec declares for an External server's model. Pure."""

from collections.abc import Sequence
from dataclasses import replace

from inferometer_api.results.result import Tensor
from inferometer_api.spec.model import DeclaredTensor, ModelSource
from inferometer_loadgen.requests.inputs import InputRefusedError
from inferometer_loadgen.server.control_plane import ServerDescription


def with_declared_tensors(
    found: ServerDescription, model: ModelSource, address: str
) -> ServerDescription:
    """Return a description with the spec's inputs and outputs instead of the server's own.

    Raises InputRefusedError if the two contradict each other, or if neither names an input.
    """
    inputs = _chosen("inputs", model.inputs, found.inputs)
    if not inputs and model.name is not None:
        raise InputRefusedError(
            f"The metadata of the model {model.name!r} at {address} name no inputs, so no request "
            "can be built. Declare what to send, for example as spec.model.inputs: "
            "[{name: x, datatype: FP32, shape: [-1, 4]}]."
        )
    return replace(found, inputs=inputs, outputs=_chosen("outputs", model.outputs, found.outputs))


def _chosen(
    field: str, declared: Sequence[DeclaredTensor] | None, described: list[Tensor]
) -> list[Tensor]:
    if declared is None:
        return described
    known = {tensor.name: tensor for tensor in described}
    names = [tensor.name for tensor in declared]
    for tensor in declared:
        _check(field, tensor, known)
        if names.count(tensor.name) > 1:
            raise InputRefusedError(f"spec.model.{field} names {tensor.name!r} twice.")
    return [Tensor(name=each.name, datatype=each.datatype, shape=each.shape) for each in declared]


def _check(field: str, tensor: DeclaredTensor, known: dict[str, Tensor]) -> None:
    """Raise InputRefusedError if the server's metadata contradict a declared tensor."""
    if not known:
        return
    described = known.get(tensor.name)
    if described is None:
        raise InputRefusedError(
            f"spec.model.{field} names {tensor.name!r}, but the {field} in the server's metadata "
            f"are {', '.join(map(repr, known))}: use one of these names."
        )
    if described.datatype != tensor.datatype:
        raise InputRefusedError(
            f"spec.model.{field} gives {tensor.name!r} the datatype {tensor.datatype}, but the "
            f"server's metadata say {described.datatype}."
        )
