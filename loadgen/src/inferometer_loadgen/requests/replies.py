"""Checks of replies: names, types and shapes of their outputs."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from random import Random
from typing import Any, Literal

from google.protobuf.message import DecodeError

from inferometer_api.results.result import Tensor
from inferometer_loadgen.requests.inputs import DTYPES, has_batch_axis
from inferometer_loadgen.wire import ReplyBody
from inferometer_loadgen.wire.contract import printable_line

EVERY = 64
"""One reply in this many is checked, and each of the first `FIRST`."""

FIRST = 8


def gaps(every: int = EVERY) -> Iterator[int]:
    """Yield the distances between checked replies: `every` on average, from half to three halves.

    A constant distance would check the same few requests of a pool again and again. The sequence is
    always the same.
    """
    chance = Random(EVERY)  # noqa: S311 - a sample keeps no secret
    least = max(1, every // 2)
    while True:
        yield chance.randint(least, 2 * every - least)


@dataclass(frozen=True, slots=True)
class Output:
    """An output as a reply has it."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    size: int | None
    """How many bytes carry it; None if elements do."""
    elements: int | None
    """How many elements carry it, in JSON or in a typed field; None if bytes do."""


class UnreadableReplyError(ValueError):
    """A reply violates the protocol; the message is a sentence."""


_EXCERPT = 60
"""So many characters of a reply that cannot be read are quoted."""
_LENGTH_BYTES = 4
"""Each element of type BYTES is preceded by its length."""

CONTENTS = {
    "BOOL": "bool_contents",
    **dict.fromkeys(("INT8", "INT16", "INT32"), "int_contents"),
    "INT64": "int64_contents",
    **dict.fromkeys(("UINT8", "UINT16", "UINT32"), "uint_contents"),
    "UINT64": "uint64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
    "BYTES": "bytes_contents",
}
"""The field of gRPC's InferTensorContents for each datatype that has one."""


def read_outputs(protocol: Literal["HTTP", "GRPC"], reply: ReplyBody) -> list[Output]:
    """Return the outputs of a reply as it states them; raises UnreadableReplyError."""
    try:
        return _read_grpc(reply.body) if protocol == "GRPC" else _read_http(reply)
    except UnreadableReplyError:
        raise
    except DecodeError as error:
        raise UnreadableReplyError("The reply is not a ModelInferResponse.") from error
    except ValueError as error:
        raise UnreadableReplyError(f"The reply is not JSON: {_cause(error)}.") from error
    except (LookupError, TypeError, AttributeError) as error:
        raise UnreadableReplyError(
            "The reply's JSON violates the protocol: it must be an object with outputs, each "
            f"with name, datatype and shape, but it is {_excerpt(_json_text(reply))}."
        ) from error
    except RecursionError:
        raise UnreadableReplyError("The reply's JSON is nested too deeply to be read.") from None


def _cause(error: ValueError) -> str:
    """Return where the text stops to be JSON, without all of it, which may be long."""
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.start} is not UTF-8"
    if not isinstance(error, json.JSONDecodeError):
        return str(error)
    if not error.doc:
        return "it is empty"
    if error.pos >= len(error.doc.rstrip()):
        return f"it ends too early, after {_excerpt(error.doc)}"
    return f"character {error.pos} is not expected in {_excerpt(error.doc)}"


def _excerpt(text: str) -> str:
    return repr(printable_line(text, _EXCERPT))


def _json_text(reply: ReplyBody) -> str:
    return reply.body[: reply.json_length].decode("utf-8", "replace")


def _read_http(reply: ReplyBody) -> list[Output]:
    length = len(reply.body) if reply.json_length is None else reply.json_length
    outputs = [_read_json(each) for each in json.loads(reply.body[:length])["outputs"]]
    stated = sum(output.size or 0 for output in outputs)
    if stated != len(reply.body) - length:
        raise UnreadableReplyError(
            f"The reply has {len(reply.body) - length} bytes of tensors, but its outputs state "
            f"{stated}."
        )
    return outputs


def _read_json(output: Any) -> Output:
    size = (output.get("parameters") or {}).get("binary_data_size")
    data = output.get("data")
    name, datatype = output["name"], output["datatype"]
    if not (isinstance(name, str) and isinstance(datatype, str)):
        raise UnreadableReplyError(
            f"The reply has an output whose name is {name!r} and whose type is {datatype!r}: both "
            f"must be text."
        )
    return Output(
        name,
        datatype,
        tuple(_count(axis, f"in the shape of the output {name!r}") for axis in output["shape"]),
        None if size is None else _count(size, f"as the size of the output {name!r}"),
        None if data is None else _leaves(data),
    )


def _count(value: Any, where: str) -> int:
    if type(value) is not int or value < 0:  # JSON's true is an int, too
        raise UnreadableReplyError(f"The reply has {value!r} {where}: it must be a whole number.")
    return value


def _leaves(data: Any) -> int:
    return sum(map(_leaves, data)) if isinstance(data, list) else 1


def _read_grpc(body: bytes) -> list[Output]:
    from tritonclient.grpc.service_pb2 import (  # type: ignore[import-untyped]  # noqa: PLC0415 - HTTP needs it not, and it takes long; it has no types
        ModelInferResponse,
    )

    response: Any = ModelInferResponse.FromString(body)
    raw = list(response.raw_output_contents)
    if raw and len(raw) != len(response.outputs):
        raise UnreadableReplyError(
            f"The reply has {len(response.outputs)} outputs and {len(raw)} raw contents."
        )
    return [
        Output(
            output.name,
            output.datatype,
            tuple(
                _count(axis, f"in the shape of the output {output.name!r}") for axis in output.shape
            ),
            len(raw[place]) if raw else None,
            None if raw else _typed(output),
        )
        for place, output in enumerate(response.outputs)
    ]


def _typed(output: Any) -> int:
    contents = CONTENTS.get(output.datatype)
    return 0 if contents is None else len(getattr(output.contents, contents))


@dataclass(frozen=True, slots=True)
class Expectation:
    """The names, types and shapes that the outputs of each reply must have."""

    protocol: Literal["HTTP", "GRPC"]
    promised: Sequence[Tensor]
    batch_size: int
    firsts: Mapping[str, int] = field(default_factory=dict)
    """The first axes of outputs whose first axis is not the batch size; -1 allows any."""
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """The whole shapes of outputs that deviate from what was promised in every first reply."""

    def fault(self, reply: ReplyBody) -> str | None:
        """Return what is wrong with a reply as a sentence; None if nothing is."""
        try:
            fault = self._fault(read_outputs(self.protocol, reply))
        except UnreadableReplyError as error:
            fault = str(error)
        return None if fault is None else printable_line(fault)

    def _fault(self, outputs: Sequence[Output]) -> str | None:
        if not self.promised:
            return next(filter(None, map(_length_fault, outputs)), None)
        found = {output.name: output for output in outputs}
        names = [tensor.name for tensor in self.promised]
        if sorted(found) != sorted(names) or len(found) != len(outputs):
            return (
                f"The reply has the outputs {sorted(output.name for output in outputs)}, the model "
                f"promises {sorted(names)}."
            )
        for tensor in self.promised:
            fault = self._tensor_fault(tensor, found[tensor.name])
            if fault:
                return fault
        return None

    def _tensor_fault(self, tensor: Tensor, output: Output) -> str | None:
        if output.datatype != tensor.datatype:
            return (
                f"The output {tensor.name!r} has the type {output.datatype}, the model promises "
                f"{tensor.datatype}."
            )
        wanted = self.wanted_shape(tensor)
        if not _fits(wanted, output.shape):
            return (
                f"The output {tensor.name!r} has the shape {list(output.shape)}, {wanted} was due "
                f"for a batch of {self.batch_size}."
            )
        return _length_fault(output)

    def wanted_shape(self, tensor: Tensor) -> list[int]:
        """Return the shape that an output must have; -1 is an open axis."""
        if tensor.name in self.shapes:
            return list(self.shapes[tensor.name])
        wanted = list(tensor.shape)
        if has_batch_axis(tensor):
            wanted[0] = self.firsts.get(tensor.name, self.batch_size)
        return wanted


def _fits(wanted: Sequence[int], shape: Sequence[int]) -> bool:
    return len(wanted) == len(shape) and all(
        axis in {-1, size} for axis, size in zip(wanted, shape, strict=True)
    )


def shared_shapes(
    expected: Expectation, replies: Sequence[ReplyBody]
) -> dict[str, tuple[int, ...]]:
    """Return the shapes of outputs that deviate from what is expected, alike in every reply.

    A shape that cannot hold a result for each sample of the batch is left out: it is an error.
    """
    found: dict[str, list[tuple[int, ...]]] = {}
    for reply in replies:
        try:
            outputs = read_outputs(expected.protocol, reply)
        except UnreadableReplyError:
            return {}
        for output in outputs:
            found.setdefault(output.name, []).append(output.shape)
    shared = {
        tensor.name: shapes[0]
        for tensor in expected.promised
        if len(shapes := found.get(tensor.name, [])) == len(replies)
        and len(set(shapes)) == 1
        and not _fits(expected.wanted_shape(tensor), shapes[0])
    }
    return {
        name: shape
        for name, shape in shared.items()
        if (elements := prod(shape)) and elements % expected.batch_size == 0
    }


def _length_fault(output: Output) -> str | None:
    if output.datatype not in DTYPES:
        return f"The output {output.name!r} has the type {output.datatype}, which cannot be read."
    elements, size = prod(output.shape), output.size
    subject, due = f"The output {output.name!r} has", f"its shape {list(output.shape)} needs"
    if size is None or output.elements is not None:
        found = output.elements or 0
        if found != elements:
            return f"{subject} {found} elements, {due} {elements}."
    if size is None:
        return None
    if output.datatype == "BYTES":
        least = elements * _LENGTH_BYTES
        fits, needed = size >= least and (elements > 0 or size == 0), f"{least} at least"
    else:
        bytes_due = elements * DTYPES[output.datatype].itemsize
        fits, needed = size == bytes_due, f"{bytes_due}"
    return None if fits else f"{subject} {size} bytes, {due} {needed}."


def first_axes(
    protocol: Literal["HTTP", "GRPC"],
    promised: Sequence[Tensor],
    replies: Sequence[ReplyBody],
    batch_size: int,
) -> dict[str, int]:
    """Return the sizes of the outputs' open first axes, from a few replies of one batch size.

    An axis that is the same in all replies is the batch, or a constant of the model such as its 100
    best boxes. It is never smaller than the batch, because each sample needs a result. An axis that
    is 0 or differs depends on the data, and is -1 here.
    """
    seen: dict[str, set[int]] = {}
    for reply in replies:
        try:
            outputs = read_outputs(protocol, reply)
        except UnreadableReplyError:
            continue
        for output in outputs:
            if output.shape:
                seen.setdefault(output.name, set()).add(output.shape[0])
    return {
        tensor.name: -1 if 0 in found or len(found) > 1 else max(batch_size, *found)
        for tensor in promised
        if has_batch_axis(tensor) and (found := seen.get(tensor.name))
    }
