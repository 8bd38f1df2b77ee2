"""Our server with delays planted in the parts of traced requests.

Run as a script: PLANTED (JSON: milliseconds by part), then the server's arguments.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tritonclient.grpc import service_pb2  # type: ignore[import-untyped]  # ships no types

from inferometer_serving import inference_pool
from inferometer_serving.__main__ import main
from inferometer_serving.batching.joining import Joiner
from inferometer_serving.grpc import calls
from inferometer_serving.http import connection, infer, inference
from inferometer_serving.http.outbox import Outbox
from inferometer_serving.model import engine
from inferometer_serving.model.engine import Engine

Call = Callable[..., Any]


def delayed(call: Call, milliseconds: float) -> Call:
    """Return a call that takes so much longer."""

    def later(*words: Any, **named: Any) -> Any:
        time.sleep(milliseconds / 1000)
        return call(*words, **named)

    return later


def plant(delays: Mapping[str, float]) -> None:
    """Delay what each part of a request consists of."""
    places: dict[str, list[tuple[Any, str]]] = {
        "receive": [(connection, "parse_head"), (service_pb2.ModelInferRequest, "FromString")],
        "decode": [(inference, "read_request"), (calls, "inputs_of")],
        "queue": [(Engine, "compute")],
        "input": [(Joiner, "joined")],
        "output": [(engine, "split")],
        "encode": [(infer, "_answer"), (calls, "reply_of")],
        "handover": [(inference_pool.InferencePool, "_report")],
        "send": [(Outbox, "flush"), (calls.TracedCalls, "write")],
    }
    for part, milliseconds in delays.items():
        for owner, name in places.get(part, ()):
            setattr(owner, name, delayed(getattr(owner, name), milliseconds))
    if "compute" in delays:
        made = Engine.__init__

        def slow(self: Any, session: Any, max_samples: int) -> None:
            made(self, session, max_samples)
            self._run = delayed(self._run, delays["compute"])

        Engine.__init__ = slow  # type: ignore[method-assign]  # for the test


@contextmanager
def planted_server(
    model: Path, delays: Mapping[str, float], *options: str
) -> Iterator[dict[str, str]]:
    """Run the server with delays; yield its URLs by protocol once it is ready."""
    arguments = ["--model", str(model), "--model-name", "planted", *options]
    with subprocess.Popen(
        [sys.executable, "-m", "support.planted_server", json.dumps(delays), *arguments],
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[1],
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            listening = json.loads(process.stdout.readline())
            assert json.loads(process.stdout.readline())["event"] == "ready"
            yield {
                "HTTP": f"http://127.0.0.1:{listening['httpPort']}",
                "GRPC": f"grpc://127.0.0.1:{listening['grpcPort']}",
            }
        finally:
            process.kill()


if __name__ == "__main__":
    plant(json.loads(sys.argv[1]))
    sys.exit(main(sys.argv[2:]))
