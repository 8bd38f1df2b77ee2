"""Which protocol speaks to a target, and how is a connection to it opened?"""

from typing import assert_never

from inferometer_loadgen.wire.contract import (
    Connection,
    EncodedRequest,
    OnCapacity,
    OnReply,
    Prepared,
    Target,
)
from inferometer_loadgen.wire.grpc.connection import open_grpc, prepare_grpc
from inferometer_loadgen.wire.http1.connection import open_http1, prepare_http1


def prepare(target: Target, encoded: EncodedRequest, *, share_body: bool = False) -> Prepared:
    """Make a request's wire bytes once, so that sending it encodes nothing.

    `share_body` keeps a small body apart, so that several targets' requests have one in common.
    """
    match target.protocol:
        case "HTTP":
            return prepare_http1(target, encoded, share_body=share_body)
        case "GRPC":
            return prepare_grpc(encoded)
        case _:
            assert_never(target.protocol)


async def open_connection(
    target: Target,
    on_reply: OnReply,
    on_capacity: OnCapacity,
    *,
    streams: int = 1,
    connect_timeout_seconds: float = 10.0,
) -> Connection:
    """Open one connection; it is ready to send when this returns.

    ``streams`` bounds the requests outstanding on a gRPC connection; HTTP/1.1 has one at a time.
    Raises ConnectionFailedError where the server cannot be reached in time or is no such server.
    """
    match target.protocol:
        case "HTTP":
            return await open_http1(target, on_reply, on_capacity, connect_timeout_seconds)
        case "GRPC":
            return await open_grpc(target, on_reply, on_capacity, streams, connect_timeout_seconds)
        case _:
            assert_never(target.protocol)
