"""Tensors in the protocol's gRPC messages."""

from typing import Any

from tritonclient.grpc import (  # type: ignore[import-untyped]  # ships no types
    service_pb2 as messages,
)

from inferometer_serving.errors import invalid
from inferometer_serving.infer.request import joined_by
from inferometer_serving.infer.signature import Signature, TensorSpec
from inferometer_serving.infer.tensors import Array, as_text, from_raw, from_values, to_raw
from inferometer_serving.metadata import MODEL_VERSION

Message = Any
"""One of tritonclient's messages, for which it ships no types."""


def inputs_of(signature: Signature, request: Message) -> dict[str, Array]:
    """Return a request's inputs by name, from raw or typed contents.

    Raises RequestRefusedError if a tensor does not match the model or its own contents.
    """
    raw = request.raw_input_contents
    if raw and len(raw) != len(request.inputs):
        raise invalid(
            f"The request has {len(request.inputs)} inputs and {len(raw)} raw_input_contents: "
            "send raw contents for every input, or for none."
        )
    tensors: dict[str, Array] = {}
    for index, tensor in enumerate(request.inputs):
        _refuse_shared_memory(f"Input '{tensor.name}'", tensor)
        shape = tuple(tensor.shape)
        if any(each < 0 for each in shape):
            raise invalid(f"Input '{tensor.name}' has a negative size in its shape.")
        spec = signature.input(tensor.name, tensor.datatype, shape)
        if raw:
            if tensor.HasField("contents"):
                raise invalid(
                    f"Input '{tensor.name}' has both contents and raw_input_contents: "
                    "send one of them."
                )
            tensors[spec.name] = from_raw(spec.name, spec.datatype, shape, raw[index])
        else:
            tensors[spec.name] = _typed(spec, shape, tensor)
    signature.check_complete([each.name for each in request.inputs])
    return tensors


def outputs_of(signature: Signature, request: Message) -> list[TensorSpec]:
    """Return the outputs that a request wants. Raises RequestRefusedError."""
    if not request.outputs:
        return list(signature.outputs)
    specs: list[TensorSpec] = []
    for each in request.outputs:
        _refuse_shared_memory(f"Output '{each.name}'", each)
        if "classification" in each.parameters:
            raise invalid(
                f"Output '{each.name}' was requested as a classification, which this server does "
                "not have: request the tensor itself."
            )
        specs.append(signature.output(each.name))
    if len({each.name for each in specs}) != len(specs):
        raise invalid("The request names an output more than once: name each once.")
    return specs


def reply_of(
    model_name: str, request_id: str, specs: list[TensorSpec], results: list[Array]
) -> Message:
    """Return the message that carries the outputs, as raw contents."""
    reply = messages.ModelInferResponse(
        model_name=model_name, model_version=MODEL_VERSION, id=request_id
    )
    for spec, array in zip(specs, results, strict=True):
        reply.outputs.add(name=spec.name, datatype=spec.datatype.name, shape=array.shape)
        reply.raw_output_contents.append(bytes(to_raw(spec.datatype, array)))
    return reply


def parameters_of(request: Message) -> bytes:
    """Return the properties, other than shapes, that joined requests must share."""
    if not request.parameters and not any(each.parameters for each in request.inputs):
        return b""
    given = {each.name: _values(each.parameters) for each in request.inputs}
    given[""] = _values(request.parameters)
    return joined_by(given)


def _values(parameters: Any) -> dict[str, object]:
    return {
        key: getattr(each, each.WhichOneof("parameter_choice") or "", None)
        for key, each in parameters.items()
    }


def _typed(spec: TensorSpec, shape: tuple[int, ...], tensor: Message) -> Array:
    field = spec.datatype.contents_field
    if field is None:
        raise invalid(
            f"Input '{spec.name}' of {spec.datatype.name} has no typed contents in this protocol: "
            "send raw_input_contents."
        )
    others = [each.name for each, _ in tensor.contents.ListFields() if each.name != field]
    if others:
        raise invalid(
            f"Input '{spec.name}' of {spec.datatype.name} was sent in {others[0]}: "
            f"send it in {field}."
        )
    values = list(getattr(tensor.contents, field))
    if spec.datatype.item_bytes is None and spec.datatype.is_text:
        values = [as_text(spec.name, each) for each in values]
    return from_values(spec.name, spec.datatype, shape, values)


def _refuse_shared_memory(
    what: str,
    tensor: Message,
) -> None:
    if "shared_memory_region" in tensor.parameters:
        raise invalid(
            f"{what} is to lie in shared memory, which this server does not have: "
            "send and receive tensors in the messages."
        )
