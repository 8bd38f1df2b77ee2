"""Locust's sockets, encrypted by `curve_keys`, and robust against messages that it cannot read."""

import sys
from types import SimpleNamespace

import zmq
from locust import runners
from locust.exception import RPCError
from locust.rpc import Message
from locust.rpc.zmqrpc import BaseSocket
from typing_extensions import override

from inferometer_loadgen.fleet.curve_keys import secure_client, secure_server


def secure_locust(token: str) -> None:
    """Let the runners that Locust creates from now on use encrypted sockets."""
    runners.rpc = SimpleNamespace(  # type: ignore[assignment,attr-defined]  # what runners use of the module
        Server=lambda host, port: SecureServer(token, host, port),
        Client=lambda host, port, identity: SecureClient(token, host, port, identity),
    )


class SecureServer(BaseSocket):
    """Socket of the master. See locust.rpc.zmqrpc.Server."""

    def __init__(self, token: str, host: str, port: int) -> None:
        super().__init__(zmq.ROUTER, self.ipv4_only(host, port))  # type: ignore[no-untyped-call]  # Locust's
        secure_server(self.socket, token)
        self.port = port
        try:
            if port:
                self.socket.bind(f"tcp://{host}:{port}")
            else:
                self.port = self.socket.bind_to_random_port(f"tcp://{host}")
        except zmq.ZMQError as error:
            raise RPCError(f"Socket bind failure: {error}") from error

    @override
    def recv_from_client(self) -> tuple[str, Message]:
        """Return the next message that can be read, and its sender's name."""
        while True:
            try:
                sender, message = super().recv_from_client()  # type: ignore[no-untyped-call]  # Locust's
            except RPCError:
                raise
            except Exception as error:  # noqa: BLE001 - Locust would receive no more
                sys.stderr.write(f"A message that cannot be read was ignored: {error!r}.\n")
                continue
            if message.node_id == sender:
                return sender, message
            sys.stderr.write(f"A message in the name of another worker was ignored: {sender}.\n")


class SecureClient(BaseSocket):
    """Socket of a worker. See locust.rpc.zmqrpc.Client."""

    def __init__(self, token: str, host: str, port: int, identity: str) -> None:
        super().__init__(zmq.DEALER, self.ipv4_only(host, port))  # type: ignore[no-untyped-call]  # Locust's
        secure_client(self.socket, token)
        self.socket.setsockopt(zmq.IDENTITY, identity.encode())
        self.socket.connect(f"tcp://{host}:{port}")
