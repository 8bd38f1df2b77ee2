"""Readers of the metadata and configuration of servers and models.

Absent and null mean the same: servers written with pydantic send null for absent fields.
"""

import re
from dataclasses import dataclass
from typing import Any

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message

from inferometer_api.results.result import Tensor
from inferometer_api.spec.problems import describe_value
from inferometer_loadgen.requests.inputs import DTYPES
from inferometer_loadgen.wire.contract import printable_line

FACT_PREFIX = "inferometer."
_ENGINE = re.compile(
    r"(onnxruntime|openvino|tensorrt|tensorflow|pytorch)(?:_[a-z0-9]+)?"
    r"(?: ([0-9][0-9A-Za-z.+-]*))?",
    re.IGNORECASE,
)
"""A model's platform as the protocol lists them, "onnxruntime_onnx", or with a version."""


class UnreadableMetadataError(ValueError):
    """A document violates the protocol; the message is a clause with what was read."""


@dataclass(frozen=True, slots=True)
class ServerDocument:
    """A server's metadata."""

    name: str
    version: str
    extensions: list[str]


@dataclass(frozen=True, slots=True)
class ModelMetadata:
    """A model's metadata."""

    versions: list[str]
    inputs: list[Tensor]
    outputs: list[Tensor]
    platform: str = ""


def server_document(answer: Any) -> ServerDocument:
    """Read a server's metadata; what is absent is empty. Raises UnreadableMetadataError."""
    document = _mapping(_plain(answer), "its metadata")
    return ServerDocument(
        _text(document, "name"), _text(document, "version"), _texts(document, "extensions")
    )


def model_document(answer: Any) -> ModelMetadata:
    """Read a model's metadata; what is absent is empty. Raises UnreadableMetadataError."""
    document = _mapping(_plain(answer), "its metadata")
    return ModelMetadata(
        _texts(document, "versions"),
        _tensors(document, "inputs"),
        _tensors(document, "outputs"),
        _text(document, "platform"),
    )


def engine_of(platform: str) -> dict[str, str]:
    """Return the settings for the engine that a model's platform names; empty if it names none."""
    found = _ENGINE.fullmatch(platform)
    if found is None:
        return {}
    version = {} if found[2] is None else {"runtime_version": found[2]}
    return {"runtime": found[1].lower(), **version}


def settings_of(answer: Any) -> dict[str, str]:
    """Return the parameters in a model's configuration, and `max_batch_size` if it is not 0.

    What cannot be read is left out.
    """
    config = _config(answer)
    most = config.get("max_batch_size")
    fields = {"max_batch_size": str(most)} if isinstance(most, int) and most > 0 else {}
    parameters = {
        name.removeprefix(FACT_PREFIX): value
        for name, each in _mapping_or_empty(config.get("parameters")).items()
        if isinstance(each, dict) and isinstance(value := each.get("string_value") or "", str)
    }
    parameters.pop("max_batch_size", None)  # only the field limits requests
    return parameters | fields


def optional_inputs_of(answer: Any) -> tuple[str, ...]:
    """Return the names of the inputs that a model's configuration calls optional."""
    inputs = _config(answer).get("input")
    return tuple(
        str(each["name"])
        for each in (inputs if isinstance(inputs, list) else [])
        if isinstance(each, dict) and each.get("optional") is True and each.get("name")
    )


def _config(answer: Any) -> dict[str, Any]:
    config = _mapping_or_empty(_plain(answer))
    # gRPC's configuration is one level deeper than HTTP's.
    nested = config.get("config")
    return config if nested is None else _mapping_or_empty(nested)


def _plain(answer: Any) -> Any:
    """Return an answer as plain JSON values: gRPC's answers are messages."""
    if isinstance(answer, Message):
        return MessageToDict(answer, preserving_proto_field_name=True)
    return answer


def _mapping(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _unfit(what, value, "a mapping")
    return value


def _mapping_or_empty(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(document: dict[str, Any], name: str) -> str:
    value = document.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _unfit(f"its {name}", value, "a text")
    return value


def _list(document: dict[str, Any], name: str) -> list[Any]:
    value = document.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise _unfit(f"its {name}", value, "a list")
    return value


def _texts(document: dict[str, Any], name: str) -> list[str]:
    values = _list(document, name)
    for value in values:
        if not isinstance(value, str):
            raise _unfit(f"one of its {name}", value, "a text")
    return values


def _tensors(document: dict[str, Any], name: str) -> list[Tensor]:
    what = f"one of its {name}"
    return [_tensor(_mapping(each, what), what) for each in _list(document, name)]


def _tensor(document: dict[str, Any], what: str) -> Tensor:
    name = document.get("name")
    if not name or not isinstance(name, str):
        raise _unfit(f"the name of {what}", name, "a text")
    what = f"its tensor {printable_line(repr(name))}"
    datatype = document.get("datatype")
    if datatype not in tuple(DTYPES):
        raise UnreadableMetadataError(
            f"{what} has the datatype {_shown(datatype)}, which cannot be sent "
            f"({', '.join(DTYPES)})"
        )
    shape = document.get("shape")
    if shape is None:
        shape = []
    if not isinstance(shape, list):
        raise _unfit(f"the shape of {what}", shape, "a list")
    return Tensor(name=name, datatype=datatype, shape=[_axis(each, what) for each in shape])


def _axis(value: Any, what: str) -> int:
    # protobuf's JSON form writes 64-bit integers as strings.
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,19}", value):
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise _unfit(f"an axis of {what}", value, "a whole number")
    return value


def _unfit(what: str, value: Any, wanted: str) -> UnreadableMetadataError:
    return UnreadableMetadataError(f"{what} is {_shown(value)}, and must be {wanted}")


def _shown(value: Any) -> str:
    return printable_line(describe_value(value))


def trace_settings_of(document: Any) -> dict[str, str]:
    """Return the settings in a document of Triton's trace extension; lists are joined by commas."""
    found = document.get("settings", document) if isinstance(document, dict) else None
    if not isinstance(found, dict):
        return {}
    return {str(name): ",".join(_setting_texts(value)) for name, value in found.items()}


def _setting_texts(value: Any) -> list[str]:
    values = value.get("value") if isinstance(value, dict) else value
    return list(map(str, values)) if isinstance(values, list) else [str(values)]
