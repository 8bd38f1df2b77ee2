"""Calls of a server's control plane: the interface of both protocols, and how a call fails.

The message of a failed call is a clause whose subject is "it", the server.
"""

import re
from collections.abc import Mapping
from enum import Enum
from typing import Any, Protocol

from inferometer_loadgen.wire.contract import printable_line

QUOTED_CHARACTERS = 200
"""Length at which the quoted line of an answer is cut."""


class AnswerKind(Enum):
    """What an answer that is an error says."""

    ABSENT = "the server has no such path, method or model"
    DENIED = "the server rejects the credentials, or their absence"
    WANTS_TLS = "the server uses TLS on this port"
    BAD_REQUEST = "the server finds the call malformed; some answer so until they are ready"
    REJECTED = "the server rejects the call for another reason"
    NOT_READY = "the server or the model is not ready"


class CallError(Exception):
    """A call failed; the message is a clause."""


class UnreachableError(CallError):
    """No connection could be made."""


class UnintelligibleError(CallError):
    """There was a connection, but no answer in the protocol: the port may speak another one."""


class NotJsonError(CallError):
    """The server answered with success, but not with a document of the protocol."""


class UnreadableBodyError(CallError):
    """The server answered with success, but the body cannot be decoded."""


class AnswerError(CallError):
    """The server answered with an error."""

    def __init__(self, kind: AnswerKind, clause: str) -> None:
        super().__init__(clause)
        self.kind = kind


def answer_clause(status: str, call: str, words: str) -> str:
    """Return a clause with an answer's status, the call, and the first line of its words."""
    line = first_line(words)
    return f"it answered {status} to {call}" + (f": {line}" if line else "")


class RedirectedError(RuntimeError):
    """A server answered with a redirect."""


class ControlClient(Protocol):
    """Control plane of one server over one protocol.

    Calls raise CallError; `close` raises nothing.
    """

    async def server_ready(self) -> None:
        """Return once the server answers that it is ready."""

    async def model_ready(self) -> None:
        """Return once the server answers that the model is ready."""

    async def server_metadata(self) -> Any:
        """Return the server's metadata, as JSON values or a message of protobuf."""

    async def model_metadata(self) -> Any:
        """Return the model's metadata, as JSON values or a message of protobuf."""

    async def model_config(self) -> Any:
        """Return the model's configuration, as JSON values or a message of protobuf."""

    async def model_statistics(self) -> Any:
        """Return the model's statistics as JSON values."""

    async def model_measurement(self, what: str, request: Mapping[str, Any]) -> Any:
        """Return a `profile`, or timings of `layers`, as JSON values; takes as long as its runs."""

    async def trace_settings(self, change: Mapping[str, Any] | None = None) -> Any:
        """Return the model's settings of Triton's trace extension, after a change of them."""

    async def take_spans(self) -> bytes:
        """Return spans of traced requests as OTLP in JSON, which the server then forgets."""

    async def close(self) -> None:
        """Close the connection."""


_TAG = re.compile(r"<(script|style|head)\b.*?</\1\s*>|<[^>]{0,1000}>", re.DOTALL | re.IGNORECASE)


def first_line(text: str) -> str:
    """Return the first line with words in it, without a final full stop; HTML loses its tags."""
    if "<html" in text[:1000].lower() or "<!doctype" in text[:1000].lower():
        text = _TAG.sub("\n", text)
    line = next((line for line in text.splitlines() if line.strip()), "")
    return printable_line(line, QUOTED_CHARACTERS).rstrip(".")
