"""HPACK: the examples of RFC 7541, invalid blocks, and the blocks that the client writes."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer_loadgen.wire.grpc import hpack
from inferometer_loadgen.wire.grpc.hpack import (
    STATIC_TABLE,
    HpackError,
    decode,
    decode_integer,
    encode_integer,
    encode_request,
)


def test_an_integer_within_its_prefix_is_one_byte() -> None:
    """RFC 7541 C.1.1: 10 with a five-bit prefix."""
    assert encode_integer(10, 5, 0) == b"\x0a"


def test_an_integer_past_its_prefix_takes_more_bytes() -> None:
    """RFC 7541 C.1.2: 1337 with a five-bit prefix."""
    assert encode_integer(1337, 5, 0) == b"\x1f\x9a\x0a"
    assert decode_integer(b"\x1f\x9a\x0a", 0, 5) == (1337, 3)


@given(st.integers(0, 2**31 - 1), st.integers(4, 7))
def test_integers_survive_a_round_trip(value: int, prefix_bits: int) -> None:
    """An encoded integer decodes to itself, for all prefixes in use."""
    coded = encode_integer(value, prefix_bits, 0)
    assert decode_integer(coded, 0, prefix_bits) == (value, len(coded))


@pytest.mark.parametrize(
    ("coded", "fields"),
    [
        pytest.param(
            "400a637573746f6d2d6b65790d637573746f6d2d686561646572",
            [(b"custom-key", b"custom-header")],
            id="C.2.1 literal with indexing",
        ),
        pytest.param(
            "040c2f73616d706c652f70617468",
            [(b":path", b"/sample/path")],
            id="C.2.2 literal without indexing",
        ),
        pytest.param(
            "100870617373776f726406736563726574",
            [(b"password", b"secret")],
            id="C.2.3 literal never indexed",
        ),
        pytest.param("82", [(b":method", b"GET")], id="C.2.4 indexed"),
        pytest.param(
            "828684410f7777772e6578616d706c652e636f6d",
            [
                (b":method", b"GET"),
                (b":scheme", b"http"),
                (b":path", b"/"),
                (b":authority", b"www.example.com"),
            ],
            id="C.3.1 request",
        ),
        pytest.param(
            "828684418cf1e3c2e5f23a6ba0ab90f4ff",
            [
                (b":method", b"GET"),
                (b":scheme", b"http"),
                (b":path", b"/"),
                (b":authority", b"www.example.com"),
            ],
            id="C.4.1 request with Huffman code",
        ),
        pytest.param(
            "4803333032580770726976617465611d4d6f6e2c203231204f637420323031332032303a31333a3231"
            "20474d546e1768747470733a2f2f7777772e6578616d706c652e636f6d",
            [
                (b":status", b"302"),
                (b"cache-control", b"private"),
                (b"date", b"Mon, 21 Oct 2013 20:13:21 GMT"),
                (b"location", b"https://www.example.com"),
            ],
            id="C.5.1 response",
        ),
        pytest.param(
            "488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff6e919d29ad171863"
            "c78f0b97c8e9ae82ae43d3",
            [
                (b":status", b"302"),
                (b"cache-control", b"private"),
                (b"date", b"Mon, 21 Oct 2013 20:13:21 GMT"),
                (b"location", b"https://www.example.com"),
            ],
            id="C.6.1 response with Huffman code",
        ),
        pytest.param("2088", [(b":status", b"200")], id="the table set to 0 first"),
    ],
)
def test_header_blocks_are_decoded(coded: str, fields: list[tuple[bytes, bytes]]) -> None:
    """The examples of RFC 7541 that need no dynamic table decode as documented."""
    assert decode(bytes.fromhex(coded)) == fields


@pytest.mark.parametrize(
    ("coded", "sentence"),
    [
        pytest.param("be", "entry 62", id="the dynamic table, which is not there"),
        pytest.param("80", "entry 0", id="index 0"),
        pytest.param("3fe11f", "4096 bytes", id="a table that was not allowed"),
        pytest.param("400a6375", "middle of a string", id="cut within a string"),
        pytest.param("40", "middle of a header", id="cut before a string"),
        pytest.param("ffffffffffffff", "31 bits", id="an endless integer"),
        pytest.param("4182ffff", "middle of a symbol", id="padding longer than seven bits"),
        pytest.param("4184ffffffff", "end-of-string", id="the EOS symbol"),
    ],
)
def test_invalid_header_blocks_raise_an_error(coded: str, sentence: str) -> None:
    """An invalid block raises an HpackError that says why."""
    with pytest.raises(HpackError, match=sentence):
        decode(bytes.fromhex(coded))


@given(st.binary(max_size=200))
def test_arbitrary_bytes_decode_or_raise_hpack_error(block: bytes) -> None:
    """No bytes raise anything but HpackError."""
    with suppress(HpackError):
        decode(block)


def test_values_of_other_names_are_skipped() -> None:
    """An invalid Huffman code does no harm under a name that the caller does not want."""
    block = bytes.fromhex("0f2984ffffffff") + b"\x88"  # set-cookie with EOS in it, then :status
    assert decode(block, frozenset((b":status",))) == [(b":status", b"200")]


def test_huffman_strings_of_the_standard_are_decoded() -> None:
    """RFC 7541 C.6.3: a cookie with digits, capitals and signs."""
    coded = bytes.fromhex(
        "94e7821dd7f2e6c7b335dfdfcd5b3960d5af27087f3672c1ab270fb5291f9587316065c003ed4ee5b1063d5007"
    )
    text = b"foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1"
    assert hpack.decode_huffman(coded) == text


FIELDS = [
    (b":method", b"POST"),
    (b":path", b"/x"),
    (b"te", b"trailers"),
    (b":authority", b"a:1"),
]


def test_request_headers_have_three_encodings() -> None:
    """The first block enters headers into the server's table, later ones refer to it by age."""
    blocks = encode_request(FIELDS)
    assert blocks.first == b"\x83\x44\x02/x\x40\x02te\x08trailers\x41\x03a:1"
    assert blocks.later == b"\x83\xc0\xbf\xbe"
    assert blocks.plain == b"\x83\x04\x02/x\x00\x02te\x08trailers\x01\x03a:1"
    assert decode(blocks.first) == decode(blocks.plain) == FIELDS


def test_headers_larger_than_the_servers_table_are_written_in_full_each_time() -> None:
    """A table holds 4,096 bytes, 32 of them per entry; evicted entries are never referred to."""
    own = sum(len(name) + len(value) + 32 for name, value in FIELDS[1:])
    fitting = encode_request([*FIELDS, (b"x", b"v" * (4_096 - own - 33))])
    assert fitting.later == b"\x83\xc1\xc0\xbf\xbe"
    larger = encode_request([*FIELDS, (b"x", b"v" * (4_096 - own - 32))])
    assert larger.first == larger.later == larger.plain
    assert decode(larger.plain)[:4] == FIELDS


def test_the_static_table_is_complete() -> None:
    """It has 61 entries, of which RFC 7541 names the first and the last."""
    assert len(STATIC_TABLE) == 61
    assert STATIC_TABLE[0] == (b":authority", b"")
    assert STATIC_TABLE[60] == (b"www-authenticate", b"")
