"""The oracle's HTTP: as little of it as a load generator needs."""

import asyncio
import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from itertools import count
from typing import Any, Protocol, cast

from typing_extensions import override

from support.oracle_script import Fault, Script

MODEL = "oracle"
WIDTH = 4
"""Numbers of a sample."""


@dataclass(frozen=True, slots=True)
class OracleRequest:
    """What an inference requests."""

    samples: int
    connection: int
    number: int
    """The first of its numbers, by which a test identifies it."""


Reply = Callable[[Fault | None], None]
"""Sends the reply, with a fault if there is one."""


class Behaviour(Protocol):
    """What both protocols ask how to answer."""

    script: Script
    headers: list[dict[str, str]]
    """Of every call, their names in lower case."""

    def take(self, request: OracleRequest, reply: Reply) -> None:
        """Write down an inference, and call `reply` when the script says so."""

    def parameters(self) -> dict[str, str] | None:
        """Return the parameters of the model's configuration, None if there are none."""


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

_METADATA = f"/v2/models/{MODEL}"
_CONFIG = f"{_METADATA}/config"
_INFER = f"{_METADATA}/infer"
_READY = ("/v2/health/ready", f"{_METADATA}/ready")
_connections = count()


class HttpFront(asyncio.Protocol):
    """One connection: requests with a Content-Length, one after the other."""

    def __init__(self, behaviour: Behaviour, connections: "set[asyncio.Transport]") -> None:
        self._behaviour = behaviour
        self._connections = connections
        self._number = next(_connections)
        self._buffer = b""
        self._transport: asyncio.Transport

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._connections.add(self._transport)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.discard(self._transport)

    @override
    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self._buffer[:1].isalpha():  # the first byte of TLS, say
            self._write(_head(400, 0))
            self._transport.close()
            return
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            first, *lines = self._buffer[:end].decode("latin-1").split("\r\n")
            fields = {name.lower(): value for name, _, value in (x.partition(": ") for x in lines)}
            whole = end + 4 + int(fields.get("content-length", "0"))
            if len(self._buffer) < whole:
                return
            body, self._buffer = self._buffer[end + 4 : whole], self._buffer[whole:]
            self._behaviour.headers.append(fields)
            self._answer(first.split(" ")[1], fields, body)

    def _answer(self, path: str, fields: dict[str, str], body: bytes) -> None:
        script = self._behaviour.script
        if path in script.redirects:
            status, where = script.redirects[path]
            self._write(_head(status, 0, f"Location: {where}\r\n"))
        elif path == _INFER:
            length = int(fields.get("inference-header-content-length", len(body)))
            samples = json.loads(body[:length])["inputs"][0]["shape"][0]
            reply = inference_reply(samples)
            request = OracleRequest(samples, self._number, first_number(body[length:]))
            self._behaviour.take(
                request,
                lambda fault: self._write(reply) if fault is None else self._fail(fault, samples),
            )
        elif path in _READY and not script.ready:
            self._write(_head(503, 0))
        elif path in script.documents:
            self._write_document(200, script.documents[path].encode())
        elif (document := self._document(path)) is None:
            self._write_document(404, b'{"error": "no such page"}')
        else:
            self._write_document(200, json.dumps(document).encode())

    def _document(self, path: str) -> dict[str, Any] | None:
        found = DOCUMENTS.get(path)
        if path == _METADATA and found and self._behaviour.script.inputs is not None:
            return {**found, "inputs": self._behaviour.script.inputs}
        if path == _CONFIG and found and (parameters := self._behaviour.parameters()) is not None:
            strings = {key: {"string_value": value} for key, value in parameters.items()}
            return {**found, "parameters": strings}
        return found

    def _fail(self, fault: Fault, samples: int) -> None:
        if fault == "status":
            self._write_document(500, b'{"error": "scripted failure"}')
        elif fault == "cut":
            self._transport.abort()
        elif fault == "garbage":
            self._write(b"What is this?\r\n\r\n")
            self._transport.close()
        elif fault != "silence":
            self._write(inference_reply(samples, fault))

    def _write_document(self, status: int, text: bytes) -> None:
        self._write(_head(status, len(text), "Content-Type: application/json\r\n") + text)

    def _write(self, reply: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(reply)


def _head(status: int, length: int, fields: str = "") -> bytes:
    phrase = HTTPStatus(status).phrase
    return f"HTTP/1.1 {status} {phrase}\r\n{fields}Content-Length: {length}\r\n\r\n".encode()


def first_number(tensor: bytes) -> int:
    """Return the first number of a binary tensor, without its fraction; -1 if there is none."""
    return int(struct.unpack_from("<f", tensor)[0]) if len(tensor) >= 4 else -1


def output_of(samples: int, fault: Fault | None = None) -> tuple[str, str, list[int]]:
    """Return the name, type and shape of the output, one of them wrong with a fault of its own."""
    name = "z" if fault == "names" else "y"
    datatype = "INT32" if fault == "types" else "FP32"
    return name, datatype, [samples * WIDTH] if fault == "shapes" else [samples, WIDTH]


def inference_reply(samples: int, fault: Fault | None = None) -> bytes:
    """Return a reply of zeros with a binary tensor, or in JSON."""
    tensor = b"" if fault == "json" else bytes(4 * samples * WIDTH)
    name, datatype, shape = output_of(samples, fault)
    output: dict[str, Any] = {"name": name, "datatype": datatype, "shape": shape}
    if fault == "json":
        output["data"] = [0.0] * (samples * WIDTH)
    else:
        output["parameters"] = {"binary_data_size": len(tensor)}
    head = json.dumps({"model_name": MODEL, "outputs": [output]}).encode()
    return b"HTTP/1.1 200 OK\r\n%bContent-Length: %d\r\n\r\n%b%b" % (
        b"" if fault == "json" else b"Inference-Header-Content-Length: %d\r\n" % len(head),
        len(head) + len(tensor),
        head,
        tensor,
    )
