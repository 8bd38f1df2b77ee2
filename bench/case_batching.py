"""The case batching: dynamic batching of many clients against requests with whole batches."""

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from typing import Any
from urllib.request import urlopen

from bench.case import Case, Figures, Place, Row, Side, Source, Turn, Unit
from bench.figures import Bound
from bench.model_files import MINILM, RESNET50, Measurand, Protocol
from bench.processes import Child, start_child
from bench.servers import Server, inferometer_server

_CLIENTS = 32
_FIXED = (1, 4, 8, 16)
_DELAY_MICROSECONDS = 5000
_MODELS = (RESNET50, MINILM)
_PROTOCOLS: tuple[Protocol, ...] = ("HTTP", "GRPC")

_RATE = "samples per second"
_SIZE = "samples in a batch"
_LATENCY = "median latency in seconds"
_WAITED = "seconds that a lone request waits for company"
_PER_SECOND = Unit(" /s", 1)
_SAMPLES = Unit("", 1)
_MILLISECONDS = Unit(" ms", 0, scale=1000)
_SHORT = Unit(" ms", 2, scale=1000)
_GOAL = (Bound("ratio", "at least", 0.95),)
_LONE_REQUESTS = 10
_WAKE_SECONDS = 0.0005
"""How late a sleeping thread may wake up."""
_IN_TIME = (
    Bound("figure", "at most", _DELAY_MICROSECONDS / 1e6 + _WAKE_SECONDS, over="every repeat"),
)


def _joined(model: Measurand, protocol: Protocol) -> str:
    return f"{model.name}, {_CLIENTS} clients of one sample, {_spoken(protocol)}"


def _whole(model: Measurand, protocol: Protocol) -> str:
    return f"{model.name}, the best fixed batch, {_spoken(protocol)}"


def _spoken(protocol: Protocol) -> str:
    return "HTTP" if protocol == "HTTP" else "gRPC"


@contextmanager
def _stage(place: Place, sides: frozenset[str]) -> Iterator[Mapping[str, Turn]]:
    with ExitStack() as stack:
        turns: dict[str, Turn] = {}
        for model in _MODELS:
            sizes = ("--warm-up-batch-sizes", ",".join(map(str, _FIXED)))
            fixed = stack.enter_context(inferometer_server(place, model, *sizes))
            rates = {size: _measure(place, model, "HTTP", fixed, size)[_RATE] for size in _FIXED}
            most = max(_FIXED[1:], key=lambda size: rates[size])
            joins = stack.enter_context(inferometer_server(place, model, *_batching(most)))
            for protocol in _PROTOCOLS:
                best = max(_FIXED, key=lambda size: rates[size])
                turns[_joined(model, protocol)] = partial(_joined_of, place, model, protocol, joins)
                turns[_whole(model, protocol)] = partial(
                    _measure, place, model, protocol, fixed, best
                )
        yield {name: turn for name, turn in turns.items() if name in sides}


def _batching(most: int) -> tuple[str, ...]:
    return (
        *("--max-batch-size", str(most)),
        *("--max-delay-microseconds", str(_DELAY_MICROSECONDS)),
    )


def _joined_of(place: Place, model: Measurand, protocol: Protocol, server: Server) -> Figures:
    before = _statistics(server, model)
    joined = _measure(place, model, protocol, server, 1)
    after = _statistics(server, model)
    samples = after["inference_count"] - before["inference_count"]
    size = samples / (after["execution_count"] - before["execution_count"])
    return {**joined, _SIZE: size, _WAITED: _waited_alone(place, model, protocol, server)}


def _waited_alone(place: Place, model: Measurand, protocol: Protocol, server: Server) -> float:
    """Return for how long each request of a client waits that is the only one."""
    before = _statistics(server, model)["inference_stats"]["queue"]
    with _client(place, model, protocol, server, 1, 1) as client:
        client.ask(requests=_LONE_REQUESTS)
    after = _statistics(server, model)["inference_stats"]["queue"]
    return float((after["ns"] - before["ns"]) / (after["count"] - before["count"])) / 1e9


def _statistics(server: Server, model: Measurand) -> dict[str, Any]:
    """Return what the server itself counted of a model."""
    url = f"http://127.0.0.1:{server.http_port}/v2/models/{model.name}/stats"
    with urlopen(url, timeout=10) as reply:
        [reply_figures] = json.load(reply)["model_stats"]
    found: dict[str, Any] = reply_figures
    return found


def _measure(
    place: Place, model: Measurand, protocol: Protocol, server: Server, samples: int
) -> Figures:
    """Keep as many samples outstanding as there are clients, in requests of `samples` each."""
    with _client(place, model, protocol, server, samples, _CLIENTS // samples) as client:
        client.ask(requests=_CLIENTS // samples)  # connections and their memory are warm
        reply_figures = client.ask(seconds=place.turn_seconds)
    return {
        _RATE: reply_figures["requests"] * samples / reply_figures["wallSeconds"],
        _SIZE: float(samples),
        _LATENCY: reply_figures["medianSeconds"],
    }


def _client(
    place: Place,
    model: Measurand,
    protocol: Protocol,
    server: Server,
    samples: int,
    connections: int,
) -> AbstractContextManager[Child]:
    port = server.http_port if protocol == "HTTP" else server.grpc_port
    command = [
        *(sys.executable, "-m", "bench.client", "wire"),
        *("--protocol", protocol, "--port", str(port), "--model", model.name),
        *("--samples", str(samples), "--connections", str(connections)),
    ]
    return start_child("client", command, core=place.client_core, folder=place.folder)


def _rows(model: Measurand, protocol: Protocol) -> tuple[Row, ...]:
    joined, whole = _joined(model, protocol), _whole(model, protocol)
    return (
        Row(joined, Source(joined, _RATE), _PER_SECOND, Source(whole, _RATE), _GOAL),
        Row(
            "the same: median latency",
            Source(joined, _LATENCY),
            _MILLISECONDS,
            Source(whole, _LATENCY),
        ),
        Row("the same: samples in a batch", Source(joined, _SIZE), _SAMPLES, Source(whole, _SIZE)),
        Row(
            "the same: how long a lone request waits for company",
            Source(joined, _WAITED),
            _SHORT,
            goal=_IN_TIME,
        ),
    )


_PAIRS = tuple((model, protocol) for model in _MODELS for protocol in _PROTOCOLS)

BATCHING = Case(
    name="batching",
    title="Dynamic batching: requests of 32 clients against the best fixed batch",
    text=f"""\
Samples per second of one instance with one thread, the server on one core and the client on the
other. First a server without batching gets whole batches made by the client, over HTTP, of
{", ".join(map(str, _FIXED))} samples: the size with the best throughput is the best fixed batch.

Then {_CLIENTS} clients each send one sample after another, on connections of their own, to a
server with `maxBatchSize` at the best size above 1 with a maximum queue delay of
{_DELAY_MICROSECONDS / 1000:g} ms; in turn the best fixed batch is measured again. Both always
have {_CLIENTS} samples outstanding ({_CLIENTS} requests of 1, 4 of 8), so that the fixed batches,
too, find the next one waiting, and both use the same client: our own wire protocols.

The models are zoo://classification/resnet50 (602 kB a sample) and zoo://text/minilm_l6 (128
tokens, which come back as 197 kB). Larger batches are not always better on a CPU: their tensors
leave its caches.

*Samples in a batch* are those of an execution on average, by the server's own statistics. *How
long a lone request waits* is by these too, with one client: no other request comes, so it waits
for the whole delay, and {_WAKE_SECONDS * 1000:g} ms more at most, in which a sleeping thread must
wake.""",
    commands=(".venv/bin/python bench/run.py --case batching",),
    sides=tuple(
        Side(side)
        for model, protocol in _PAIRS
        for side in (_joined(model, protocol), _whole(model, protocol))
    ),
    stage=_stage,
    minutes=8,
    rows=tuple(row for model, protocol in _PAIRS for row in _rows(model, protocol)),
)
