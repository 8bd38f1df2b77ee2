"""A proxy before the API server that answers as a failing one would.

It speaks TLS with the tests' own certificate. A rule says for each request which fault it meets.
"""

import http.client
import itertools
import json
import ssl
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from typing_extensions import override

from support.cluster.control_plane import ControlPlane
from support.loopback_tls import certificate_file, server_context
from support.watch_faults import NoWatchFault

Fault = Literal[
    "none", "busy", "broken", "full", "conflict", "refused", "lost", "cut", "killed", "hang"
]
"""busy: 429; broken: 500; full: 500, as of an etcd without space; conflict: 409; refused: 422;
lost: done, but the answer never comes; cut: neither; killed: as lost, and the client is killed
first; hang: nothing happens for a minute."""
Rule = Callable[[str, str], Fault]

_ANSWERS: dict[Fault, tuple[int, str, dict[str, str]]] = {
    "busy": (429, "TooManyRequests", {"Retry-After": "1"}),
    "broken": (500, "InternalError", {}),
    "full": (500, "etcdserver: mvcc: database space exceeded", {}),
    "conflict": (409, "Conflict", {}),
    "refused": (422, "Invalid", {}),
}
_HANG_SECONDS = 60.0
_HOP = frozenset({"connection", "transfer-encoding", "content-length", "host", "keep-alive"})


def no_fault(_method: str, _path: str) -> Fault:
    """Let every request pass."""
    return "none"


class FirstWriteOf:
    """A rule: the first write of each kind to each path meets the fault."""

    def __init__(self, fault: Fault) -> None:
        self._fault = fault
        self._lock = threading.Lock()
        self.met: set[tuple[str, str]] = set()

    def __call__(self, method: str, path: str) -> Fault:
        """Return the fault of a request."""
        key = (method, path.partition("?")[0])
        with self._lock:
            if method == "GET" or key in self.met:
                return "none"
            self.met.add(key)
        return self._fault


class KillAtWrite:
    """A rule: the client is killed at its write of this number, whose answer it never gets.

    A write that the API server refuses because the object is there (409) changes nothing, and the
    next client would begin with it again: it does not count.
    """

    def __init__(self, number: int) -> None:
        self._number = number
        self._lock = threading.Lock()
        self._writes = 0

    def __call__(self, method: str, _: str) -> Fault:
        """Return the fault of a request."""
        with self._lock:
            self._writes += method != "GET"
            return "killed" if method != "GET" and self._writes == self._number else "none"

    def postpone(self) -> None:
        """Kill the client at its next write instead."""
        with self._lock:
            self._number += 1


class FaultProxy(ThreadingHTTPServer):
    """A proxy on loopback before an API server."""

    daemon_threads = True

    def __init__(self, control_plane: ControlPlane, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.rule: Rule = no_fault
        self.watch = NoWatchFault()
        """What happens to events."""
        self.watches = itertools.count(1)
        self.opened = 0
        """How many watches were opened."""
        self.kill: Callable[[], None] = lambda: None
        """Kills the client."""
        self._target = urlsplit(control_plane.url)
        self._tls = ssl.create_default_context(cafile=control_plane.authority)
        self.authority = certificate_file(folder).read_bytes()
        self.socket = server_context(folder).wrap_socket(self.socket, server_side=True)
        self.url = f"https://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Drop all traffic from now on."""
        self.shutdown()
        self.server_close()

    def connection(self) -> http.client.HTTPSConnection:
        """Return a connection to the API server."""
        return http.client.HTTPSConnection(
            str(self._target.hostname), self._target.port, context=self._tls, timeout=600
        )


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FaultProxy

    def _pass(self) -> None:
        size = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(size) if size else None
        fault = self.server.rule(self.command, self.path)
        if fault in _ANSWERS:
            self._refuse(*_ANSWERS[fault])
        elif fault in {"cut", "hang"}:
            if fault == "hang":
                threading.Event().wait(_HANG_SECONDS)
            self.close_connection = True
        else:
            self._forward(body, lost=fault in {"lost", "killed"}, kills=fault == "killed")

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _pass  # noqa: N815 - the library's names

    def _forward(self, body: bytes | None, *, lost: bool, kills: bool) -> None:
        forwarded_headers = {
            name: text for name, text in self.headers.items() if name.lower() not in _HOP
        }
        connection = self.server.connection()
        try:
            connection.request(self.command, self.path, body=body, headers=forwarded_headers)
            answer = connection.getresponse()
            if kills and answer.status == HTTPStatus.CONFLICT:
                self._postpone_kill()
                self._answer(answer)
            elif lost:
                answer.read()
                if kills:
                    self.server.kill()
                self.close_connection = True
            else:
                self._answer(answer)
        except (OSError, http.client.HTTPException):
            self.close_connection = True
        finally:
            connection.close()

    def _postpone_kill(self) -> None:
        if isinstance(self.server.rule, KillAtWrite):
            self.server.rule.postpone()

    def _answer(self, answer: http.client.HTTPResponse) -> None:
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in _HOP:
                self.send_header(name, value)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        if "watch=true" in self.path:
            self._watch(answer)
        else:
            while chunk := answer.read1(65536):
                self._write(chunk)
        self.wfile.write(b"0\r\n\r\n")

    def _watch(self, answer: http.client.HTTPResponse) -> None:
        """Pass events on, as far as the faults of watches let them."""
        self.server.opened = number = next(self.server.watches)
        self.wfile.flush()
        rest = b""
        while chunk := answer.read1(65536):
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                fault = self.server.watch
                if not line or fault.is_deaf(number):
                    continue
                for each in fault.lines(line):
                    self._write(each + b"\n")
                if fault.ends:
                    return

    def _write(self, chunk: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
        self.wfile.flush()

    def _refuse(self, code: int, reason: str, headers: dict[str, str]) -> None:
        status = {"kind": "Status", "code": code, "reason": reason, "message": "a test's fault"}
        body = json.dumps(status).encode()
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    @override
    def log_message(self, *_: object) -> None:
        """Say nothing."""
