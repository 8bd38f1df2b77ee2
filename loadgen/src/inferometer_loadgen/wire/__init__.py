"""Client side of the Open Inference Protocol over HTTP/1.1 and gRPC.

A reply reaches the recorder on one of four routes. All four record the same query with the same
times; the two fast ones only skip work whose outcome is already known::

    socket bytes
        |
        |-- matches the template of an earlier good reply?
        |        yes: http1/reply_template, grpc/reply_template      (nothing is parsed)
        |        no:  http1/parser + head; grpc/frame_reader + engine + reply + hpack
        v
    OnReply(token, failure, body)
        |
        |-- closed loop, good reply, measured window, nothing to check?
        |        yes: ClosedLoop._on_reply sends the next query at once   (drive/closed_loop)
        |        no:  the base driver's _on_reply handles every other case (drive/driver)
        v
    Recorder

Parsed replies teach the template: the first good ones, then one in 16 that does not match. A reply
that does not match is never an error; it takes the parsed route.
"""

from inferometer_loadgen.wire.contract import (
    MESSAGE_LIMIT,
    Connection,
    ConnectionFailedError,
    EncodedRequest,
    Failure,
    FailureKind,
    OnCapacity,
    OnReply,
    PreparedRequest,
    ReplyBody,
    RequestTarget,
    no_answer_message,
)

__all__ = [
    "MESSAGE_LIMIT",
    "Connection",
    "ConnectionFailedError",
    "EncodedRequest",
    "Failure",
    "FailureKind",
    "OnCapacity",
    "OnReply",
    "PreparedRequest",
    "ReplyBody",
    "RequestTarget",
    "no_answer_message",
]
