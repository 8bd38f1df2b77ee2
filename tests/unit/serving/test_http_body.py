"""Do bodies come out of their chunks and their compression?"""

import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer_serving.errors import RequestRefusedError
from inferometer_serving.http.body import ChunkedBody, compress, decompress
from inferometer_serving.http.errors import HttpError
from inferometer_serving.http.infer import split
from inferometer_serving.http.sized_body import SizedBody


@given(
    parts=st.lists(st.binary(min_size=1, max_size=30), max_size=8),
    step=st.integers(1, 40),
    behind=st.binary(max_size=9),
)
def test_chunks_are_joined(parts: list[bytes], step: int, behind: bytes) -> None:
    """A chunked body comes out whole however it is cut, and what follows it is handed back."""
    sent = b"".join(b"%X\r\n%b\r\n" % (len(each), each) for each in parts) + b"0\r\n\r\n" + behind
    body, left = ChunkedBody(1000), None
    for at in range(0, len(sent), step):
        left = body.feed(body.rest + sent[at : at + step])
        if left is not None:
            left += sent[at + step :]
            break
    assert left == behind
    assert body.body == b"".join(parts)


@pytest.mark.parametrize("sent", [b"g\r\n", b"-1\r\n", b"1\r\nabc", b"\r\n", b"f" * 5000])
def test_damaged_chunks_are_refused(sent: bytes) -> None:
    """Sizes that are none, chunks that end elsewhere, and endless lines are refused."""
    with pytest.raises(HttpError):
        ChunkedBody(1000).feed(sent)


def test_chunks_are_bounded() -> None:
    """A chunk that would exceed the limit is refused when it is announced; trailers are counted."""
    with pytest.raises(HttpError, match="larger than the 1,000 bytes"):
        ChunkedBody(1000).feed(b"3e9\r\n")
    with pytest.raises(HttpError):
        ChunkedBody(1000).feed(b"0\r\n" + b"a: b\r\n" * 100)


@given(st.binary(max_size=300), st.sampled_from(["gzip", "deflate"]))
def test_compression_is_undone(body: bytes, encoding: str) -> None:
    """What is compressed comes out as it was."""
    assert decompress(compress(body, encoding), encoding, 300) == body


def test_compression_is_bounded() -> None:
    """A body that swells past the limit is refused, and not swollen further."""
    with pytest.raises(RequestRefusedError, match="larger than the 10 bytes"):
        decompress(zlib.compress(b" " * 1_000_000), "deflate", 10)


@given(st.binary(max_size=60), st.integers(0, 60), st.booleans())
def test_bodies_are_split(body: bytes, json_bytes: int, as_view: bool) -> None:  # noqa: FBT001 - drawn
    """JSON and binary data are parted, be it bytes or a view; too short a body is refused."""
    given_body = memoryview(body) if as_view else body
    if json_bytes > len(body):
        with pytest.raises(RequestRefusedError):
            split(given_body, json_bytes)
    else:
        assert split(given_body, json_bytes) == (body[:json_bytes], body[json_bytes:])
    assert split(given_body, None) == (body, b"")


@given(
    st.lists(
        st.tuples(st.binary(min_size=1, max_size=200), st.integers(0, 200), st.integers(1, 99)),
        min_size=1,
        max_size=4,
    )
)
def test_sized_bodies_come_in_aligned(bodies: list[tuple[bytes, int, int]]) -> None:
    """Bodies fill the connection's memory piece by piece, with their tensors aligned."""
    sized = SizedBody()
    for content, json_bytes, step in bodies:
        sized.begin(len(content), json_bytes, content[: step - 1][:-1])
        at = len(content[: step - 1][:-1])
        while at < len(content):
            count = min(step, len(sized.space))
            sized.space[:count] = content[at : at + count]
            at += count
            assert sized.fill(count) == (at == len(content))
        body = sized.take()
        assert body == content
        if json_bytes < len(content):
            tensor = np.frombuffer(body[json_bytes:], np.uint8)
            assert tensor.ctypes.data % 64 == 0
