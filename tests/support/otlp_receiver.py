"""A receiver of OTLP/HTTP on loopback that keeps what it is sent."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from typing_extensions import override


@dataclass(frozen=True, slots=True)
class Message:
    """One request."""

    path: str
    content_type: str
    body: bytes


@dataclass(frozen=True, slots=True)
class OtlpReceiver:
    """A receiver that runs."""

    port: int
    messages: list[Message]


@contextmanager
def otlp_receiver() -> Iterator[OtlpReceiver]:
    """Answer every message with success."""
    messages: list[Message] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            messages.append(Message(self.path, self.headers["Content-Type"], body))
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        @override
        def log_message(self, *_: object) -> None:
            """Write nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield OtlpReceiver(server.server_port, messages)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
