"""An S3 store that logs each request and can hold a download in its middle.

Run by its path: gated_store.py HOST PORT FOLDER. It serves the files of FOLDER at /BUCKET/KEY to
every access key but INTRUDER, and prints one line of JSON per request. While FOLDER/gate exists, it
sends the first half of an object, and then a byte now and then.
"""

import json
import re
import sys
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from typing_extensions import override

GATE = "gate"
INTRUDER = "intruder"
_ACCESS_KEY = re.compile(r"Credential=([^/]+)/")
_RANGE = re.compile(r"bytes=(\d+)-")
_DRIP_SECONDS = 0.2


class GatedStore(ThreadingHTTPServer):
    """Serves the files of a folder, and logs each request."""

    def __init__(
        self, address: tuple[str, int], folder: Path, log: Callable[[dict[str, Any]], None]
    ) -> None:
        super().__init__(address, _Handler)
        self.folder = folder
        self.log = log
        self.is_public = False
        """Whether requests need no access key."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: GatedStore

    def do_HEAD(self) -> None:
        """Answer whether an object exists and may be read."""
        self._answer(with_content=False)

    def do_GET(self) -> None:
        """Send an object, from the first byte of its range on."""
        self._answer(with_content=True)

    @override
    def log_message(self, *_: Any) -> None:
        """Print nothing but the requests."""

    def _answer(self, *, with_content: bool) -> None:
        access_key = _ACCESS_KEY.search(self.headers.get("Authorization", ""))
        wanted = _RANGE.match(self.headers.get("Range", ""))
        first = int(wanted[1]) if wanted else 0
        line = {
            "method": self.command,
            "path": self.path,
            "accessKey": access_key and access_key[1],
            "firstByte": first,
        }
        self.server.log(line)
        file = self.server.folder / self.path.lstrip("/")
        is_known = access_key is not None and access_key[1] != INTRUDER
        if not (is_known or self.server.is_public):
            self._send(403, {"Content-Length": "0"})
        elif not file.is_file():
            self._send(404, {"Content-Length": "0"})
        else:
            self._send_object(file.read_bytes(), first, with_content=with_content)

    def _send_object(self, content: bytes, first: int, *, with_content: bool) -> None:
        headers = {
            "Content-Length": str(len(content) - first),
            "ETag": '"1"',
            "Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT",
        }
        if first:
            headers["Content-Range"] = f"bytes {first}-{len(content) - 1}/{len(content)}"
        self._send(206 if first else 200, headers)
        if not with_content:
            return
        sent = first
        gate = self.server.folder / GATE
        if gate.exists():
            sent = max(first, len(content) // 2)
            self.wfile.write(content[first:sent])
        while gate.exists():
            self.wfile.write(content[sent : sent + 1])
            sent += 1
            time.sleep(_DRIP_SECONDS)
        self.wfile.write(memoryview(content)[sent:])

    def _send(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()


def requests(log: str) -> list[dict[str, Any]]:
    """Return the requests in what a store printed."""
    return [json.loads(line) for line in log.splitlines() if line.startswith("{")]


def main() -> None:
    """Serve until killed."""
    host, port, folder = sys.argv[1:]
    server = GatedStore((host, int(port)), Path(folder), lambda line: _print(json.dumps(line)))
    _print("serving")
    server.serve_forever()


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
