"""Entry points of the wire layer: prepare a request and open a connection by protocol."""

from typing import assert_never

from inferometer_loadgen.wire.contract import (
    Connection,
    EncodedRequest,
    OnCapacity,
    OnReply,
    PreparedRequest,
    RequestTarget,
)
from inferometer_loadgen.wire.grpc.connection import open_grpc, prepare_grpc
from inferometer_loadgen.wire.http1.connection import open_http1, prepare_http1


def prepare(
    target: RequestTarget, encoded: EncodedRequest, *, share_body: bool = False
) -> PreparedRequest:
    """Return a request's wire bytes, so that sending it encodes nothing.

    `share_body` keeps a small body separate from its headers, so that the requests of several
    targets share one copy of it.
    """
    match target.protocol:
        case "HTTP":
            return prepare_http1(target, encoded, share_body=share_body)
        case "GRPC":
            return prepare_grpc(encoded, target.compression)
        case _:
            assert_never(target.protocol)


async def open_connection(
    target: RequestTarget,
    on_reply: OnReply,
    on_capacity: OnCapacity,
    *,
    streams: int = 1,
    connect_timeout_seconds: float = 10.0,
) -> Connection:
    """Open one connection; it is ready to send when this returns.

    ``streams`` bounds the requests outstanding on a gRPC connection; HTTP/1.1 has one at a time.
    Raises ConnectionFailedError if the server cannot be reached in time or speaks another protocol.
    """
    match target.protocol:
        case "HTTP":
            return await open_http1(target, on_reply, on_capacity, connect_timeout_seconds)
        case "GRPC":
            return await open_grpc(target, on_reply, on_capacity, streams, connect_timeout_seconds)
        case _:
            assert_never(target.protocol)
