"""The server that one would write first: an ASGI application under uvicorn.

It serves the tiny model, over JSON and binary tensors, and checks nothing:

    python -m bench.uvicorn_prototype /tmp/tiny.onnx
"""

import json
import socket
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import numpy as np
import orjson
from bench.case import PeerMissingError, Place
from bench.model_files import TINY
from bench.processes import start_child, wait_for_http
from bench.servers import Server

Message = dict[str, Any]
_JSON_BYTES = b"inference-header-content-length"


class Prototype:
    """An ASGI application with one model of one FP32 input and output."""

    def __init__(self, path: str) -> None:
        # imported here: only the process that serves needs it
        import onnxruntime  # type: ignore[import-untyped]  # noqa: PLC0415

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(path, options, ["CPUExecutionProvider"])
        self._outputs = [each.name for each in self._session.get_outputs()]

    async def __call__(
        self,
        scope: Message,
        receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
    ) -> None:
        """Answer one request."""
        body = b""
        while True:
            message = await receive()
            body += message["body"]
            if not message["more_body"]:
                break
        content_type, headers = b"application/json", []
        if scope["method"] == "GET":
            reply = b"{}"
        elif (json_bytes := dict(scope["headers"]).get(_JSON_BYTES)) is None:
            reply = self._infer_json(orjson.loads(body))
        else:
            head, content = self._infer_binary(orjson.loads(body[: int(json_bytes)]), body)
            headers = [(_JSON_BYTES, str(len(head)).encode())]
            content_type, reply = b"application/octet-stream", head + content
        headers += [
            (b"content-type", content_type),
            (b"content-length", str(len(reply)).encode()),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": reply})

    def _infer_json(self, document: Message) -> bytes:
        tensor = document["inputs"][0]
        data = np.array(tensor["data"], dtype=np.float32)
        result = self._run(tensor, data)
        return self._document({**self._described(result), "data": result.ravel().tolist()})

    def _infer_binary(self, document: Message, body: bytes) -> tuple[bytes, bytes]:
        tensor = document["inputs"][0]
        size = tensor["parameters"]["binary_data_size"]
        result = self._run(tensor, np.frombuffer(body, np.float32, offset=len(body) - size))
        content = result.tobytes()
        parameters = {"binary_data_size": len(content)}
        head = self._document({**self._described(result), "parameters": parameters})
        return head, content

    def _run(self, tensor: Message, data: Any) -> Any:
        inputs = {tensor["name"]: data.reshape(tensor["shape"])}
        return self._session.run(self._outputs, inputs)[0]

    def _described(self, result: Any) -> Message:
        return {"name": self._outputs[0], "datatype": "FP32", "shape": result.shape}

    def _document(self, output: Message) -> bytes:
        return orjson.dumps({"model_name": TINY.name, "model_version": "1", "outputs": [output]})


def require_uvicorn() -> None:
    """Raise PeerMissingError unless uvicorn is installed."""
    if find_spec("uvicorn") is None:
        raise PeerMissingError("uvicorn is not installed: run make install.")


@contextmanager
def uvicorn_server(place: Place) -> Iterator[Server]:
    """Run the prototype on the server's core."""
    command = [sys.executable, "-m", "bench.uvicorn_prototype", str(TINY.write(place.folder))]
    with start_child(
        "the uvicorn prototype", command, core=place.server_core, folder=place.folder
    ) as process:
        port = process.read()["httpPort"]
        wait_for_http(process, port, "/")
        yield Server(process, port, grpc_port=0)


def main() -> None:
    """Serve the model file that the command line names, on a free port of the loopback."""
    import uvicorn  # noqa: PLC0415 - a peer, which may be missing

    listener = socket.create_server(("127.0.0.1", 0))
    print(json.dumps({"httpPort": listener.getsockname()[1]}), flush=True)
    config = uvicorn.Config(
        Prototype(sys.argv[1]),
        loop="uvloop",
        http="httptools",
        lifespan="off",
        access_log=False,
        log_level="warning",
    )
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
