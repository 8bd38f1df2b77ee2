"""Starts the null servers: net/http and grpc-go, which answer without parsing.

    python -m bench.null_server tiny

runs both until standard input ends, and says their ports.
"""

import argparse
import json
import os
import shutil
import subprocess
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from bench.case import PeerMissingError, Place
from bench.model_files import MEASURANDS, Measurand
from bench.processes import start_child
from bench.servers import Server
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from tritonclient.grpc import (  # type: ignore[import-untyped]  # ships no types
    model_config_pb2,
    service_pb2,
)

_SOURCE = Path(__file__).with_name("null_server")
_SERVICE = "/inference.GRPCInferenceService"


def require_null_server() -> None:
    """Build the null servers. Raises PeerMissingError if that cannot be done here."""
    if shutil.which("go") is None:
        raise PeerMissingError(
            "Go is not installed, which builds the null servers: install Go 1.26 or newer from "
            "https://go.dev/dl (1.21 or newer fetches that by itself)."
        )
    done = subprocess.run(
        ["go", "build", "-o", str(_binary()), "."],
        cwd=_SOURCE,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise PeerMissingError(f"The null servers could not be built: {done.stderr[-400:]}")


@contextmanager
def null_server(place: Place, measurand: Measurand, *, proxied: bool = False) -> Iterator[Server]:
    """Run both null servers in one process on the server's core.

    `proxied`: each reply has the headers that Envoy adds, of which some are new in each.
    """
    file = place.folder / f"null-{measurand.name}.json"
    file.write_text(json.dumps(_replies(measurand)), encoding="utf-8")
    command = [str(_binary()), str(file), *(["proxied"] if proxied else [])]
    with start_child(
        "null server", command, core=place.server_core, folder=place.folder
    ) as process:
        ports = process.read()
        yield Server(process, ports["httpPort"], ports["grpcPort"])


def _binary() -> Path:
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(caches) / "inferometer" / "bench" / "null_server"


def _replies(measurand: Measurand) -> dict[str, Any]:
    """Return the one reply of each path and method: outputs are zeros, as binary tensors."""
    shape = [1, *measurand.output.shape[1:]]
    output = np.zeros(shape, dtype=np.float32).tobytes()
    ready = service_pb2.ModelReadyResponse(ready=True)
    infer = service_pb2.ModelInferResponse(model_name=measurand.name, model_version="1")
    infer.outputs.add(name=measurand.output.name, datatype=measurand.output.datatype, shape=shape)
    infer.raw_output_contents.append(output)
    grpc = {
        "ServerLive": service_pb2.ServerLiveResponse(live=True),
        "ServerReady": service_pb2.ServerReadyResponse(ready=True),
        "ServerMetadata": service_pb2.ServerMetadataResponse(name="null", version="1"),
        "ModelReady": ready,
        "ModelMetadata": _model_metadata(measurand),
        "ModelConfig": _model_config(measurand),
        "ModelStatistics": service_pb2.ModelStatisticsResponse(),
        "ModelInfer": infer,
    }
    return {
        "grpc": {
            f"{_SERVICE}/{method}": b64encode(message.SerializeToString()).decode()
            for method, message in grpc.items()
        },
        "http": _http(measurand, shape, output),
    }


def _http(measurand: Measurand, shape: list[int], output: bytes) -> dict[str, Any]:
    model = f"/v2/models/{measurand.name}"
    output_metadata = {
        "name": measurand.output.name,
        "datatype": measurand.output.datatype,
        "shape": shape,
        "parameters": {"binary_data_size": len(output)},
    }
    head = json.dumps(
        {"model_name": measurand.name, "model_version": "1", "outputs": [output_metadata]}
    )
    metadata, config = _json(_model_metadata(measurand)), _json(_model_config(measurand))
    tensors = [("inputs", measurand.input), ("outputs", measurand.output)]
    for key, tensor in tensors:  # protobuf writes 64-bit numbers as text
        metadata[key] = [tensor.model_dump(by_alias=True)]
    for key, tensor in (("input", measurand.input), ("output", measurand.output)):
        config[key] = [
            {"name": tensor.name, "data_type": f"TYPE_{tensor.datatype}", "dims": tensor.shape}
        ]
    pages = {
        "/v2": {"name": "null", "version": "1", "extensions": ["binary_tensor_data"]},
        "/v2/health/live": {},
        "/v2/health/ready": {},
        model: metadata,
        f"{model}/ready": {},
        f"{model}/config": config,
        f"{model}/stats": {"model_stats": []},
    }
    paths = {
        path: {
            "headers": {"Content-Type": "application/json"},
            "body": b64encode(json.dumps(page).encode()).decode(),
        }
        for path, page in pages.items()
    }
    paths[f"{model}/infer"] = {
        "headers": {
            "Content-Type": "application/octet-stream",
            "Inference-Header-Content-Length": str(len(head)),
        },
        "body": b64encode(head.encode() + output).decode(),
    }
    return paths


def _json(message: Message) -> dict[str, Any]:
    return MessageToDict(message, preserving_proto_field_name=True)


def _model_metadata(measurand: Measurand) -> Message:
    metadata = service_pb2.ModelMetadataResponse(
        name=measurand.name, versions=["1"], platform="null"
    )
    for tensors, tensor in (
        (metadata.inputs, measurand.input),
        (metadata.outputs, measurand.output),
    ):
        tensors.add(name=tensor.name, datatype=tensor.datatype, shape=tensor.shape)
    message: Message = metadata
    return message


def _model_config(measurand: Measurand) -> Message:
    config = model_config_pb2.ModelConfig(name=measurand.name, platform="null", max_batch_size=0)
    for tensors, tensor in ((config.input, measurand.input), (config.output, measurand.output)):
        tensors.add(
            name=tensor.name,
            data_type=model_config_pb2.DataType.Value(f"TYPE_{tensor.datatype}"),
            dims=tensor.shape,
        )
    message: Message = service_pb2.ModelConfigResponse(config=config)
    return message


def main() -> None:
    """Serve until standard input ends."""
    parser = argparse.ArgumentParser(description="Answer with the same bytes, always.")
    parser.add_argument("model", choices=sorted(MEASURANDS))
    options = parser.parse_args()
    try:
        require_null_server()
    except PeerMissingError as missing:
        raise SystemExit(str(missing)) from None
    with TemporaryDirectory() as folder:
        file = Path(folder) / "replies.json"
        file.write_text(json.dumps(_replies(MEASURANDS[options.model])), encoding="utf-8")
        subprocess.run([str(_binary()), str(file)], check=True)


if __name__ == "__main__":
    main()
