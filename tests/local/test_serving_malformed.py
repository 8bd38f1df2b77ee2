"""Malformed requests get a protocol error, and the server goes on."""

import gzip
import json
import socket
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest
import tritonclient.grpc as over_grpc  # type: ignore[import-untyped]  # ships no types
import tritonclient.http as over_http  # type: ignore[import-untyped]  # ships no types
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from tritonclient.utils import (  # type: ignore[import-untyped]  # ships no types
    InferenceServerException,
)

from support import onnx_models
from support.serving_process import ServerProcess, serving
from support.waiting import DEADLINE_SECONDS

MAX_BODY_BYTES = 100_000
INFER = "/v2/models/copy/infer"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """Serve a model that copies FP32 [batch, 4]; all tests of this file use the same process."""
    path = tmp_path_factory.mktemp("malformed") / "copy.onnx"
    model = onnx_models.save(onnx_models.identity(), path)
    with serving(model, "--max-body-bytes", str(MAX_BODY_BYTES)) as process:
        yield process


@dataclass(frozen=True)
class Reply:
    """An HTTP answer as it came."""

    status: int
    head: bytes
    body: bytes


def _exchange(server: ServerProcess, sent: bytes, *, half_close: bool = True) -> bytes:
    """Return all that the server sends until it closes the connection."""
    with socket.create_connection(("127.0.0.1", server.http_port), DEADLINE_SECONDS) as link:
        received = b""
        try:
            link.sendall(sent)
            if half_close:
                link.shutdown(socket.SHUT_WR)
            while piece := link.recv(65536):
                received += piece
        except (ConnectionResetError, BrokenPipeError):
            pass  # the server may hang up on nonsense
        return received


def _reply(received: bytes) -> Reply:
    head, _, rest = received.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 "), received[:200]
    (size,) = (
        int(line.partition(b":")[2])
        for line in head.split(b"\r\n")
        if line.startswith(b"Content-Length:")
    )
    return Reply(int(head[9:12]), head, rest[:size])


def _post(target: str, body: bytes, *headers: str) -> bytes:
    lines = [f"POST {target} HTTP/1.1", "Host: x", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


def _closing(server: ServerProcess, body: bytes, *headers: str) -> bytes:
    """Return the answer to an inference request with `Connection: close`."""
    return _exchange(server, _post(INFER, body, *headers, "Connection: close"), half_close=False)


def _tensor(rows: int = 1) -> over_http.InferInput:
    array = np.arange(rows * 4, dtype=np.float32).reshape(rows, 4)
    return over_http.InferInput("x", [rows, 4], "FP32").set_data_from_numpy(array)


def _check_healthy(server: ServerProcess) -> None:
    with over_http.InferenceServerClient(server.http_url) as client:
        found = client.infer("copy", [_tensor()]).as_numpy("y")
    np.testing.assert_array_equal(found, [[0, 1, 2, 3]])


def _document(**members: object) -> bytes:
    tensor: dict[str, object] = {"name": "x", "datatype": "FP32", "shape": [1, 4]}
    tensor.update({"data": [1, 2, 3, 4], **members})
    return json.dumps(
        {"inputs": [{key: each for key, each in tensor.items() if each != "-"}]}
    ).encode()


HEADS = {
    "no HTTP": (b"hello\r\n\r\n", 400),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
    "HTTP/3.7": (b"GET /v2 HTTP/3.7\r\nHost: x\r\n\r\n", 400),
    "no host": (b"GET /v2 HTTP/1.1\r\n\r\n", 400),
    "two hosts": (b"GET /v2 HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
    "bad header": (b"GET /v2 HTTP/1.1\r\nHost: x\r\nno colon\r\n\r\n", 400),
    "space before colon": (b"GET /v2 HTTP/1.1\r\nHost : x\r\n\r\n", 400),
    "folded header": (b"GET /v2 HTTP/1.1\r\nHost: x\r\na: b\r\n c\r\n\r\n", 400),
    "control character": (b"GET /v2 HTTP/1.1\r\nHost: x\r\na: b\x00c\r\n\r\n", 400),
    "negative length": (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", 400),
    "length in words": (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: ten\r\n\r\n", 400),
    "line feed alone": (b"GET /v2 HTTP/1.1\nHost: x\r\n\r\n", 400),
    "hidden request": (
        b"POST / HTTP/1.1\r\nHost: x\n\nGET /v2 HTTP/1.1\r\nHost: x\r\n\r\n",
        400,
    ),
    "HTTP/2 request line": (b"GET /v2 HTTP/2.0\r\nHost: x\r\n\r\n", 400),
    "two lengths": (
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        400,
    ),
    "length and chunks": (
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        400,
    ),
    "unknown transfer coding": (
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: zip\r\n\r\n",
        501,
    ),
    "unknown content coding": (
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Encoding: br\r\nContent-Length: 0\r\n\r\n",
        415,
    ),
    "endless head": (b"GET /v2 HTTP/1.1\r\nHost: " + b"x" * 20000, 431),
    "large head": (b"GET /v2 HTTP/1.1\r\nHost: x\r\na: " + b"x" * 20000 + b"\r\n\r\n", 431),
    "announced too large": (
        f"POST {INFER} HTTP/1.1\r\nHost: x\r\nContent-Length: 100001\r\n\r\n".encode(),
        413,
    ),
    "unknown path": (b"GET /nope HTTP/1.1\r\nHost: x\r\n\r\n", 404),
    "wrong method": (b"DELETE /v2 HTTP/1.1\r\nHost: x\r\n\r\n", 405),
    "GET of infer": (f"GET {INFER} HTTP/1.1\r\nHost: x\r\n\r\n".encode(), 405),
    "bad chunk size": (
        f"POST {INFER} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n".encode(),
        400,
    ),
    "bad chunk end": (
        f"POST {INFER} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        "1\r\nabc\r\n".encode(),
        400,
    ),
    "chunks too large": (
        f"POST {INFER} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        "fffffff\r\n".encode()
        + b"x" * (MAX_BODY_BYTES + 1),
        413,
    ),
}


@pytest.mark.parametrize("case", HEADS)
def test_malformed_http_is_refused(server: ServerProcess, case: str) -> None:
    """What is not HTTP/1.1, ambiguous or too large gets its status and a sentence in JSON."""
    sent, status = HEADS[case]
    reply = _reply(_exchange(server, sent))
    assert reply.status == status
    assert json.loads(reply.body)["error"].endswith(".")
    _check_healthy(server)


BODIES = {
    "empty": b"",
    "no JSON": b"hello",
    "cut short": b'{"inputs":[',
    "not UTF-8": b'{"id":"\xff"}',
    "a list": b"[]",
    "a number": b"7",
    "deep": b"[" * 5000 + b"]" * 5000,
    "no inputs": b"{}",
    "inputs no list": b'{"inputs":{}}',
    "input no object": b'{"inputs":[7]}',
    "id no string": b'{"id":7,"inputs":[]}',
    "outputs no list": b'{"outputs":7,' + _document()[1:],
    "output no object": b'{"outputs":[7],' + _document()[1:],
    "output unknown": b'{"outputs":[{"name":"z"}],' + _document()[1:],
    "output twice": b'{"outputs":[{"name":"y"},{"name":"y"}],' + _document()[1:],
    "parameters no object": b'{"parameters":[],' + _document()[1:],
    "flag no boolean": b'{"parameters":{"binary_data_output":1},' + _document()[1:],
    "no name": _document(name="-"),
    "unknown name": _document(name="z"),
    "no datatype": _document(datatype="-"),
    "unknown datatype": _document(datatype="FP99"),
    "no shape": _document(shape="-"),
    "negative shape": _document(shape=[-1, 4]),
    "fractional shape": _document(shape=[1.0, 4]),
    "boolean shape": _document(shape=[True, 4]),
    "huge shape": _document(shape=[2**62, 4]),
    "rank": _document(shape=[4]),
    "misfit": _document(shape=[2, 2]),
    "no data": _document(data="-"),
    "too few": _document(data=[1, 2, 3]),
    "too many": _document(data=[1, 2, 3, 4, 5]),
    "text": _document(data=["1", "2", "3", "4"]),
    "booleans": _document(data=[True] * 4),
    "nulls": _document(data=[None] * 4),
    "too large a number": _document(data=[1e300, 0, 0, 0]),
    "ragged": _document(data=[[1, 2, 3], [4]]),
    "objects": _document(data=[{}] * 4),
    "data no list": _document(data=7),
    "shared memory": _document(data="-", parameters={"shared_memory_region": "a"}),
    "size without data": _document(data="-", parameters={"binary_data_size": 16}),
    "size negative": _document(data="-", parameters={"binary_data_size": -1}),
    "size and data": _document(parameters={"binary_data_size": 16}),
}


@pytest.mark.parametrize("case", BODIES)
def test_malformed_requests_are_refused(server: ServerProcess, case: str) -> None:
    """A request that is not the protocol's, or misfits the model, gets 400 and a sentence."""
    reply = _reply(_closing(server, BODIES[case]))
    assert reply.status == 400
    assert json.loads(reply.body)["error"].endswith(".")
    _check_healthy(server)


@pytest.mark.parametrize(
    ("json_bytes", "binary"),
    [("99999", b""), ("x", b""), ("whole", b"123"), ("whole", b"1" * 17), ("3", b"1" * 16)],
)
def test_binary_data_that_does_not_fit_is_refused(
    server: ServerProcess, json_bytes: str, binary: bytes
) -> None:
    """An Inference-Header-Content-Length or a binary_data_size that misfits the body gets 400."""
    document = _document(data="-", parameters={"binary_data_size": 16})
    size = str(len(document)) if json_bytes == "whole" else json_bytes
    header = f"Inference-Header-Content-Length: {size}"
    assert _reply(_closing(server, document + binary, header)).status == 400
    _check_healthy(server)


def test_damaged_compression_is_refused(server: ServerProcess) -> None:
    """A body that is not what its Content-Encoding says gets 400; one that swells too far, 413."""
    whole = gzip.compress(_document())
    for body in (b"no gzip", whole[:-5], whole + b"x"):
        assert _reply(_closing(server, body, "Content-Encoding: gzip")).status == 400
    bomb = zlib.compress(b" " * (MAX_BODY_BYTES + 1))
    assert _reply(_closing(server, bomb, "Content-Encoding: deflate")).status == 413
    _check_healthy(server)


def test_body_limit(server: ServerProcess) -> None:
    """A body over --max-body-bytes is refused over both protocols, and the next one served."""
    rows = MAX_BODY_BYTES // 16 + 1
    with (
        over_http.InferenceServerClient(server.http_url) as client,
        pytest.raises(InferenceServerException, match="--max-body-bytes") as caught,
    ):
        client.infer("copy", [_tensor(rows)])
    assert caught.value.status() == "413"
    array = np.zeros((rows, 4), np.float32)
    tensor = over_grpc.InferInput("x", array.shape, "FP32").set_data_from_numpy(array)
    with (
        over_grpc.InferenceServerClient(server.grpc_url) as client,
        pytest.raises(InferenceServerException) as refused,
    ):
        client.infer("copy", [tensor])
    assert refused.value.status() == "StatusCode.RESOURCE_EXHAUSTED"
    _check_healthy(server)


def test_expect_continue(server: ServerProcess) -> None:
    """A client that expects 100 Continue gets it before it sends, or the refusal instead."""
    body = _document()
    with socket.create_connection(("127.0.0.1", server.http_port), DEADLINE_SECONDS) as link:
        link.sendall(_post(INFER, body, "Expect: 100-continue")[: -len(body)])
        assert link.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        link.sendall(body)
        assert _reply(link.recv(65536)).status == 200
    too_large = (
        f"POST {INFER} HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 999999"
    )
    assert _reply(_exchange(server, f"{too_large}\r\n\r\n".encode())).status == 413


def test_chunked_requests_are_served(server: ServerProcess) -> None:
    """A chunked request is served however its chunks are cut, with extensions and trailers."""
    body, close = _document(), "Connection: close"
    head = _post(INFER, b"", "Transfer-Encoding: chunked", close).replace(
        b"Content-Length: 0\r\n", b""
    )
    for step in (1, 7, len(body)):
        chunks = [body[at : at + step] for at in range(0, len(body), step)]
        sent = head + b"".join(b"%x;a=b\r\n%b\r\n" % (len(each), each) for each in chunks)
        received = _exchange(server, sent + b"0\r\nTrailer: x\r\n\r\n", half_close=False)
        assert json.loads(_reply(received).body)["outputs"][0]["data"] == [1.0, 2.0, 3.0, 4.0]


def test_pipelined_requests_are_answered_in_order(server: ServerProcess) -> None:
    """Requests sent at once, whole or in pieces, are answered one after another."""
    requests = [b'{"id":"%d",' % number + _document(data=[number] * 4)[1:] for number in range(20)]
    sent = b"\r\n".join(_post(INFER, each) for each in requests[:-1])
    sent += _post(INFER, requests[-1], "Connection: close")
    with socket.create_connection(("127.0.0.1", server.http_port), DEADLINE_SECONDS) as link:
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for at in range(0, len(sent), 777):
            link.sendall(sent[at : at + 777])
        received = b""
        while piece := link.recv(65536):
            received += piece
    for number in range(20):
        reply = _reply(received)
        received = received[len(reply.head) + 4 + len(reply.body) :]
        answer = json.loads(reply.body)
        assert answer["id"] == str(number)
        assert answer["outputs"][0]["data"] == [float(number)] * 4
    assert received == b""


def test_many_pipelined_chunked_requests_are_answered(server: ServerProcess) -> None:
    """As many chunked requests as fit into one read are answered, one after another."""
    head = b"POST /v2/models/other/infer HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
    one = head + b"\r\n0\r\n\r\n"
    last = head + b"Connection: close\r\n\r\n0\r\n\r\n"
    received = _exchange(server, one * 600 + last, half_close=False)
    assert received.count(b"HTTP/1.1 404 ") == 601
    _check_healthy(server)


@pytest.mark.parametrize(
    ("target", "status"),
    [("/v2/health/live", b"200"), ("/v2/models/m/infer", b"405"), ("/nowhere", b"404")],
)
def test_head_is_answered_without_a_body(server: ServerProcess, target: str, status: bytes) -> None:
    """HEAD gets the head that GET would get and no body, so that the connection goes on."""
    heads = f"HEAD {target} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    last = b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    first, second, rest = _exchange(server, heads + last).split(b"\r\n\r\n")
    assert first.split()[1] == status
    assert b"Content-Length: 0" not in first
    assert second.startswith(b"HTTP/1.1 200")
    assert json.loads(rest) == {"live": True}


def test_old_clients_are_served(server: ServerProcess) -> None:
    """An HTTP/1.0 client gets its answer and the connection's end."""
    received = _exchange(server, b"GET /v2/health/live HTTP/1.0\r\n\r\n", half_close=False)
    assert _reply(received).body == b'{"live":true}'
    assert b"Connection: close" in received


def test_nan_is_refused_in_json_only(server: ServerProcess) -> None:
    """An output with NaN comes in binary form; JSON has no word for it, and the answer says so."""
    array = np.full((1, 4), np.nan, np.float32)
    tensor = over_http.InferInput("x", [1, 4], "FP32").set_data_from_numpy(array)
    with over_http.InferenceServerClient(server.http_url) as client:
        assert np.isnan(client.infer("copy", [tensor]).as_numpy("y")).all()
        with pytest.raises(InferenceServerException, match="JSON has no word"):
            client.infer(
                "copy", [tensor], outputs=[over_http.InferRequestedOutput("y", binary_data=False)]
            )


def test_a_raw_binary_request_is_served(server: ServerProcess) -> None:
    """With Inference-Header-Content-Length 0 the body is the one input's bytes, of any batch."""
    array = np.arange(8, dtype=np.float32)
    header = "Inference-Header-Content-Length: 0"
    reply = _reply(_closing(server, array.tobytes(), header))
    assert reply.status == 200
    assert reply.body.endswith(array.tobytes())
    assert b'"shape":[2,4]' in reply.body
    assert _reply(_closing(server, b"123", header)).status == 400


@seed(20260101)
@settings(max_examples=150, suppress_health_check=list(HealthCheck), database=None)
@given(data=st.data())
def test_damaged_requests_never_take_the_server_down(
    server: ServerProcess, data: st.DataObject
) -> None:
    """However a good request is damaged, the answer is a status or a closed connection."""
    binary = _document(data="-", parameters={"binary_data_size": 16}) + b"\0" * 16
    good = data.draw(
        st.sampled_from(
            [
                _post(INFER, _document()),
                _post(INFER, binary, f"Inference-Header-Content-Length: {len(binary) - 16}"),
                b"GET /v2/models/copy HTTP/1.1\r\nHost: x\r\n\r\n",
            ]
        )
    )
    damaged = bytearray(good)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(damaged) - 1))
        match data.draw(st.sampled_from(["change", "drop", "add", "cut"])):
            case "change":
                damaged[at] = data.draw(st.integers(0, 255))
            case "drop":
                del damaged[at : at + data.draw(st.integers(1, 9))]
            case "add":
                damaged[at:at] = data.draw(st.binary(max_size=9))
            case _:
                del damaged[at + 1 :]
        if not damaged:
            break
    received = _exchange(server, bytes(damaged))
    assert received == b"" or received.startswith(b"HTTP/1.1 ")
    if received:
        assert 200 <= int(received[9:12]) < 505
        assert not received.startswith(b"HTTP/1.1 500")


def test_the_server_is_still_healthy(server: ServerProcess) -> None:
    """After all of the above the same process serves, and has logged no fault of its own."""
    _check_healthy(server)
    assert "level=error" not in server.errors()
    assert "Traceback" not in server.errors()
