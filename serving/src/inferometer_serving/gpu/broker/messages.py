"""Messages between the broker and its clients: a length, JSON, and at most one file descriptor."""

import json
import os
import socket
import struct
from typing import Any

_LENGTH = struct.Struct("!I")
_CREDENTIALS = struct.Struct("3i")
MOST_BYTES = 4 << 20


class MessageError(ValueError):
    """A message breaks the protocol; the text is a clause that says how."""


def send(
    connection: socket.socket, document: dict[str, Any], descriptor: int | None = None
) -> None:
    """Send a message. The descriptor stays the caller's. Raises OSError."""
    body = json.dumps(document, separators=(",", ":")).encode()
    length = _LENGTH.pack(len(body))
    if descriptor is None:
        connection.sendall(length)
    else:
        socket.send_fds(connection, [length], [descriptor])
    connection.sendall(body)


def receive(connection: socket.socket) -> tuple[dict[str, Any], int | None]:
    """Return a message and its descriptor, which is then the caller's to close.

    Raises MessageError and OSError.
    """
    head, descriptors, _, _ = socket.recv_fds(connection, _LENGTH.size, 1)
    descriptor = descriptors[0] if descriptors else None
    try:
        if descriptor is not None:
            os.set_inheritable(descriptor, False)
        return _document(connection, head), descriptor
    except BaseException:
        if descriptor is not None:
            os.close(descriptor)
        raise


def _document(connection: socket.socket, head: bytes) -> dict[str, Any]:
    """Receive what is left of a message."""
    (length,) = _LENGTH.unpack(head + _exactly(connection, _LENGTH.size - len(head)))
    if length > MOST_BYTES:
        raise MessageError(f"a message has {length:,} bytes, more than {MOST_BYTES:,}")
    try:
        document = json.loads(_exactly(connection, length))
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise MessageError("a message is not JSON") from error
    if not isinstance(document, dict):
        raise MessageError("a message is not an object")
    return document


def peer_user(connection: socket.socket) -> int:
    """Return the user of the process at the other end, as the kernel knows it."""
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(found)[1])


def _exactly(connection: socket.socket, count: int) -> bytes:
    parts = []
    while count:
        part = connection.recv(min(count, 1 << 16))
        if not part:
            raise MessageError("the connection ended within a message")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)
