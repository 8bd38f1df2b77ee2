"""The errors of the server and of its requests."""

from enum import Enum


class StartRefusedError(ValueError):
    """The server cannot run as requested."""


class RefusalReason(Enum):
    """Why a request was not answered, whatever the protocol."""

    INVALID = "invalid"
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not found"
    TOO_LARGE = "too large"
    UNSUPPORTED = "unsupported"
    UNAVAILABLE = "unavailable"
    FAILED = "failed"


class RequestRefusedError(Exception):
    """One request cannot be answered; the message is the sentence that its client gets."""

    def __init__(self, refusal: RefusalReason, sentence: str) -> None:
        super().__init__(sentence)
        self.refusal = refusal


def invalid(sentence: str) -> RequestRefusedError:
    """Return the error for a request that is itself at fault."""
    return RequestRefusedError(RefusalReason.INVALID, sentence)
