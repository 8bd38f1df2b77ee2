"""A server outside a cluster that speaks TLS alone, to those with a client certificate.

    python -m support.secured_server ADDRESS FOLDER

It shows the certificate of model.test, and writes to FOLDER/urls.json where it serves, and to
FOLDER/headers.jsonl the headers of each call until it is killed.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from typing_extensions import override

from support.oracle_server import Listen, Oracle, serve


class _Written(list[dict[str, str]]):
    """Writes down each call's headers when they come."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self._file = file.open("a", buffering=1)

    @override
    def append(self, headers: dict[str, str]) -> None:
        self._file.write(json.dumps(headers) + "\n")


async def serve_secured(address: str, folder: Path) -> None:
    """Serve until the process is killed."""

    async def begun(http_port: int, grpc_port: int) -> None:
        urls = {"HTTP": f"https://{address}:{http_port}", "GRPC": f"grpcs://{address}:{grpc_port}"}
        # In one step: a reader of the file finds all of it.
        part = folder / "urls.part"
        part.write_text(json.dumps(urls))
        part.rename(folder / "urls.json")
        await asyncio.Event().wait()

    oracle = Oracle(asyncio.get_running_loop(), headers=_Written(folder / "headers.jsonl"))
    await serve(oracle, Listen(address, str(folder), "named", wants_client=True), begun)


def urls_of(folder: Path) -> dict[str, str]:
    """Return where it serves, by protocol."""
    urls: dict[str, str] = json.loads((folder / "urls.json").read_text())
    return urls


def headers_heard(folder: Path) -> list[dict[str, Any]]:
    """Return the headers of each call until now."""
    lines = (folder / "headers.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


if __name__ == "__main__":
    asyncio.run(serve_secured(sys.argv[1], Path(sys.argv[2])))
