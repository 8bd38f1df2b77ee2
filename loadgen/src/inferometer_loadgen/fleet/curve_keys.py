"""Keys of a fleet's sockets, which come from its token.

libzmq ends the handshake (CurveZMQ) of a peer that does not know the token, so that no byte of it
reaches Locust. The server's public key is as secret as the token: it is sent in no message.
"""

import hashlib
from typing import Any

import zmq
from zmq.utils import z85

from inferometer_loadgen.fleet.messages import LONGEST_LINE_BYTES

_LONGEST_MESSAGE_BYTES = LONGEST_LINE_BYTES + 2**20
"""A line, and what Locust adds."""


def secure_server(socket: "zmq.Socket[Any]", token: str) -> None:
    """Let a socket that is not bound yet serve only peers that know the token."""
    _, secret = _server_keys(token)
    socket.setsockopt(zmq.CURVE_SERVER, 1)
    socket.setsockopt(zmq.CURVE_SECRETKEY, secret)
    socket.setsockopt(zmq.MAXMSGSIZE, _LONGEST_MESSAGE_BYTES)


def secure_client(socket: "zmq.Socket[Any]", token: str) -> None:
    """Let a socket that is not connected yet speak only to the server of this token."""
    server, _ = _server_keys(token)
    public, secret = zmq.curve_keypair()
    socket.setsockopt(zmq.CURVE_SERVERKEY, server)
    socket.setsockopt(zmq.CURVE_PUBLICKEY, public)
    socket.setsockopt(zmq.CURVE_SECRETKEY, secret)
    socket.setsockopt(zmq.MAXMSGSIZE, _LONGEST_MESSAGE_BYTES)


def _server_keys(token: str) -> tuple[bytes, bytes]:
    """Return the public and the secret key of a fleet's master, in Z85."""
    secret = z85.encode(hashlib.sha256(b"inferometer fleet " + token.encode()).digest())
    return zmq.curve_public(secret), secret
