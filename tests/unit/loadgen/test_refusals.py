"""A failed call of the control plane is explained by what the server said."""

import ssl
from pathlib import Path
from typing import Any

import pytest

from inferometer_loadgen.drive.first_requests import FirstRequestsRefusedError, refusal_of
from inferometer_loadgen.server.control_calls import (
    AnswerError,
    AnswerKind,
    CallError,
    UnintelligibleError,
    answer_clause,
    first_line,
)
from inferometer_loadgen.server.endpoint import ServerEndpoint
from inferometer_loadgen.server.grpc_control import call_error
from inferometer_loadgen.server.port_probe import PortProtocol
from inferometer_loadgen.server.refusals import failure_clause, final_error, hint, other_protocol
from inferometer_loadgen.server.tls_handshake import ClosedBehindError, ClosedInTlsError
from inferometer_loadgen.wire import Failure, FailureKind
from inferometer_loadgen.wire.contract import connection_error_text
from inferometer_loadgen.wire.tls import ClientTls, TlsFiles

PLAIN = None
SECURE = ClientTls(ssl.create_default_context(), "h")
SHOWN = ClientTls(ssl.create_default_context(), "h", TlsFiles(certificate=Path("c"), key=Path("k")))
REFUSED = ConnectionRefusedError(111, "Connect call failed ('127.0.0.1', 1)")


def _at(protocol: Any = "HTTP", tls: ClientTls | None = PLAIN) -> ServerEndpoint:
    return ServerEndpoint(protocol, "h", 1, "", tls)


@pytest.mark.parametrize(
    ("fault", "at", "clause"),
    [
        (TimeoutError(), _at(), "it did not answer within 5 s"),
        (REFUSED, _at(), "there is no connection to it (Connection refused)"),
        (
            OSError("Multiple exceptions: [Errno 111] Connect call failed ('::1', 1, 0, 0), ..."),
            _at(),
            "there is no connection to it (Connection refused)",
        ),
        (
            ClosedInTlsError("it closed"),
            _at("HTTP", SECURE),
            (
                "it closed; it may want a client's certificate (load.tls), or this may be a port "
                "without TLS (http://)"
            ),
        ),
        (
            ClosedInTlsError("it closed"),
            _at("GRPC", SHOWN),
            (
                "it closed; it may refuse the client's certificate (load.tls), or this may be a "
                "port without TLS (grpc://)"
            ),
        ),
        (
            ClosedBehindError("it closed"),
            _at("GRPC", SECURE),
            "it closed; it may want a client's certificate (load.tls)",
        ),
        (CallError("it answered nothing"), _at(), "it answered nothing"),
    ],
)
def test_a_failed_call_is_a_clause_in_our_words(
    fault: BaseException, at: ServerEndpoint, clause: str
) -> None:
    """Neither the library's words nor its error numbers occur."""
    assert failure_clause(fault, at) == clause


@pytest.mark.parametrize(
    ("at", "words"),
    [
        (_at("HTTP"), "this may be its gRPC port (grpc://), or one with TLS (https://)"),
        (_at("HTTP", SECURE), "this may be its gRPC port (grpcs://)"),
        (_at("GRPC"), "this may be its HTTP port (http://)"),
        (_at("GRPC", SECURE), "this may be its HTTP port (https://)"),
    ],
)
def test_a_hint_never_names_the_scheme_in_use(at: ServerEndpoint, words: str) -> None:
    """A port that gives no answer may be the other one."""
    assert hint(at) == words


@pytest.mark.parametrize(
    ("status", "words", "sentence"),
    [
        ("StatusCode.NOT_FOUND", "no such model\n", "it answered NOT_FOUND to M: no such model"),
        ("StatusCode.INTERNAL", "", "it answered INTERNAL to M"),
        ("StatusCode.UNAVAILABLE", "The model loads.", "it answered UNAVAILABLE to M: The model l"),
        (
            "StatusCode.UNIMPLEMENTED",
            "Received http2 header with status: 404",
            "it answered the HTTP status 404 to M",
        ),
        ("StatusCode.UNAVAILABLE", "Failed parsing HTTP/2", "it gave no answer in gRPC"),
        (
            "StatusCode.UNAVAILABLE",
            "failed to connect to all addresses; last error: UNKNOWN: ipv4:1.2.3.4:5: ...",
            "it gave no answer in gRPC",
        ),
        ("StatusCode.UNAVAILABLE", "Socket closed", "it gave no answer in gRPC"),
    ],
)
def test_only_a_servers_own_words_are_quoted_of_grpc(
    status: str, words: str, sentence: str
) -> None:
    """What the gRPC library says of a connection is left out."""
    assert str(call_error("M", status, words)).startswith(sentence)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (AnswerKind.DENIED, "denies access: it said so. Set load.headersFile"),
        (AnswerKind.WANTS_TLS, "uses TLS on this port: it said so. Write https:// instead of http"),
        (AnswerKind.NOT_READY, None),
        (AnswerKind.BAD_REQUEST, None),
        (AnswerKind.REJECTED, None),
        (AnswerKind.ABSENT, None),
    ],
)
def test_what_cannot_heal_ends_the_run(kind: AnswerKind, words: str | None) -> None:
    """Missing credentials and TLS do not come by waiting; a server that starts does."""
    final = final_error(AnswerError(kind, "it said so"), _at())
    assert (final is None) == (words is None)
    assert words is None or words in str(final)
    assert final_error(UnintelligibleError("it gave no answer"), _at()) is None


@pytest.mark.parametrize(
    ("at", "found", "words"),
    [
        (_at(), PortProtocol.TLS, "uses TLS on this port. Write https:// instead of http://"),
        (_at("GRPC"), PortProtocol.TLS, "uses TLS on this port. Write grpcs:// instead of grpc://"),
        (_at(), PortProtocol.HTTP2, "speaks HTTP/2 on this port, and not HTTP/1.1. Write grpc://"),
        (_at("GRPC"), PortProtocol.HTTP1, "speaks HTTP/1.1 on this port, and not gRPC. Write http"),
        (
            _at("HTTP", SECURE),
            PortProtocol.HTTP1,
            "speaks HTTP/1.1 without TLS on this port. Write http:// with load.protocol: HTTP,",
        ),
        (_at("HTTP", SECURE), PortProtocol.HTTP2, "Write grpc:// with load.protocol: GRPC,"),
        (_at("GRPC", SECURE), PortProtocol.HTTP2, "GRPC, or name its port for grpcs://."),
    ],
)
def test_another_protocol_is_named_with_the_scheme_for_it(
    at: ServerEndpoint, found: PortProtocol, words: str
) -> None:
    """The sentence says what to write."""
    assert words in str(other_protocol(at, found))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", ""),
        ("\n\n  Not here.\nMore.", "Not here"),
        (
            "<!DOCTYPE html>\n<html><title>404 Not Found</title><p>It is not here.</html>",
            "404 Not Found",
        ),
        ("a" * 300, f"{'a' * 99} … {'a' * 98}"),
    ],
)
def test_the_first_line_of_an_answer_is_quoted(text: str, line: str) -> None:
    """Of a page its text; a long line loses its middle."""
    assert first_line(text) == line
    assert answer_clause("404", "GET /", text) == "it answered 404 to GET /" + (
        line and f": {line}"
    )


@pytest.mark.parametrize(
    ("words", "hint_count"),
    [
        ("unexpected shape for input 'x'", 1),
        ("expected INT64 tensor", 1),
        ("[request id: 1] batch-size must be <= 8", 1),
        ("ZeroDivisionError: division by zero", 0),
        ("CUDA out of memory", 0),
    ],
)
def test_the_hint_on_inputs_follows_words_about_inputs(words: str, hint_count: int) -> None:
    """A server that fails for another reason gets no advice on inputs."""
    refused = refusal_of(Failure(FailureKind.STATUS, words), "of 's'", 3)
    assert isinstance(refused, FirstRequestsRefusedError)
    assert f": {words}." in str(refused)
    assert str(refused).count("spec.load.inputs") == hint_count


def test_an_operating_systems_error_has_its_own_words() -> None:
    """An error without a number keeps its text."""
    assert connection_error_text(REFUSED) == "Connection refused"
    assert connection_error_text(OSError("the server closed it at once.")) == (
        "the server closed it at once."
    )
