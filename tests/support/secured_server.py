"""A server outside a cluster that speaks TLS alone, to those with a client certificate.

    python -m support.secured_server ADDRESS FOLDER

It shows the certificate of model.test, and writes to FOLDER/urls.json where it serves, and to
FOLDER/headers.jsonl the headers of each call until it is killed.
"""

import json
import sys
import threading
from pathlib import Path
from typing import Any

from typing_extensions import override

from support.scripted_server import ScriptedServer, serving
from support.tls_party import server_side


class _Written(list[dict[str, str]]):
    """Writes down each call's headers when they come."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self._file = file.open("a", buffering=1)

    @override
    def append(self, headers: dict[str, str]) -> None:
        self._file.write(json.dumps(headers) + "\n")


def serve(address: str, folder: Path) -> None:
    """Serve until the process is killed."""
    tls = server_side(folder, "named", wants_client=True)
    with serving(
        ScriptedServer(host=address, tls=tls, headers=_Written(folder / "headers.jsonl"))
    ) as it:
        urls = {protocol: it.url(protocol) for protocol in ("HTTP", "GRPC")}
        # In one step: who waits for the file reads the whole of it.
        begun = folder / "urls.begun"
        begun.write_text(json.dumps(urls))
        begun.rename(folder / "urls.json")
        threading.Event().wait()


def urls_of(folder: Path) -> dict[str, str]:
    """Return where it serves, by protocol."""
    urls: dict[str, str] = json.loads((folder / "urls.json").read_text())
    return urls


def headers_heard(folder: Path) -> list[dict[str, Any]]:
    """Return the headers of each call until now."""
    lines = (folder / "headers.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


if __name__ == "__main__":
    serve(sys.argv[1], Path(sys.argv[2]))
