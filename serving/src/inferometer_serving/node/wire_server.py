"""A server of the identity model: `python -m inferometer_serving.node.wire_server`.

The load generator measures round trips and bandwidth to it, over HTTP and gRPC. It is the server
that a run has; its model does nothing.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from onnx import TensorProto, helper

from inferometer_api.nodes.wire_rates import WIRE_INPUT, WIRE_MODEL, WIRE_OUTPUT
from inferometer_serving.main import serve
from inferometer_serving.options import ServeOptions

_OPSET, _IR_VERSION = 17, 8


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m inferometer_serving.node.wire_server")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--http-port", type=int, default=0)
    parser.add_argument("--grpc-port", type=int, default=0)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model.onnx"
        model.write_bytes(identity_model())
        return serve(
            ServeOptions(
                model=model,
                model_name=WIRE_MODEL,
                host=options.host,
                http_port=options.http_port,
                grpc_port=options.grpc_port,
            )
        )


def identity_model() -> bytes:
    """Return a model in ONNX that returns bytes, as many as there are."""
    values = [
        helper.make_tensor_value_info(name, TensorProto.UINT8, ["bytes"])
        for name in (WIRE_INPUT, WIRE_OUTPUT)
    ]
    node = helper.make_node("Identity", [WIRE_INPUT], [WIRE_OUTPUT])
    graph = helper.make_graph([node], WIRE_MODEL, values[:1], values[1:])
    opsets = [helper.make_opsetid("", _OPSET)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION)
    return bytes(model.SerializeToString())


if __name__ == "__main__":
    sys.exit(main())
