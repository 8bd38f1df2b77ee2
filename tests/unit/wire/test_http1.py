"""HTTP/1.1: the same reply from any pieces, and a failure for each invalid one."""

import gzip
import zlib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from inferometer_loadgen.wire.contract import EncodedRequest, FailureKind, ReplyBody, RequestTarget
from inferometer_loadgen.wire.http1 import parser as http1_parser
from inferometer_loadgen.wire.http1.connection import prepare_http1
from inferometer_loadgen.wire.http1.parser import ReplyParser
from support.wire_bytes import pieces_of

OK = b"HTTP/1.1 200 OK\r\n"


def read(
    pieces: list[bytes], *, keep: bool = True, ended: bool | None = None
) -> ReplyParser | None:
    """Feed a new parser; None: the reply is not over. ``ended``: how the connection ended."""
    parser = ReplyParser()
    parser.start(keep)
    for at, piece in enumerate(pieces, 1):
        if parser.feed(piece):
            assert at == len(pieces), "the reply was over before its last piece"
            return parser
    if ended is not None:
        assert parser.finish("it ended.", clean=ended)
        return parser
    return None


_ZIPPED = gzip.compress(b'{"outputs": []}' + bytes(9), mtime=0)
_BARE = zlib.compressobj(wbits=-zlib.MAX_WBITS)
_DEFLATED = {
    "deflate": zlib.compress(b'{"outputs": []}'),
    "deflate without a frame": _BARE.compress(b'{"outputs": []}') + _BARE.flush(),
}

GOOD = {
    **{
        name: (
            OK + b"Content-Encoding: deflate\r\nContent-Length: %d\r\n\r\n" % len(body) + body,
            ReplyBody(b'{"outputs": []}', None),
        )
        for name, body in _DEFLATED.items()
    },
    "gzip, with its JSON's length": (
        OK
        + b"Content-Encoding: GZip\r\nInference-Header-Content-Length: 15\r\n"
        + b"Content-Length: %d\r\n\r\n" % len(_ZIPPED)
        + _ZIPPED,
        ReplyBody(b'{"outputs": []}' + bytes(9), 15),
    ),
    "chunked and compressed twice": (
        OK
        + b"Transfer-Encoding: chunked\r\nContent-Encoding: deflate, gzip\r\n\r\n"
        + b"%x\r\n" % len(gzip.compress(_DEFLATED["deflate"], mtime=0))
        + gzip.compress(_DEFLATED["deflate"], mtime=0)
        + b"\r\n0\r\n\r\n",
        ReplyBody(b'{"outputs": []}', None),
    ),
    "length": (OK + b"Content-Length: 5\r\n\r\nhello", ReplyBody(b"hello", None)),
    "empty": (OK + b"Content-Length: 0\r\n\r\n", ReplyBody(b"", None)),
    "binary": (
        OK + b"Inference-Header-Content-Length: 2\r\ncontent-length: 6\r\n\r\n{}\x00\r\n\x01",
        ReplyBody(b"{}\x00\r\n\x01", 2),
    ),
    "chunked": (
        OK + b"Transfer-Encoding: chunked\r\n\r\n3;x=y\r\nhel\r\n002\r\nlo\r\n0\r\nX: y\r\n\r\n",
        ReplyBody(b"hello", None),
    ),
    "chunked, with its JSON's length": (
        OK + b"Transfer-Encoding: Chunked\r\nInference-Header-Content-Length: 5\r\n\r\n"
        b"A\r\nhello\r\n\r\n0\r\n0\r\n\r\n",
        ReplyBody(b"hello\r\n\r\n0", 5),
    ),
    "interim replies first": (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
        + OK
        + b"Content-Length: 2\r\n\r\nok",
        ReplyBody(b"ok", None),
    ),
    "folded lines": (
        OK + b"Content-Length:\r\n 2\r\nX: a\r\n\t b\r\n\r\nok",
        ReplyBody(b"ok", None),
    ),
    "no reason, lengths twice": (
        b"HTTP/1.1 200\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok",
        ReplyBody(b"ok", None),
    ),
}


@pytest.mark.parametrize(("wire", "reply"), GOOD.values(), ids=GOOD)
@given(cuts=st.lists(st.integers(min_value=0), max_size=8))
@example(cuts=list(range(300)))
def test_any_pieces_give_the_same_reply(wire: bytes, reply: ReplyBody, cuts: list[int]) -> None:
    """Whatever the pieces, the reply is good, whole, and over with its last byte."""
    parser = read(pieces_of(wire, cuts))
    assert parser is not None
    assert (parser.failure, parser.reply, parser.reusable) == (None, reply, True)


@pytest.mark.parametrize(("wire", "reply"), GOOD.values(), ids=GOOD)
@given(cut=st.integers(min_value=0))
def test_a_truncated_reply_is_a_lost_connection(wire: bytes, reply: ReplyBody, cut: int) -> None:
    """A reply that ends before its last byte waits, and fails when the connection ends."""
    truncated = wire[: cut % len(wire)]
    assert read([truncated]) is None
    parser = read([truncated], ended=True)
    assert parser is not None
    assert parser.failure is not None
    assert parser.failure.kind is FailureKind.CONNECTION
    assert "it ended." in parser.failure.message
    assert parser.reply is None


@pytest.mark.parametrize(("wire", "reply"), GOOD.values(), ids=GOOD)
def test_a_discarded_reply_is_still_read_completely(wire: bytes, reply: ReplyBody) -> None:
    """Without keeping, the body is dropped but the reply ends at the same byte."""
    parser = read([wire[at : at + 1] for at in range(len(wire))], keep=False)
    assert parser is not None
    assert (parser.failure, parser.reply) == (None, None)


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("pieces", [1, 7])
@pytest.mark.parametrize(
    "body",
    [
        b'{"error": "out of memory"}',
        b'{"error": "out of memory' + 900 * b" why" + b'"}',
        b'{"error" : "out of memory' + 1500 * b" why" + b'"}',
        b'{"error": "out of memory \\udc80"}',
        b'{"error": "out of memory", "at": NaN}',
        b'{"outputs": [], "error": "x"}',
        b'{"outputs": [], "error": "' + 1500 * b" why" + b'"}',
        b'{"outputs": [{"name": "error"}]}',
    ],
)
def test_an_error_with_status_200_is_a_failure(body: bytes, pieces: int, keep: bool) -> None:  # noqa: FBT001 - pytest calls it
    """A body with an error and no outputs is a failure, kept or not."""
    wire = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    step = -(-len(wire) // pieces)
    parser = read([wire[at : at + step] for at in range(0, len(wire), step)], keep=keep)
    assert parser is not None
    if b"outputs" in body:
        assert parser.failure is None
    else:
        assert parser.failure is not None
        assert parser.failure.kind is FailureKind.STATUS
        assert parser.failure.message.startswith("HTTP status 200 with an error: ")
        assert "out of memory" in parser.failure.message


@pytest.mark.parametrize("error_value", ["[" * 1000 + "]" * 1000, '{"code": 7}', "null"])
def test_an_error_that_is_not_text_is_quoted_as_it_is(error_value: str) -> None:
    """An error object is quoted, however deeply it is nested."""
    body = b'{"error": %s}' % error_value.encode()
    parser = read([OK + b"Content-Length: %d\r\n\r\n" % len(body) + body])
    assert parser is not None
    assert parser.failure is not None
    assert parser.failure.kind is FailureKind.STATUS
    assert parser.failure.message.startswith(
        'HTTP status 200 with an error: {"error": ' + error_value[:9]
    )


@given(st.lists(st.binary(max_size=60), max_size=6), st.booleans())
def test_arbitrary_bytes_are_a_reply_a_failure_or_incomplete(
    pieces: list[bytes],
    keep: bool,  # noqa: FBT001 - hypothesis calls it
) -> None:
    """Garbage never raises, and bytes that are not HTTP/1 fail at once."""
    parser = ReplyParser()
    parser.start(keep)
    read_so_far = b""
    for piece in pieces:
        read_so_far += piece
        if parser.feed(piece):
            return
    assert b"HTTP/1.".startswith(read_so_far[:7])


@given(st.sampled_from(sorted(GOOD)), st.data())
def test_a_damaged_reply_never_raises(name: str, data: st.DataObject) -> None:
    """After a change of any byte of a good reply the parser ends, fails or waits for more."""
    wire = bytearray(GOOD[name][0])
    wire[data.draw(st.integers(0, len(wire) - 1))] = data.draw(st.integers(0, 255))
    parser = ReplyParser()
    parser.start(keep=True)
    over = parser.feed(bytes(wire)) or parser.finish("it ended.", clean=True)
    assert over
    assert (parser.failure is None) == (parser.reply is not None)


@pytest.mark.parametrize(
    ("wire", "message"),
    [
        pytest.param(b"\x00\x00\x12\x04\x00\x00", "not an HTTP/1 status line", id="HTTP/2"),
        pytest.param(b"HTTP/2.0 200 OK\r\n\r\n", "not an HTTP/1 status line", id="version"),
        pytest.param(b"HTTP/1.1 2x0 OK\r\n\r\n", "not an HTTP/1 status line", id="status"),
        pytest.param(OK + b"Broken\r\n\r\n", "no name and value", id="no colon"),
        pytest.param(OK + b" c\r\n\r\n", "no name and value", id="a line folded to none"),
        pytest.param(b"HTTP/1.1 200 OK\nA: b\n\n", "without a CR before its LF", id="bare LF"),
        pytest.param(OK + b"A: b\n\n", "without a CR before its LF", id="bare LF, later"),
        pytest.param(OK + b"Content-Length: -1\r\n\r\n", "not one number", id="negative length"),
        pytest.param(OK + b"Content-Length: 1,2\r\n\r\n", "not one number", id="two lengths"),
        pytest.param(OK + b"Transfer-Encoding: gzip\r\n\r\n", "only chunked", id="coding"),
        pytest.param(
            OK + b"Content-Encoding: br\r\nContent-Length: 1\r\n\r\nx",
            "did not request",
            id="br",
        ),
        pytest.param(
            OK + b"Content-Encoding: gzip\r\nContent-Length: 9\r\n\r\nnot gzip!",
            "not valid gzip data",
            id="gzip that is none",
        ),
        pytest.param(
            OK
            + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % (len(_ZIPPED) - 9)
            + _ZIPPED[:-9],
            "ends within its gzip data",
            id="truncated gzip",
        ),
        pytest.param(
            OK + b"Content-Length: 2\r\nInference-Header-Content-Length: 3\r\n\r\n{}",
            "should have 3 bytes",
            id="JSON longer than the body",
        ),
        pytest.param(
            OK + b"Transfer-Encoding: chunked\r\nInference-Header-Content-Length: 3\r\n\r\n"
            b"2\r\n{}\r\n0\r\n\r\n",
            "should have 3 bytes",
            id="JSON longer than the chunks",
        ),
        pytest.param(OK + b"Content-Length: 2\r\n\r\nokk", "1 bytes follow", id="too long"),
        pytest.param(
            OK + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n", "chunk's size", id="chunk size"
        ),
        pytest.param(
            OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nokk\r\n", "followed by", id="chunk end"
        ),
        pytest.param(
            OK + b"Transfer-Encoding: chunked\r\n\r\n2\nok", "instead of a chunk's size", id="LF"
        ),
        pytest.param(
            OK + b"Transfer-Encoding: chunked\r\n\r\n" + b"1" * 20_000, "never ends", id="long line"
        ),
        pytest.param(OK + b"A: " + b"b" * 70_000, "longer than 65536", id="endless headers"),
        pytest.param(b"HTTP/1.1 101 Switching Protocols\r\n\r\n", "another protocol", id="101"),
    ],
)
def test_an_invalid_reply_is_a_protocol_failure(wire: bytes, message: str) -> None:
    """The failure has kind PROTOCOL, says what was wrong, and ends the connection."""
    parser = read([wire])
    assert parser is not None
    assert parser.failure is not None
    assert parser.failure.kind is FailureKind.PROTOCOL
    assert message in parser.failure.message
    assert not parser.reusable


@pytest.mark.parametrize(
    ("wire", "message"),
    [
        pytest.param(
            b'HTTP/1.1 400 Bad Request\r\nContent-Length: 23\r\n\r\n{"error":"wrong shape"}',
            "HTTP status 400 Bad Request: wrong shape",
            id="protocol's own",
        ),
        pytest.param(
            b"HTTP/1.1 503\r\nContent-Length: 9\r\n\r\nnot\r\nnow\xff",
            "HTTP status 503 Service Unavailable: not now\N{REPLACEMENT CHARACTER}",
            id="text",
        ),
        pytest.param(
            b"HTTP/1.1 599 \r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            "HTTP status 599 without a reason",
            id="nothing",
        ),
        pytest.param(b"HTTP/1.1 204 No Content\r\n\r\n", "HTTP status 204 No Content", id="204"),
        pytest.param(
            b"HTTP/1.1 500 Oh\r\nContent-Length: 9000\r\n\r\n" + b"x" * 9000,
            f"HTTP status 500 Oh: {'x' * 229} … {'x' * 248}",
            id="bounded",
        ),
        pytest.param(
            b"HTTP/1.1 500 Oh\r\nContent-Length: 4000\r\n\r\n" + b"[" * 4000,
            f"HTTP status 500 Oh: {'[' * 229} … {'[' * 248}",
            id="deep JSON",
        ),
    ],
)
def test_an_error_status_quotes_the_server(wire: bytes, message: str) -> None:
    """A status other than 200 is a failure with its reason and error text, cut to 500 signs."""
    parser = read([wire], keep=False)
    assert parser is not None
    assert parser.failure is not None
    assert parser.failure.kind is FailureKind.STATUS
    assert parser.failure.message.startswith(message)
    assert len(parser.failure.message) <= 500


@pytest.mark.parametrize(
    ("head", "reusable"),
    [
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\n", False),
        (b"HTTP/1.1 200 OK\r\nConnection: x, Close\r\n", False),
        (b"HTTP/1.0 200 OK\r\n", False),
        (b"HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\n", True),
        (b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n", False),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n", True),
        (b"HTTP/1.1 200 OK\r\n", True),
    ],
)
def test_the_server_decides_whether_the_connection_stays_open(head: bytes, reusable: bool) -> None:  # noqa: FBT001 - a table
    """Versions and the Connection header decide on keep-alive; the reply is good either way."""
    body = b"\r\n2\r\nok\r\n0\r\n\r\n" if b"chunked" in head else b"Content-Length: 2\r\n\r\nok"
    parser = read([head + body])
    assert parser is not None
    assert (parser.failure, parser.reusable) == (None, reusable)


def test_a_body_without_length_ends_with_its_connection() -> None:
    """HTTP/1.0: a clean end completes the reply, a reset does not."""
    wire = b"HTTP/1.0 200 OK\r\n\r\nsome"
    good = read([wire, b"thing"], ended=True)
    assert good is not None
    assert (good.failure, good.reply, good.reusable) == (None, ReplyBody(b"something", None), False)
    lost = read([wire], ended=False)
    assert lost is not None
    assert lost.failure is not None
    assert lost.failure.message == "The reply was cut off after 4 bytes of its body: it ended."


@pytest.mark.parametrize(
    ("wire", "clause"),
    [
        (b"HTTP/1.1 100 Continue\r\n\r\n", ""),
        (b"HTTP/1.1 200 OK\r\nContent-Le", "only a part of its headers had arrived"),
        (
            OK + b"Content-Length: 140\r\n\r\n" + 133 * b"x",
            "133 of 140 bytes of its body had arrived",
        ),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n", "2 bytes of its body had arrived"),
        (b"HTTP/1.0 200 OK\r\n\r\nsome", "which ends only with the connection"),
    ],
)
def test_a_partial_reply_names_the_parts_that_arrived(wire: bytes, clause: str) -> None:
    """A query that times out reports which part of its reply had arrived."""
    parser = ReplyParser()
    parser.start(False)
    assert not parser.feed(wire)
    assert clause in parser.received_so_far()
    assert bool(clause) == bool(parser.received_so_far())


@pytest.mark.parametrize("keep", [True, False])
def test_a_compressed_error_is_quoted(keep: bool) -> None:  # noqa: FBT001 - a table
    """An error's words are read whether the reply is kept or not, with any status."""
    body = gzip.compress(b'{"error": "' + 20_000 * b"why " + b'out of memory"}')
    for status in (b"200 OK", b"500 Oh"):
        head = b"HTTP/1.1 %s\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n"
        parser = read([head % (status, len(body)), body], keep=keep)
        assert parser is not None
        assert parser.failure is not None
        assert parser.failure.kind is FailureKind.STATUS
        assert "why why" in parser.failure.message


def test_a_compressed_reply_that_grows_without_end_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A small body cannot fill the memory."""
    monkeypatch.setattr(http1_parser, "MAX_BUFFERED_REPLY_BYTES", 1000)
    body = gzip.compress(bytes(100_000))
    head = b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(body)
    parser = read([OK + head + body])
    assert parser is not None
    assert parser.failure is not None
    assert "more than 1000 bytes when decoded" in parser.failure.message


def test_the_end_of_a_long_error_is_kept() -> None:
    """The cause of a traceback stands at its end, behind kilobytes of frames."""
    body = 2000 * b"  File x\n" + b"ZeroDivisionError: division by zero\n"
    parser = read([b"HTTP/1.1 500 Oh\r\nContent-Length: %d\r\n\r\n" % len(body) + body])
    assert parser is not None
    assert parser.failure is not None
    assert parser.failure.message.endswith("ZeroDivisionError: division by zero")


def test_an_overlong_reply_is_discarded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A body longer than the limit is counted and dropped; an error in it is still found."""
    monkeypatch.setattr(http1_parser, "MAX_BUFFERED_REPLY_BYTES", 1000)
    wire = [OK + b"Transfer-Encoding: chunked\r\n\r\n", *(1001 * [b"1\r\nx\r\n"]), b"0\r\n\r\n"]
    result = read(wire)
    assert result is not None
    assert (result.failure, result.reply, result.reusable) == (None, None, True)
    error = read([OK + b"Content-Length: 1100\r\n\r\n", b'{"error": "', 1087 * b"x", b'"}'])
    assert error is not None
    assert error.failure is not None


def test_one_parser_reads_reply_after_reply() -> None:
    """A failed reply leaves no state for the next."""
    parser = ReplyParser()
    for _ in range(2):
        parser.start(keep=True)
        over = [parser.feed(b"HTTP/1.1 500 Oh\r\nContent-Length: 1\r\n\r\n"), parser.feed(b"x")]
        assert over == [False, True]
        verdicts = [parser.failure is not None]
        parser.start(keep=False)
        assert parser.feed(OK + b"Content-Length: 2\r\n\r\nok")
        verdicts.append(parser.failure is not None)
        assert verdicts == [True, False]


def test_the_request_matches_the_protocol() -> None:
    """The bytes of a request with version, path prefix and binary tensors are these."""
    target = RequestTarget("HTTP", "::1", 8000, "a b/c", "3", "/proxy")
    assert prepare_http1(target, EncodedRequest(b'{"x":1}\x00\x01', 7)).pieces == (
        (
            b"POST /proxy/v2/models/a%20b%2Fc/versions/3/infer HTTP/1.1\r\n"
            b"Host: [::1]:8000\r\n"
            b"User-Agent: inferometer\r\n"
            b"Accept-Encoding: identity\r\n"
            b"Content-Type: application/octet-stream\r\n"
            b"Content-Length: 9\r\n"
            b"Inference-Header-Content-Length: 7\r\n"
            b'\r\n{"x":1}\x00\x01'
        ),
    )


def test_a_json_request_has_no_json_length_header() -> None:
    """Without binary tensors there is no header for the JSON's length."""
    [wire] = prepare_http1(RequestTarget("HTTP", "h", 1, "m"), EncodedRequest(b"{}")).pieces
    assert b"/v2/models/m/infer" in wire
    assert b"Content-Type: application/json\r\n" in wire
    assert b"Inference-Header" not in wire


def test_a_large_body_is_not_copied() -> None:
    """Above 64 KiB the body is the object that was passed in."""
    body = b"x" * 65_537
    head, sent = prepare_http1(RequestTarget("HTTP", "h", 1, "m"), EncodedRequest(body)).pieces
    assert sent is body
    assert head.endswith(b"\r\n\r\n")
