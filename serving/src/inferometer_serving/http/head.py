"""The head of an HTTP/1.1 request (RFC 9112), parsed by llhttp."""

import re
from functools import lru_cache
from http import HTTPStatus
from typing import NamedTuple

import httptools

from inferometer_serving.http.body import too_large
from inferometer_serving.http.errors import HttpError
from inferometer_serving.http.routes import Endpoint, Route, route
from inferometer_serving.tracing import RequestTrace, sampled_context

MAX_HEAD_BYTES = 16384
HEAD_END = b"\r\n\r\n"

_VERSIONS = ("1.0", "1.1")
_ENCODINGS = ("gzip", "deflate")
_FIELDS = {
    name.encode(): name
    for name in (
        "accept-encoding",
        "content-encoding",
        "content-length",
        "expect",
        "host",
        "inference-header-content-length",
        "traceparent",
        "transfer-encoding",
    )
}
"""The headers that this server uses."""
_UNIQUE = ("host", "inference-header-content-length")
"""Headers that may come once; llhttp itself rejects a second Content-Length."""


class Head(NamedTuple):
    """The parts of a request's head that this server uses."""

    route: Route | HttpError
    """The endpoint, or the error to answer with. The connection stays open after such an error."""
    is_for_head_only: bool
    """Whether the reply must have no body (HEAD)."""
    keep_alive: bool
    content_length: int
    """0 if there is no body, and if the body is chunked."""
    is_chunked: bool
    json_bytes: int | None
    """The length of the JSON in front of binary tensors; None if the whole body is JSON."""
    expects_continue: bool
    body_encoding: str | None
    """gzip, deflate, or None."""
    reply_encoding: str | None
    """The encoding that the client prefers; None if it accepts neither gzip nor deflate."""
    traceparent: str | None = None
    """Of W3C Trace Context, unchecked."""

    def begin_trace(self, began_ns: int) -> RequestTrace | None:
        """Return the trace of a sampled inference that began to be read then; None for others."""
        context = sampled_context(self.traceparent)
        is_inference = isinstance(self.route, Route) and self.route.endpoint is Endpoint.INFER
        return RequestTrace(context, "http", began_ns) if context and is_inference else None


def parse_head(head: bytes, max_body_bytes: int) -> Head:
    """Return the parsed head of a request.

    Args:
        head: The bytes from the request line to the first empty line, which is included.
        max_body_bytes: The largest Content-Length to accept.

    Raises:
        HttpError: The head is malformed, ambiguous or too large, announces a body over the limit,
            or needs a feature that this server does not have.
    """
    if len(head) > MAX_HEAD_BYTES:
        raise head_too_large()
    parsed = _parse(head)
    fields = parsed.fields
    if parsed.version == "1.1" and "host" not in fields:
        raise _bad("The request has no Host header, which HTTP/1.1 requires.")
    content_length = _size(fields, "content-length") or 0
    if content_length > max_body_bytes:
        raise HttpError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, too_large(max_body_bytes))
    return Head(
        route=_route(parsed.method, parsed.target),
        is_for_head_only=parsed.method == b"HEAD",
        keep_alive=parsed.keep_alive,
        content_length=content_length,
        is_chunked="transfer-encoding" in fields,
        json_bytes=_size(fields, "inference-header-content-length"),
        expects_continue=(
            parsed.version == "1.1" and fields.get("expect", "").lower() == "100-continue"
        ),
        body_encoding=_body_encoding(fields),
        reply_encoding=_reply_encoding(fields.get("accept-encoding", "")),
        traceparent=fields.get("traceparent"),
    )


def head_too_large() -> HttpError:
    """Return the error for a head over the limit."""
    return HttpError(
        HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
        f"The request's head is larger than {MAX_HEAD_BYTES:,} bytes: send fewer headers.",
    )


class _HeadParser:
    """Receives llhttp's callbacks for one head."""

    def __init__(self) -> None:
        self.fields: dict[str, str] = {}
        self.target = b""
        self.method = b""
        self.version = ""
        self.keep_alive = False
        self.has_last_byte = False
        self.is_complete = False
        self.parser = httptools.HttpRequestParser(self)

    def on_url(self, url: bytes) -> None:
        self.target += url

    def on_header(self, raw_name: bytes, value: bytes) -> None:
        name = _FIELDS.get(raw_name.lower())
        if name is None:
            return
        text = value.decode("latin-1").strip()
        if name in self.fields:
            if name in _UNIQUE:
                raise _bad(f"The request has more than one {name} header: send one.")
            text = f"{self.fields[name]}, {text}"
        self.fields[name] = text

    def on_headers_complete(self) -> None:
        # llhttp and the search for the empty line must agree about the end of the head: otherwise
        # a request could be hidden in the body of another
        self.is_complete = self.has_last_byte
        self.method = self.parser.get_method()
        self.version = self.parser.get_http_version()
        self.keep_alive = self.parser.should_keep_alive()


def _parse(head: bytes) -> _HeadParser:
    parsed = _HeadParser()
    try:
        parsed.parser.feed_data(head[:-1])
        parsed.has_last_byte = True
        parsed.parser.feed_data(head[-1:])
    except httptools.HttpParserUpgrade:
        pass  # a server may ignore an upgrade (RFC 9110, section 7.8)
    except httptools.HttpParserCallbackError as error:
        if isinstance(error.__context__, HttpError):
            raise error.__context__ from None
        raise
    except httptools.HttpParserError as error:
        _check_coding(parsed.fields)
        raise _bad(f"The request is not valid HTTP/1.1: {error}.") from error
    if not parsed.is_complete or parsed.version not in _VERSIONS:
        raise _bad("The request is not HTTP/1.1: send METHOD TARGET HTTP/1.1.")
    _check_coding(parsed.fields)
    return parsed


def _check_coding(fields: dict[str, str]) -> None:
    coding = fields.get("transfer-encoding", "chunked")
    if coding.lower() != "chunked":
        raise HttpError(
            HTTPStatus.NOT_IMPLEMENTED,
            f"The request has Transfer-Encoding: {coding}, but the server supports only chunked.",
        )


def _size(fields: dict[str, str], name: str) -> int | None:
    value = fields.get(name)
    if value is None:
        return None
    if not value.isascii() or not value.isdecimal() or len(value) > 18:
        raise _bad(f"The request has {name}: {value}, which is not a number of bytes.")
    return int(value)


def _body_encoding(fields: dict[str, str]) -> str | None:
    value = fields.get("content-encoding", "identity").lower()
    if value == "identity":
        return None
    if value not in _ENCODINGS:
        raise HttpError(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            f"The request has Content-Encoding: {value}: send gzip, deflate or none.",
        )
    return value


def _reply_encoding(value: str) -> str | None:
    """Return the encoding with the highest weight, gzip if weights are equal."""
    if not value:
        return None
    best, best_weight = None, 0.0
    for token in value.lower().split(","):
        name, _, parameter = token.partition(";")
        name, weight = name.strip(), _weight(parameter)
        if name in _ENCODINGS and (
            weight > best_weight or (weight == best_weight > 0 and name == "gzip")
        ):
            best, best_weight = name, weight
    return best


def _weight(parameter: str) -> float:
    found = re.fullmatch(r"\s*q=([01](?:\.\d{0,3})?)\s*", parameter)
    if found:
        return float(found[1])
    return 0.0 if parameter.strip() else 1.0


@lru_cache(maxsize=256)
def _route(method: bytes, target: bytes) -> Route | HttpError:
    try:
        return route(method.decode(), target.decode("latin-1"))
    except HttpError as error:
        return error


def _bad(sentence: str) -> HttpError:
    return HttpError(HTTPStatus.BAD_REQUEST, sentence)
