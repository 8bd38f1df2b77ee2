"""Numbers of the outputs in a reply, and the samples of them that a result keeps."""

import hashlib
import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from inferometer_api.results.result import OutputSamples, SampledOutput
from inferometer_loadgen.requests.inputs import DTYPES, Array, Tensors
from inferometer_loadgen.requests.replies import CONTENTS
from inferometer_loadgen.wire import ReplyBody

MOST_VALUES = 256
"""Numbers that a result keeps of all outputs together, unless there are many outputs."""
_LEAST_VALUES = 8
"""Numbers that it keeps of each output in each reply, if there are so many."""
_GOLDEN = (5**0.5 - 1) / 2
"""Multiples of it, modulo 1, are spread evenly, and in step with no shape."""


def read_values(protocol: Literal["HTTP", "GRPC"], reply: ReplyBody) -> dict[str, Array]:
    """Return the outputs of a readable reply by name; texts are left out.

    Raises ValueError or LookupError if the reply is not readable.
    """
    return _read_grpc(reply.body) if protocol == "GRPC" else _read_http(reply)


def output_samples(
    inputs: Sequence[Tensors], replies: Sequence[Mapping[str, Array]]
) -> OutputSamples | None:
    """Return what a result keeps of the replies to some inputs; None if there are no numbers."""
    names = [name for name, each in replies[0].items() if each.size] if replies else []
    if not names:
        return None
    room = max(_LEAST_VALUES, MOST_VALUES // (len(names) * len(replies)))
    outputs = [_sampled(name, [reply[name] for reply in replies], room) for name in names]
    return OutputSamples(inputs=[_checksum(each) for each in inputs], outputs=outputs)


def _sampled(name: str, arrays: Sequence[Array], room: int) -> SampledOutput:
    flat = [np.ravel(each).astype(np.float32) for each in arrays]
    places = _places(flat[0].size, room)
    kept = [each[places] for each in flat]
    shape = list(arrays[0].shape)
    # One score for each class: [1, classes].
    is_classes = shape[-1:] == [flat[0].size] and flat[0].size > 1
    return SampledOutput(
        name=name,
        shape=shape,
        values_per_sample=len(kept[0]),
        values=b64encode(np.concatenate(kept).astype("<f4").tobytes()).decode(),
        largest=[int(each.argmax()) for each in flat] if is_classes else [],
    )


def _places(size: int, room: int) -> Array:
    """Return the positions of at most `room` of so many numbers: all, or evenly spread ones."""
    if size <= room:
        return np.arange(size)
    return np.unique((np.arange(room) * _GOLDEN % 1 * size).astype(np.int64))


def _checksum(request: Tensors) -> str:
    found = hashlib.sha256()
    for name in sorted(request):
        array = request[name]
        found.update(f"{name} {array.dtype} {array.shape}".encode())
        found.update(repr(array.tolist()).encode() if array.dtype == object else array.tobytes())
    return found.hexdigest()[:16]


def _read_http(reply: ReplyBody) -> dict[str, Array]:
    length = len(reply.body) if reply.json_length is None else reply.json_length
    found: dict[str, Array] = {}
    begin = length
    for output in json.loads(reply.body[:length])["outputs"]:
        size = (output.get("parameters") or {}).get("binary_data_size")
        end = begin + (size or 0)
        if output["datatype"] != "BYTES":
            dtype = DTYPES[output["datatype"]]
            array: Array = (
                np.asarray(output["data"], dtype)
                if size is None
                else np.frombuffer(reply.body[begin:end], dtype)
            )
            found[output["name"]] = array.reshape(output["shape"])
        begin = end
    return found


def _read_grpc(body: bytes) -> dict[str, Array]:
    from tritonclient.grpc.service_pb2 import (  # type: ignore[import-untyped]  # noqa: PLC0415 - HTTP needs it not, and it takes long; it has no types
        ModelInferResponse,
    )

    response: Any = ModelInferResponse.FromString(body)
    found: dict[str, Array] = {}
    for place, output in enumerate(response.outputs):
        if output.datatype == "BYTES":
            continue
        dtype = DTYPES[output.datatype]
        array: Array = (
            np.frombuffer(response.raw_output_contents[place], dtype)
            if response.raw_output_contents
            else np.asarray(getattr(output.contents, CONTENTS[output.datatype]), dtype)
        )
        found[output.name] = array.reshape(tuple(output.shape))
    return found
