"""A registry of one image in the network of a node, which pulls from it as from any other.

As a program it serves an OCI archive by the pull half of the OCI distribution specification 1.1.
"""

import json
import re
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from typing_extensions import override

from support.cluster.node import Node
from support.cluster.processes import Group
from support.waiting import wait_until

PORT = 5000
"""At localhost: containerd speaks plain HTTP there."""
_LISTENS = "the registry listens"
_PATH = re.compile(r"/v2/[a-z0-9/_-]+/(manifests|blobs)/([\w.-]+|sha256:[0-9a-f]{64})")


@contextmanager
def node_registry(node: Node, group: Group, archive: Path) -> Iterator[None]:
    """Have a registry at localhost of a node, for every name and tag the image of an archive."""
    found = f"PYTHONPATH={Path(__file__).parents[2]}"
    process = group.start(
        f"{node.name}-registry",
        [
            *("nsenter", f"--target={node.pid}", "--net", "env", found),
            *(sys.executable, "-m", "support.cluster.registry", archive),
        ],
    )
    try:
        wait_until(lambda: _LISTENS in process.tail(), "the registry", [process])
        yield
    finally:
        process.kill()


class _Image:
    """The content of an archive."""

    def __init__(self, archive: Path) -> None:
        self._file = archive
        with tarfile.open(archive) as tar:
            self._members = {each.name: each for each in tar if each.isfile()}
            index = tar.extractfile("index.json")
            assert index is not None
            self.top: str = json.load(index)["manifests"][0]["digest"]

    def blob(self, digest: str) -> bytes | None:
        """Return a blob, None if the archive lacks it."""
        member = self._members.get(f"blobs/{digest.replace(':', '/')}")
        if member is None:
            return None
        with self._file.open("rb") as file:
            file.seek(member.offset_data)
            return file.read(member.size)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    image: _Image

    def do_HEAD(self) -> None:
        """Answer without the content."""
        self._answer(with_body=False)

    def do_GET(self) -> None:
        """Answer with the content."""
        self._answer(with_body=True)

    def _answer(self, *, with_body: bool) -> None:
        found = _PATH.fullmatch(self.path.partition("?")[0])
        digest, kind = ("", "") if found is None else (found[2], found[1])
        digest = digest if digest.startswith("sha256:") else self.image.top
        body = None if found is None else self.image.blob(digest)
        self.send_response(404 if body is None else 200)
        if body is not None:
            media = (
                json.loads(body)["mediaType"] if kind == "manifests" else "application/octet-stream"
            )
            self.send_header("Content-Type", media)
            self.send_header("Docker-Content-Digest", digest)
        self.send_header("Content-Length", str(len(body or b"")))
        self.end_headers()
        if with_body:
            self.wfile.write(body or b"")

    @override
    def log_message(self, *_: object) -> None:
        """Write no log."""


if __name__ == "__main__":
    _Handler.image = _Image(Path(sys.argv[1]))
    with ThreadingHTTPServer(("127.0.0.1", PORT), _Handler) as server:
        sys.stdout.write(f"{_LISTENS}\n")
        sys.stdout.flush()
        server.serve_forever()
