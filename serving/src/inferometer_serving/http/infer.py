"""How is one inference request over HTTP answered, from its body's bytes to the reply's?"""

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
from inferometer_serving.infer.plan import raw_request
from inferometer_serving.infer.request import RequestReader
from inferometer_serving.infer.tensors import Raw
from inferometer_serving.model.engine import Engine
from inferometer_serving.service import MODEL_VERSION

_OK = HTTPStatus.OK.value
_COMPRESS_FROM_BYTES = 1024
"""Smaller answers would hardly shrink; Accept-Encoding is a permission, not a demand."""
_JOIN_UP_TO_BYTES = 65536
"""Parts that are smaller together go out as one: a copy is cheaper than a longer system call."""


def answer_infer(
    engine: Engine, reader: RequestReader, head: Head, body: Raw, max_body_bytes: int
) -> tuple[int, list[Raw]]:
    """Return the status and the bytes that answer a request; errors become answers too."""
    try:
        return _OK, _answer(engine, reader, head, body, max_body_bytes)
    except RequestRefusedError as error:
        reply = refusal_reply(error)
    except Exception as error:  # noqa: BLE001 - one request's fault must not end the server
        structlog.get_logger().error("request failed", error=repr(error))
        reply = error_reply(
            HTTPStatus.INTERNAL_SERVER_ERROR, f"The server failed on this request: {error!r}."
        )
    return reply.status, [head_of(reply, keep_alive=head.keep_alive), *reply.body]


def _answer(
    engine: Engine, reader: RequestReader, head: Head, body: Raw, max_body_bytes: int
) -> list[Raw]:
    if head.body_encoding is not None:
        body = decompress(body, head.body_encoding, max_body_bytes)
    document, raw = split(body, head.json_bytes)
    is_raw = head.json_bytes == 0
    request = raw_request(engine.signature, len(raw)) if is_raw else reader.read(document)
    plan = request.plan
    results = engine.infer(plan.output_names, plan.tensors(request.data, raw))
    form = plan.answer_form(engine.model_name, MODEL_VERSION, results)
    written, binary = form.fill(request.request_id, results)
    parts: list[Raw] = [written, *binary]
    encoding = head.reply_encoding
    if encoding is not None:
        parts, encoding = _compressed(parts, encoding)
    body_bytes = sum(map(len, parts))
    head_bytes = head_for(
        _OK,
        BINARY if binary else JSON,
        body_bytes,
        keep_alive=head.keep_alive,
        json_bytes=len(written) if binary else None,
        encoding=encoding,
    )
    if body_bytes <= _JOIN_UP_TO_BYTES:
        return [b"".join((head_bytes, *parts))]
    return [head_bytes, *parts]


def _compressed(parts: list[Raw], encoding: str) -> tuple[list[Raw], str | None]:
    """Return a body in the coding that it then has: none where it would hardly shrink."""
    if sum(map(len, parts)) < _COMPRESS_FROM_BYTES:
        return parts, None
    return [compress(b"".join(parts), encoding)], encoding


def split(body: Raw, json_bytes: int | None) -> tuple[bytes, Raw]:
    """Return a body's JSON and the binary data behind it.

    Binary data comes out aligned: at the start of an object of its own, or, where the body is a
    view, not copied at all. Raises RequestRefusedError where there is less than `json_bytes`.
    """
    if json_bytes is None:
        return bytes(body), b""
    if len(body) < json_bytes:
        raise invalid(
            f"Inference-Header-Content-Length is {json_bytes}, but the body has only "
            f"{len(body)} bytes: send the number of bytes of its JSON."
        )
    return bytes(body[:json_bytes]), body[json_bytes:]
