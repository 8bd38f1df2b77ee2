"""How do requests reach a server, and what does its answer amount to?"""

from inferometer_loadgen.wire.contract import (
    MESSAGE_LIMIT,
    Connection,
    ConnectionFailedError,
    EncodedRequest,
    Failure,
    FailureKind,
    OnCapacity,
    OnReply,
    Prepared,
    Reply,
    Target,
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
    "Prepared",
    "Reply",
    "Target",
    "no_answer_message",
]
