"""The case server-overhead: what our server adds to ONNX Runtime itself."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from statistics import median
from time import perf_counter

from bench.case import Case, Figures, Place, Row, Side, Source, Turn, Unit
from bench.figures import Bound, Goal
from bench.model_files import RESNET50
from bench.processes import Child, start_child
from bench.servers import inferometer_server
from bench.traffic import HttpClient

_HERE = "session.run"
_AGAIN = "session.run in a second process"
_HTTP = "server over HTTP"
_GRPC = "server over gRPC"
_LATENCY = "median latency in seconds"
_CPU = "CPU seconds for each inference"
_INFERENCES = 5
_WARM_REQUESTS = 3
_MILLISECONDS = Unit(" ms", 2, scale=1000)
_GOAL = (Bound("ratio", "at most", 1.02),)


@contextmanager
def _stage(place: Place, sides: frozenset[str]) -> Iterator[Mapping[str, Turn]]:
    del sides  # all of them can be run everywhere
    with ExitStack() as stack:

        def helper(core: int | None, *words: str) -> Child:
            command = [sys.executable, "-m", *words]
            return stack.enter_context(
                start_child(words[0], command, core=core, folder=place.folder)
            )

        server = stack.enter_context(inferometer_server(place, RESNET50))
        http = HttpClient(RESNET50, server.http_port)
        stack.callback(http.close)
        for _ in range(_WARM_REQUESTS):
            http.infer()
        grpc_words = ("--protocol", "GRPC", "--port", str(server.grpc_port), "--model", "resnet50")
        grpc = helper(place.client_core, "bench.client", "wire", *grpc_words)
        grpc.ask(requests=_WARM_REQUESTS)
        model = str(RESNET50.write(place.folder))
        here = helper(place.server_core, "bench.in_process", "--model", model)
        again = helper(place.server_core, "bench.in_process", "--model", model)
        yield {
            _HERE: lambda: _measure_computing(here),
            _HTTP: lambda: _measure_serving(server.process, lambda: _median_seconds(http)),
            _GRPC: lambda: _measure_serving(
                server.process, lambda: grpc.ask(requests=_INFERENCES)["medianSeconds"]
            ),
            _AGAIN: lambda: _measure_computing(again),
        }


def _measure_computing(process: Child) -> Figures:
    figures = process.ask(inferences=_INFERENCES)
    return {_LATENCY: figures["medianSeconds"], _CPU: figures["cpuSeconds"]}


def _measure_serving(server: Child, infer: Callable[[], float]) -> Figures:
    before = server.cpu_seconds()
    latency = infer()
    return {_LATENCY: latency, _CPU: (server.cpu_seconds() - before) / _INFERENCES}


def _median_seconds(client: HttpClient) -> float:
    seconds = []
    for _ in range(_INFERENCES):
        began = perf_counter()
        client.infer()
        seconds.append(perf_counter() - began)
    return median(seconds)


def _row(what: str, side: str, figure: str, goal: Goal = ()) -> Row:
    return Row(what, Source(side, figure), _MILLISECONDS, Source(_HERE, figure), goal)


SERVER_OVERHEAD = Case(
    name="server-overhead",
    title="What the server adds to ONNX Runtime: resnet50 at batch 1, one thread",
    text="""\
The median latency of an inference through Inferometer's server, from before the first byte of the
request is sent until after the last byte of the reply is read, next to `session.run` on the same
bytes in a process without any server. The model is zoo://classification/resnet50, the input
`[1, 3, 224, 224]` FP32 (602 kB) as a binary tensor.

Both sides open the same file with one thread within an operator, one between operators, the CPU
provider and ONNX Runtime's defaults for all else, memory arena included. Both compute on the same
core, and take turns of five inferences, so that neither a faster core nor a busy minute favours
one; the client has the other core and sends one request after another on one kept connection: a
plain blocking socket for HTTP, our own wire protocol for gRPC.

Each repeat starts all processes anew, since two processes with equal code differ by where their
memory happens to lie; how much, the rows of a second process that only calls `session.run` show:
smaller differences than their spread mean nothing.

In process the input stays in the caches, through a server it comes out of a socket each time:
that is part of what a server costs, and counts. The CPU time for each inference is that of the
computing process alone, which waiting and other load on the machine distort less.""",
    commands=(".venv/bin/python bench/run.py --case server-overhead",),
    sides=(Side(_HERE), Side(_HTTP), Side(_GRPC), Side(_AGAIN)),
    stage=_stage,
    minutes=2,
    rows=(
        _row("Median latency over HTTP", _HTTP, _LATENCY, _GOAL),
        _row("Median latency over gRPC", _GRPC, _LATENCY, _GOAL),
        _row("Median latency without any server, in a second process", _AGAIN, _LATENCY),
        _row("CPU time of the server's process, HTTP", _HTTP, _CPU),
        _row("CPU time of the server's process, gRPC", _GRPC, _CPU),
        _row("CPU time without any server, in a second process", _AGAIN, _CPU),
    ),
    rounds=10,
)
