"""What does the head of an HTTP/1.1 request say (RFC 9112)?"""

import re
from dataclasses import dataclass
from http import HTTPStatus

from inferometer_serving.http.body import too_large
from inferometer_serving.http.errors import HttpError
from inferometer_serving.http.routes import Route, route

MAX_HEAD_BYTES = 16384
HEAD_END = b"\r\n\r\n"

_REQUEST_LINE = re.compile(rb"([A-Z]{1,16}) ([!-~]{1,8192}) HTTP/1\.([01])")
_FIELD = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*([\t -~\x80-\xff]*)")
_ENCODINGS = ("gzip", "deflate")


@dataclass(frozen=True, slots=True)
class Head:
    """All of a request's head that matters to this server."""

    route: Route | HttpError
    """Where it goes, or why it goes nowhere: such a request keeps its connection."""
    is_for_head_only: bool
    """Whether the answer must have no body (HEAD)."""
    keep_alive: bool
    content_length: int
    """0 where there is no body; unknown, and 0, where the body is chunked."""
    is_chunked: bool
    json_bytes: int | None
    """How much of the body is JSON where tensors follow it; None where all is."""
    expects_continue: bool
    body_encoding: str | None
    """gzip, deflate, or None."""
    reply_encoding: str | None
    """The best of what the client takes; None where it takes neither gzip nor deflate."""


def parse_head(head: bytes, max_body_bytes: int) -> Head:
    """Return what a head says, from its request line to the empty line.

    Raises HttpError where it is not HTTP/1.1, ambiguous, too large, announces too large a body,
    or asks for what this server lacks.
    """
    if len(head) > MAX_HEAD_BYTES:
        raise head_too_large()
    lines = head[: -len(HEAD_END)].split(b"\r\n")
    found = _REQUEST_LINE.fullmatch(lines[0])
    if found is None:
        raise _bad("The request line is not HTTP/1.1: send METHOD TARGET HTTP/1.1.")
    fields = _fields(lines[1:])
    is_new = found[3] == b"1"
    if is_new and "host" not in fields:
        raise _bad("The request has no Host: HTTP/1.1 asks for one.")
    connection = _tokens(fields.get("connection", ""))
    is_chunked = _is_chunked(fields)
    content_length = _size(fields, "content-length") or 0
    if content_length > max_body_bytes:
        raise HttpError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, too_large(max_body_bytes))
    return Head(
        route=_route(found[1].decode(), found[2].decode()),
        is_for_head_only=found[1] == b"HEAD",
        keep_alive="close" not in connection if is_new else "keep-alive" in connection,
        content_length=content_length,
        is_chunked=is_chunked,
        json_bytes=_size(fields, "inference-header-content-length"),
        expects_continue=is_new and fields.get("expect", "").lower() == "100-continue",
        body_encoding=_body_encoding(fields),
        reply_encoding=_reply_encoding(fields.get("accept-encoding", "")),
    )


def head_too_large() -> HttpError:
    """Return the error for a head over the limit."""
    return HttpError(
        HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
        f"The request's head is larger than {MAX_HEAD_BYTES:,} bytes: send fewer headers.",
    )


def _fields(lines: list[bytes]) -> dict[str, str]:
    fields: dict[str, str] = {}
    for line in lines:
        found = _FIELD.fullmatch(line)
        if found is None:
            raise _bad("A header of the request is not of the form NAME: VALUE.")
        name, value = found[1].decode().lower(), found[2].decode("latin-1").strip()
        if name in fields and name in ("content-length", "host", "inference-header-content-length"):
            if fields[name] != value or name == "host":
                raise _bad(f"The request has several different {name} headers: send one.")
        elif name in fields:
            value = f"{fields[name]}, {value}"
        fields[name] = value
    return fields


def _is_chunked(fields: dict[str, str]) -> bool:
    coding = fields.get("transfer-encoding")
    if coding is None:
        return False
    if "content-length" in fields:  # the two together are how requests are smuggled
        raise _bad("The request has both Content-Length and Transfer-Encoding: send one of them.")
    if coding.lower() != "chunked":
        raise HttpError(
            HTTPStatus.NOT_IMPLEMENTED,
            f"The request has Transfer-Encoding: {coding}, but only chunked is served.",
        )
    return True


def _size(fields: dict[str, str], name: str) -> int | None:
    value = fields.get(name)
    if value is None:
        return None
    if not value.isascii() or not value.isdecimal() or len(value) > 18:
        raise _bad(f"The request has {name}: {value}, which is no number of bytes.")
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
    """Return the coding with the highest weight; gzip where weights are equal."""
    best, best_weight = None, 0.0
    for token in _tokens(value):
        name, _, parameter = token.partition(";")
        weight = _weight(parameter)
        if name.strip() in _ENCODINGS and (
            weight > best_weight or (weight == best_weight > 0 and name.strip() == "gzip")
        ):
            best, best_weight = name.strip(), weight
    return best


def _weight(parameter: str) -> float:
    found = re.fullmatch(r"\s*q=([01](?:\.\d{0,3})?)\s*", parameter)
    if found:
        return float(found[1])
    return 0.0 if parameter.strip() else 1.0


def _tokens(value: str) -> list[str]:
    return [each.strip().lower() for each in value.split(",")] if value else []


def _route(method: str, target: str) -> Route | HttpError:
    try:
        return route(method, target)
    except HttpError as error:
        return error


def _bad(sentence: str) -> HttpError:
    return HttpError(HTTPStatus.BAD_REQUEST, sentence)
