"""The oracle's HTTP: as little of it as a load generator needs."""

import asyncio
import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any, cast

from typing_extensions import override

MODEL = "oracle"
WIDTH = 4
"""Numbers of a sample."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What an inference requests."""

    samples: int
    connection: int
    number: int
    """The first of its numbers, by which a test identifies it."""


Take = Callable[[Asked, Callable[[], None]], None]
"""Takes what an inference requests and what sends its reply."""

DOCUMENTS: dict[str, dict[str, Any]] = {
    "/v2": {"name": "oracle", "version": "1", "extensions": ["binary_tensor_data"]},
    "/v2/health/ready": {},
    "/v2/health/live": {},
    f"/v2/models/{MODEL}/ready": {},
    f"/v2/models/{MODEL}/config": {
        "name": MODEL,
        "platform": "oracle",
        "max_batch_size": 0,
        "input": [{"name": "x", "data_type": "TYPE_FP32", "dims": [-1, WIDTH]}],
        "output": [{"name": "y", "data_type": "TYPE_FP32", "dims": [-1, WIDTH]}],
    },
    f"/v2/models/{MODEL}/stats": {"model_stats": []},
    f"/v2/models/{MODEL}": {
        "name": MODEL,
        "versions": ["1"],
        "platform": "oracle",
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, WIDTH]}],
        "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1, WIDTH]}],
    },
}
"""What is answered to GET."""

_INFER = f"/v2/models/{MODEL}/infer"
_connections = count()


class HttpFront(asyncio.Protocol):
    """One connection: requests with a Content-Length, one after the other."""

    def __init__(self, take: Take) -> None:
        self._take = take
        self._number = next(_connections)
        self._buffer = b""
        self._transport: asyncio.Transport

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    @override
    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            first, *lines = self._buffer[:end].decode("latin-1").split("\r\n")
            fields = {name.lower(): value for name, _, value in (x.partition(": ") for x in lines)}
            whole = end + 4 + int(fields.get("content-length", "0"))
            if len(self._buffer) < whole:
                return
            body, self._buffer = self._buffer[end + 4 : whole], self._buffer[whole:]
            self._answer(first.split(" ")[1], fields, body)

    def _answer(self, path: str, fields: dict[str, str], body: bytes) -> None:
        if path == _INFER:
            length = int(fields.get("inference-header-content-length", len(body)))
            samples = json.loads(body[:length])["inputs"][0]["shape"][0]
            reply = inference_reply(samples)
            asked = Asked(samples, self._number, first_number(body[length:]))
            self._take(asked, lambda: self._write(reply))
            return
        document = DOCUMENTS.get(path)
        status = b"404 Not Found" if document is None else b"200 OK"
        told = json.dumps({"error": "no such page"} if document is None else document).encode()
        self._write(b"HTTP/1.1 %b\r\nContent-Length: %d\r\n\r\n%b" % (status, len(told), told))

    def _write(self, reply: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(reply)


def first_number(tensor: bytes) -> int:
    """Return the first number of a binary tensor, without its fraction; -1 where there is none."""
    return int(struct.unpack_from("<f", tensor)[0]) if len(tensor) >= 4 else -1


def inference_reply(samples: int) -> bytes:
    """Return a reply of zeros with a binary tensor."""
    tensor = bytes(4 * samples * WIDTH)
    output = {
        "name": "y",
        "datatype": "FP32",
        "shape": [samples, WIDTH],
        "parameters": {"binary_data_size": len(tensor)},
    }
    head = json.dumps({"model_name": MODEL, "outputs": [output]}).encode()
    return b"HTTP/1.1 200 OK\r\n%bContent-Length: %d\r\n\r\n%b%b" % (
        b"Inference-Header-Content-Length: %d\r\n" % len(head),
        len(head) + len(tensor),
        head,
        tensor,
    )
