"""Request bytes and the replies that they must get."""

import socket

from bench.model_files import Measurand, Protocol
from bench.processes import BenchError

from inferometer_loadgen.requests.encode import Encoder
from inferometer_loadgen.requests.replies import Expectation
from inferometer_loadgen.wire import EncodedRequest, RequestTarget
from inferometer_loadgen.wire.connection import prepare


def request_of(measurand: Measurand, protocol: Protocol) -> EncodedRequest:
    """Return the model's one request: binary tensors both ways."""
    encoder = Encoder(
        protocol=protocol,
        model_name=measurand.name,
        model_version="",
        inputs=[measurand.input],
        outputs=[measurand.output],
        binary=True,
    )
    return encoder.encode({measurand.input.name: measurand.array()})


def target_of(measurand: Measurand, protocol: Protocol, port: int) -> RequestTarget:
    """Return where to send it."""
    return RequestTarget(protocol, "127.0.0.1", port, measurand.name)


def expectation(measurand: Measurand, protocol: Protocol) -> Expectation:
    """Return what the outputs of a reply must be."""
    return Expectation(protocol, [measurand.output], batch_size=measurand.shape[0])


class HttpClient:
    """The simplest client that is right: one kept connection, one request, the whole reply."""

    def __init__(self, measurand: Measurand, port: int) -> None:
        target = target_of(measurand, "HTTP", port)
        self._request = b"".join(prepare(target, request_of(measurand, "HTTP")).pieces)
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def infer(self) -> bytes:
        """Return the body of the reply to the request. Raises BenchError unless it is 200."""
        self._socket.sendall(self._request)
        head, separator, body = b"", b"", b""
        while not separator:
            head += self._receive()
            head, separator, body = head.partition(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            raise BenchError(f"The server answered {head[:200]!r}.")
        length = _content_length(head)
        pieces = [body]
        missing = length - len(body)
        while missing > 0:
            pieces.append(self._receive())
            missing -= len(pieces[-1])
        return b"".join(pieces)

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def _receive(self) -> bytes:
        piece = self._socket.recv(65536)
        if not piece:
            raise BenchError("The server closed the connection.")
        return piece


def _content_length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    raise BenchError(f"The server's reply has no Content-Length: {head[:200]!r}.")
