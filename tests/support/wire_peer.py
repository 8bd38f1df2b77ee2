"""A gRPC engine under test with a server's side that is played by hand."""

from dataclasses import replace

from inferometer_loadgen.wire.contract import (
    EncodedRequest,
    Failure,
    PreparedRequest,
    ReplyBody,
    RequestTarget,
)
from inferometer_loadgen.wire.grpc.connection import prepare_grpc, request_headers
from inferometer_loadgen.wire.grpc.engine import GrpcEngine
from inferometer_loadgen.wire.grpc.hpack import encode_request
from inferometer_loadgen.wire.grpc.http2_client import ConnectionEvent
from support.wire_bytes import settings, split_frames

Answer = tuple[int, Failure | None, ReplyBody | None]
TARGET = RequestTarget("GRPC", "host", 8001, "m")


class Peer:
    """The engine, what it answered to the driver, and what it wrote."""

    def __init__(
        self,
        *limits: tuple[int, int],
        last_stream_id: int = 2**31 - 1,
        headers: tuple[tuple[str, str], ...] = (),
    ) -> None:
        self.answers: list[Answer] = []
        self.events: list[ConnectionEvent] = []
        self.engine = GrpcEngine(
            encode_request(request_headers(replace(TARGET, headers=headers))),
            lambda *answer: self.answers.append(answer),
            self.events.append,
            last_stream_id,
        )
        self.opening = self.written()
        self.engine.receive(settings(*limits))
        self.acknowledged = self.written()

    def written(self) -> bytes:
        """Take what the engine has left to be written."""
        out = b"".join(self.engine.out)
        self.engine.out.clear()
        return out

    def frames(self) -> list[tuple[int, int, int, bytes]]:
        """Take the same as frames."""
        return split_frames(self.written())

    def retired(self) -> bool:
        """Ask whether no new streams may be opened."""
        return self.engine.retired

    def finished(self) -> bool:
        """Ask whether the transport may be closed."""
        return self.engine.finished

    def send(self, payload: bytes = b"tensor", token: int = 0, *, keep: bool = True) -> None:
        """Send a request as the driver would."""
        self.engine.send(request(payload), token, keep)

    def receive(self, *data: bytes) -> list[Answer]:
        """Let the server write, and take the answers."""
        for piece in data:
            self.engine.receive(piece)
        answers = self.answers[:]
        self.answers.clear()
        return answers


def request(payload: bytes) -> PreparedRequest:
    """Prepare a request."""
    return prepare_grpc(EncodedRequest(payload))
