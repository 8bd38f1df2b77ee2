"""Arrays of a reply, without its batch axis."""

from typing import Any, Literal

import numpy as np
from google.protobuf.message import DecodeError
from tritonclient.utils import (  # type: ignore[import-untyped]  # has no types
    InferenceServerException,
)

from inferometer_loadgen.requests.inputs import Tensors
from inferometer_loadgen.requests.replies import UnreadableReplyError
from inferometer_loadgen.wire import ReplyBody


def reply_arrays(protocol: Literal["HTTP", "GRPC"], reply: ReplyBody, *, batched: bool) -> Tensors:
    """Return the outputs of a reply to one sample; raises UnreadableReplyError.

    If the request was a batch of one, outputs whose first axis is 1 lose it.
    """
    try:
        arrays = _grpc(reply) if protocol == "GRPC" else _http(reply)
    except UnreadableReplyError:
        raise
    except (InferenceServerException, DecodeError, ValueError, LookupError, TypeError) as error:
        raise UnreadableReplyError(f"The reply cannot be read: {error}.") from error
    return {
        name: array[0] if batched and array.ndim and array.shape[0] == 1 else array
        for name, array in arrays.items()
    }


def _http(reply: ReplyBody) -> Tensors:
    from tritonclient.http import (  # type: ignore[import-untyped]  # noqa: PLC0415 - gRPC needs it not, and it takes long; it has no types
        InferResult,
    )

    result = InferResult.from_response_body(reply.body, header_length=reply.json_length)
    return _by_name(result, [each["name"] for each in result.get_response()["outputs"]])


def _grpc(reply: ReplyBody) -> Tensors:
    from tritonclient.grpc import (  # type: ignore[import-untyped]  # noqa: PLC0415 - the same
        InferResult,
    )
    from tritonclient.grpc.service_pb2 import (  # type: ignore[import-untyped]  # noqa: PLC0415 - the same
        ModelInferResponse,
    )

    response: Any = ModelInferResponse.FromString(reply.body)
    return _by_name(InferResult(response), [each.name for each in response.outputs])


def _by_name(result: Any, names: list[str]) -> Tensors:
    found: Tensors = {}
    for name in names:
        array = result.as_numpy(name)
        if array is None:
            raise UnreadableReplyError(f"The output {name!r} of the reply has no data.")
        found[name] = np.asarray(array)
    return found
