"""Bodies are joined from chunks, decompressed and limited."""

import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer_serving.errors import RequestRefusedError
from inferometer_serving.http.body import ChunkedBody, SizedBody, compress, decompress
from inferometer_serving.http.errors import HttpError
from inferometer_serving.http.infer import split


@given(
    parts=st.lists(st.sampled_from([b"abc", b"\n\r\n", b"\n", b"0\r\n\r\n"]), max_size=8),
    step=st.integers(1, 40),
    behind=st.sampled_from([b"", b"\r\n", b"GET / HTTP/1.1"]),
)
def test_chunks_are_joined(parts: list[bytes], step: int, behind: bytes) -> None:
    """A chunked body is complete however it is cut, and the bytes after it are returned."""
    sent = b"".join(b"%X\r\n%b\r\n" % (len(each), each) for each in parts) + b"0\r\n\r\n" + behind
    body, left = ChunkedBody(1000), None
    for at in range(0, len(sent), step):
        left = body.feed(sent[at : at + step])
        if left is not None:
            left += sent[at + step :]
            break
    assert left == behind
    assert body.body == b"".join(parts)


def test_chunks_are_bounded() -> None:
    """A body over the limit is refused, and so are endless extensions and trailers."""
    with pytest.raises(HttpError, match="limit of 1,000 bytes") as caught:
        ChunkedBody(1000).feed(b"3e9\r\n" + b"x" * 1001)
    assert caught.value.status == 413
    for start, endless in ((b"0\r\n", b"a: b\r\n"), (b"1;", b"a")):
        body = ChunkedBody(1000)
        body.feed(start)
        for _ in range((16384 - len(start)) // len(endless)):
            assert body.feed(endless) is None
        with pytest.raises(HttpError, match="too many extensions or trailers"):
            body.feed(endless * 4)


@given(st.binary(max_size=300), st.sampled_from(["gzip", "deflate"]))
def test_compression_is_undone(body: bytes, encoding: str) -> None:
    """What is compressed comes out as it was."""
    assert decompress(compress(body, encoding), encoding, 300) == body


def test_compression_is_bounded() -> None:
    """A body that swells past the limit is refused, and not swollen further."""
    with pytest.raises(RequestRefusedError, match="limit of 10 bytes"):
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
