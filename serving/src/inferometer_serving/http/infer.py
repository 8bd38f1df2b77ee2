"""Reads an inference request in HTTP and writes its reply."""

from collections.abc import Callable, Sequence
from http import HTTPStatus

import structlog

from inferometer_serving.errors import RequestRefusedError, invalid
from inferometer_serving.http.body import compress, decompress
from inferometer_serving.http.head import Head
from inferometer_serving.http.reply import (
    BINARY,
    JSON,
    error_reply,
    head_for,
    head_of,
    refusal_reply,
)
from inferometer_serving.infer.pending_request import Read
from inferometer_serving.infer.plan import InferenceRequest, raw_request
from inferometer_serving.infer.tensors import Array, Raw
from inferometer_serving.metadata import MODEL_VERSION
from inferometer_serving.request_router import RequestRouter

Answer = tuple[int, list[Raw]]
"""A status, and the bytes of a whole answer."""

_OK = HTTPStatus.OK.value
_COMPRESS_FROM_BYTES = 1024
"""Smaller answers would hardly shrink; Accept-Encoding is a permission, not a demand."""
_JOIN_UP_TO_BYTES = 65536
"""Parts that are smaller together go out as one: a copy is cheaper than a longer system call."""


def read_request(
    model: RequestRouter,
    head: Head,
    body: Raw,
    max_body_bytes: int,
    keeps_alive: Callable[[], bool],
) -> Read[Answer]:
    """Return the request in a body. Raises RequestRefusedError.

    `keeps_alive` says, once the answer is written, whether its connection may stay.
    """
    if head.body_encoding is not None:
        body = decompress(body, head.body_encoding, max_body_bytes)
    document, raw = split(body, head.json_bytes)
    is_raw = head.json_bytes == 0
    request = raw_request(model.signature, len(raw)) if is_raw else model.reader.read(document)
    plan = request.plan

    def write(results: list[Array]) -> Answer:
        stays_open = head.keep_alive and keeps_alive()
        return _OK, _answer(
            model.name, request, results, head.reply_encoding, keep_alive=stays_open
        )

    tensors = plan.tensors(request.data, raw)
    return tensors, plan.output_names, plan.parameters, write


def error_answer(error: Exception, *, keep_alive: bool) -> Answer:
    """Return the answer to a request that failed."""
    if isinstance(error, RequestRefusedError):
        reply = refusal_reply(error)
    else:
        structlog.get_logger().error("request failed", error=repr(error))
        reply = error_reply(
            HTTPStatus.INTERNAL_SERVER_ERROR, f"The server failed on this request: {error!r}."
        )
    return reply.status, [head_of(reply, keep_alive=keep_alive), *reply.body]


def _answer(
    model_name: str,
    request: InferenceRequest,
    results: Sequence[Array],
    encoding: str | None,
    *,
    keep_alive: bool,
) -> list[Raw]:
    form = request.plan.answer_form(model_name, MODEL_VERSION, results)
    written, binary = form.fill(request.request_id, results)
    parts: list[Raw] = [written, *binary]
    if encoding is not None:
        parts, encoding = _compressed(parts, encoding)
    body_bytes = sum(map(len, parts))
    head_bytes = head_for(
        _OK,
        BINARY if binary else JSON,
        body_bytes,
        keep_alive=keep_alive,
        json_bytes=len(written) if binary else None,
        encoding=encoding,
    )
    if body_bytes <= _JOIN_UP_TO_BYTES:
        return [b"".join((head_bytes, *parts))]
    return [head_bytes, *parts]


def _compressed(parts: list[Raw], encoding: str) -> tuple[list[Raw], str | None]:
    """Return a body in the coding that it then has: none if it would hardly shrink."""
    if sum(map(len, parts)) < _COMPRESS_FROM_BYTES:
        return parts, None
    return [compress(b"".join(parts), encoding)], encoding


def split(body: Raw, json_bytes: int | None) -> tuple[bytes, Raw]:
    """Return a body's JSON and the binary data behind it.

    Binary data comes out aligned: at the start of an object of its own, or, where the body is a
    view, not copied at all. Raises RequestRefusedError if there is less than `json_bytes`.
    """
    if json_bytes is None:
        return bytes(body), b""
    if len(body) < json_bytes:
        raise invalid(
            f"Inference-Header-Content-Length is {json_bytes}, but the body has only "
            f"{len(body)} bytes: send the number of bytes of its JSON."
        )
    return bytes(body[:json_bytes]), body[json_bytes:]
