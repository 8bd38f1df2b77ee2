"""The cluster cases: agreement with a local run, and time from apply to the first query."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import count
from typing import Any

from bench.case import Case, Figures, Place, Row, Side, Source, Turn, Unit
from bench.clusters import Applied, example, locally, require_nodes, shared_bench
from bench.figures import Bound
from bench.processes import BenchError

from inferometer_api.document import API_VERSION
from inferometer_api.results.result import ResultDocument, nanoseconds_at
from inferometer_api.timestamps import parse_time

_CLUSTER = "In the cluster"
_LOCAL = "inferometer run"
_EXAMPLES = ("01-resnet50-cpu", "02-minilm-grpc")
_MILLISECONDS = Unit(" ms", 1, 1e-6)
_PER_SECOND = Unit(" /s", 1)
_SECONDS = Unit(" s", 2)
_MIB = Unit(" MiB", 0, 2**-20)

_FIRST_QUERY = "from apply to the first query"
_LOADING = "of that, the server loads the model and warms it up"
_MEMORY = "the operator's resident memory afterwards"
_SMALL = "zoo://classification/mobilenet_v2"


@contextmanager
def _both(place: Place, sides: frozenset[str]) -> Iterator[Mapping[str, Turn]]:
    bench, numbers = shared_bench(), count()

    def cluster() -> Figures:
        return _all(_figures(bench.measure(example(name)).result) for name in _EXAMPLES)

    def local() -> Figures:
        folder = place.folder / f"local-{next(numbers)}"
        return _all(_figures(locally(name, folder / name)) for name in _EXAMPLES)

    turns: dict[str, Turn] = {_CLUSTER: cluster, _LOCAL: local}
    yield {name: turns[name] for name in sides}


def _all(found: Iterator[Figures]) -> Figures:
    return {name: value for each in found for name, value in each.items()}


def _figures(document: ResultDocument) -> Figures:
    """Return median latency (ns) and rate of each step, by run, scenario and step."""
    figures: dict[str, float] = {}
    for scenario in document.scenarios:
        for step in scenario.steps:
            what = f"{document.run.name} {scenario.name} {step.label}".rstrip()
            median = nanoseconds_at(step.latency, 50.0)
            if median is None:
                raise BenchError(f"{what} answered no query.")
            figures[f"{what}: median latency"] = median
            figures[f"{what}: samples per second"] = step.achieved_samples_per_second
    return figures


@contextmanager
def _soon(_place: Place, _sides: frozenset[str]) -> Iterator[Mapping[str, Turn]]:
    yield {_CLUSTER: partial(_first_query, _small_run())}


def _first_query(run: dict[str, Any]) -> Figures:
    bench = shared_bench()
    applied = bench.measure(run)
    return {
        _FIRST_QUERY: _seconds_to_first_query(applied),
        _LOADING: _loading_seconds(applied.result),
        _MEMORY: bench.operator_memory_bytes(),
    }


def _seconds_to_first_query(applied: Applied) -> float:
    at = parse_time(applied.result.first_query_at)
    if at is None:
        raise BenchError("The result does not say when its first query was sent.")
    return (at - applied.created_at).total_seconds()


def _loading_seconds(document: ResultDocument) -> float:
    environment = document.environment
    settings = {} if environment is None else environment.server.settings
    return sum(float(settings[name]) for name in ("load_seconds", "warm_up_seconds"))


def _small_run() -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": "BenchmarkRun",
        "metadata": {"name": "small"},
        "spec": {
            "model": {"uri": _SMALL},
            "scenarios": [{"name": "latency", "singleStream": {}}],
            "validity": {"warmUpSeconds": 1, "minDurationSeconds": 1, "minQueries": 10},
        },
    }


def _row(what: str, unit: Unit) -> Row:
    return Row(what, Source(_CLUSTER, what), unit, Source(_LOCAL, what))


LAPTOP_AND_CLUSTER = Case(
    name="laptop-and-cluster",
    title="The same file on a laptop and in a cluster",
    text="""\
Two examples, as they are, by `inferometer run` and by `kubectl apply`, taking turns on one
machine: the cluster's node is this machine, with an operator running. Both start the same server
and the same load generator by the same command lines.

What differs: in the cluster both run in pods made of the images, the server is held to the one
CPU of its limit by the kernel, and they speak over the node's bridge, not over loopback. The
ratio is the cluster's figure to the laptop's: 1 is equal. Open-loop scenarios show only the
latency, since their schedule sets the rate.""",
    commands=(
        ".venv/bin/python bench/run.py --case laptop-and-cluster",
        "",
        "# the same by hand",
        "make cluster-up    # and the chart, as docs/how-to/install.md says",
        ".venv/bin/inferometer run examples/01-resnet50-cpu.yaml",
        "kubectl apply -n bench -f examples/01-resnet50-cpu.yaml",
        "kubectl inferometer status resnet50-cpu -n bench --watch",
    ),
    sides=(Side(_CLUSTER, require_nodes), Side(_LOCAL)),
    stage=_both,
    minutes=10,
    rows=(
        _row("resnet50-cpu latency: median latency", _MILLISECONDS),
        _row("resnet50-cpu traffic: median latency", _MILLISECONDS),
        _row("resnet50-cpu throughput batch 1: samples per second", _PER_SECOND),
        _row("resnet50-cpu throughput batch 2: samples per second", _PER_SECOND),
        _row("resnet50-cpu throughput batch 4: samples per second", _PER_SECOND),
        _row("minilm-grpc latency: median latency", _MILLISECONDS),
        _row("minilm-grpc steady: median latency", _MILLISECONDS),
    ),
    is_pinned=False,
)

APPLY_TO_FIRST_QUERY = Case(
    name="apply-to-first-query",
    title="From apply to the first query",
    text="""\
How long a run takes from `kubectl create` until its first (warm-up) query is sent: kubectl
itself, the operator, two schedulings, three containers one after another (fetch, server, load
generator), and the server's start with a small model (zoo://classification/mobilenet_v2). The
images are on the node.

The load generator's result says when its first query was sent; both clocks are this machine's.
Whether the limit is kept is judged by all of that time, loading the model included. The
operator's memory is the resident memory of its process once the run is finished; it serves one
namespace, and has no other run to look after.""",
    commands=(".venv/bin/python bench/run.py --case apply-to-first-query",),
    sides=(Side(_CLUSTER, require_nodes),),
    stage=_soon,
    minutes=5,
    rows=(
        Row(
            "From apply to the first query",
            Source(_CLUSTER, _FIRST_QUERY),
            _SECONDS,
            goal=(Bound("figure", "at most", 5.0),),
        ),
        Row(
            "Of that: the server loads the model and warms it up",
            Source(_CLUSTER, _LOADING),
            _SECONDS,
        ),
        Row(
            "The operator's resident memory, idle",
            Source(_CLUSTER, _MEMORY),
            _MIB,
            goal=(Bound("figure", "at most", 128.0 * 2**20),),
        ),
    ),
    is_pinned=False,
)
