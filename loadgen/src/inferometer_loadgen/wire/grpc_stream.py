"""Is the one message of a gRPC reply complete?"""

from inferometer_loadgen.wire.contract import (
    KEPT_BYTES,
    Failure,
    FailureKind,
    Reply,
)

_PREFIX_BYTES = 5
_COMPRESSED = Failure(
    FailureKind.PROTOCOL, "The reply's message is compressed, which was not asked for."
)
_TOO_LONG = Failure(
    FailureKind.PROTOCOL, "The reply holds more than its one message: bytes follow its end."
)


class ReplyStream:
    """One outstanding request and what has come of its reply.

    ``keep`` tells whether its message is to be kept. ``opened`` is true once the reply's headers
    have come, ``left`` the bytes of the message that are still to come: -1 before its length is
    known.
    """

    __slots__ = ("_parts", "_prefix", "keep", "left", "opened", "token")

    def __init__(self, token: int, keep: bool) -> None:  # noqa: FBT001 - by position: made once per request
        self.token = token
        self.keep = keep
        self.opened = False
        self.left = -1

    def open(self) -> None:
        """Take in that the reply's headers came, and that they were good."""
        self.opened = True
        self._prefix = b""
        self._parts: list[bytes] = []

    def take(self, data: bytes, start: int, end: int) -> Failure | None:
        """Take a part of the body, in whatever pieces it comes."""
        left = self.left
        if left < 0:
            if self._prefix:
                data = self._prefix + data[start:end]
                start, end = 0, len(data)
            if end - start < _PREFIX_BYTES:
                self._prefix = data[start:end]
                return None
            if data[start]:
                return _COMPRESSED
            left = int.from_bytes(data[start + 1 : start + 5], "big")
            self.keep &= left <= KEPT_BYTES
            start += _PREFIX_BYTES
        left -= end - start
        if left < 0:
            return _TOO_LONG
        self.left = left
        if self.keep:
            self._parts.append(data[start:end])
        return None

    def came(self) -> str:
        """Tell what has come of it, as a clause; empty where nothing did."""
        if not self.opened:
            return ""
        if self.left < 0:
            return "only its headers had come"
        return f"its message lacked {self.left} bytes" if self.left else "its trailers were missing"

    def missing(self) -> Failure | None:
        """Say what the message lacks, of a reply that ends here with a good status."""
        if self.left == 0:
            return None
        what = "before its message" if self.left < 0 else f"{self.left} bytes before its message's"
        return Failure(FailureKind.PROTOCOL, f"The reply ended {what} end, with grpc-status 0.")

    def reply(self) -> Reply | None:
        """Join the message, if it was to be kept."""
        return Reply(b"".join(self._parts), None) if self.keep else None
