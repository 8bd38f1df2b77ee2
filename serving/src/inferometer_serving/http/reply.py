"""HTTP/1.1 replies."""

from dataclasses import dataclass
from http import HTTPStatus

import orjson

from inferometer_serving.errors import RequestRefusedError
from inferometer_serving.http.errors import HttpError, http_status
from inferometer_serving.infer.tensors import Raw

JSON = b"application/json"
BINARY = b"application/octet-stream"

_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus
}


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer, whatever it is about."""

    status: int
    content_type: bytes
    body: list[Raw]


def json_reply(document: object, status: int = HTTPStatus.OK) -> Reply:
    """Return an answer of JSON."""
    return Reply(status, JSON, [orjson.dumps(document)])


def error_reply(status: int, sentence: str) -> Reply:
    """Return the protocol's answer to a request that failed."""
    return json_reply({"error": sentence}, status)


def refusal_reply(error: RequestRefusedError | HttpError) -> Reply:
    """Return the protocol's answer to a request that is refused."""
    if isinstance(error, HttpError):
        return error_reply(error.status, str(error))
    return error_reply(http_status(error.refusal), str(error))


def head_of(reply: Reply, *, keep_alive: bool) -> bytes:
    """Return the head of an answer, up to its empty line."""
    return head_for(
        reply.status, reply.content_type, sum(map(len, reply.body)), keep_alive=keep_alive
    )


def head_for(
    status: int,
    content_type: bytes,
    body_bytes: int,
    *,
    keep_alive: bool,
    json_bytes: int | None = None,
    encoding: str | None = None,
) -> bytes:
    """Return the head of an answer; `json_bytes` of its body are JSON where tensors follow it."""
    head = b"%bContent-Type: %b\r\nContent-Length: %d\r\n" % (
        _LINES[status],
        content_type,
        body_bytes,
    )
    if json_bytes is not None:
        head += b"Inference-Header-Content-Length: %d\r\n" % json_bytes
    if encoding is not None:
        head += b"Content-Encoding: %b\r\n" % encoding.encode()
    return head + (b"\r\n" if keep_alive else b"Connection: close\r\n\r\n")
