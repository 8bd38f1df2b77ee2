"""The case stacks: one model behind every server that a run can launch."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from tempfile import mkdtemp
from typing import Any

from bench.case import Case, Figures, PeerMissingError, Place, Row, Side, Source, Turn, Unit
from bench.clusters import kserve_bench, require_kserve
from bench.model_files import SHUFFLENET, Protocol
from bench.processes import ROOT, BenchError, start_child
from bench.servers import launcher_path, require_mlserver, require_triton

from inferometer_api.document import API_VERSION
from inferometer_api.results.reading import read_result
from inferometer_api.results.result import ResultDocument, ScenarioResult, nanoseconds_at
from inferometer_results.compare.outputs import output_agreement

_BOUND_MILLISECONDS = 100
_PROBE_QUERIES = 500
_SEARCH_SECONDS = 75
_LATENCY_SECONDS = 4
_INFERENCES = 500
_CONNECTIONS, _STREAMS = 8, 4
"""Over gRPC; their product bounds the requests under way, each of which is 602 kB of memory."""
_LATENCY, _PEAK = "latency", "peak"

RATE = "rate"
WIDTH = "width of its bracket (95 %)"
FOUND = "the search is VALID (1: yes)"
GRPC, HTTP = "median latency over gRPC", "median latency over HTTP"
ADDED_GRPC, ADDED_HTTP = "what gRPC and the server add", "what HTTP and the server add"
COSINE = "cosine of the outputs"
ENERGY = "energy of an inference at the rate"
_PER_SECOND, _MILLISECONDS = Unit(" /s", 0), Unit(" ms", 2, scale=1000)
_COUNT, _PER_CENT, _COSINE = Unit("", 0), Unit(" %", 1, scale=100), Unit("", 5)
_JOULES = Unit(" J", 3)

Measure = Callable[[Place, Mapping[str, Any]], ResultDocument]


def _require_openvino() -> None:
    if find_spec("openvino") is None:
        raise PeerMissingError(
            "OpenVINO is not installed: install inferometer[openvino], as tests/install-tools "
            "verify does."
        )


@dataclass(frozen=True, slots=True)
class Stack:
    """One way to serve the model."""

    name: str
    server: Mapping[str, Any]
    """The members of spec.server."""
    require: Callable[[], None] = lambda: None
    runtime: str = "OnnxRuntime"
    """The engine that computes, with its precision."""
    precision: str = "Default"
    is_own: bool = False
    """Whether the server is ours."""


_ONNX_RUNTIME = Stack("ONNX Runtime", {"runtime": "OnnxRuntime", "threads": 1}, is_own=True)
_OTHERS = (
    *(
        Stack(
            f"OpenVINO {precision}",
            {"runtime": "OpenVino", "precision": precision, "threads": 1},
            _require_openvino,
            "OpenVino",
            precision,
            is_own=True,
        )
        for precision in ("FP32", "BF16")
    ),
    Stack(
        "Triton, Python back end",
        {"runtime": "Triton", "tritonBackend": "Python", "threads": 1},
        require_triton,
    ),
    Stack("MLServer", {"runtime": "MLServer", "threads": 1}, require_mlserver),
)
_KSERVE = Stack(
    "KServe",
    {"runtime": "KServe", "threads": 1, "resources": {"cpu": "1500m", "memory": "1Gi"}},
    require_kserve,
)


@contextmanager
def _stage(place: Place, sides: frozenset[str]) -> Iterator[Mapping[str, Turn]]:
    launch: Measure = partial(_launch, launcher_path(place.folder))
    model = SHUFFLENET.write(place.folder)
    reference = launch(place, _run(_ONNX_RUNTIME, "GRPC", searches=False))
    turns: dict[str, Turn] = {
        each.name: partial(_measure, place, each, model, reference, launch)
        for each in (_ONNX_RUNTIME, *_OTHERS)
    }
    turns[_KSERVE.name] = partial(_measure_by_kserve, place, model, reference)
    yield {name: turn for name, turn in turns.items() if name in sides}


def _measure(
    place: Place, stack: Stack, model: Path, reference: ResultDocument, measure: Measure
) -> Figures:
    engine = [_engine_seconds(place, stack, model)]
    grpc = measure(place, _run(stack, "GRPC", searches=True))
    engine.append(_engine_seconds(place, stack, model))
    http = measure(place, _run(stack, "HTTP", searches=False))
    engine.append(_engine_seconds(place, stack, model))
    return figures_of(grpc, http, median(engine), reference)


def _measure_by_kserve(place: Place, model: Path, reference: ResultDocument) -> Figures:
    """Measure KServe on a cluster that runs only meanwhile: it would disturb the others."""
    with kserve_bench() as cluster:
        measure: Measure = lambda _, run: cluster.measure(dict(run)).result  # noqa: E731 - a closure over the cluster
        return _measure(place, _KSERVE, model, reference, measure)


def _run(stack: Stack, protocol: Protocol, *, searches: bool) -> dict[str, Any]:
    peak = {
        "latencyBoundMicroseconds": _BOUND_MILLISECONDS * 1000,
        "probe": {"minQueries": _PROBE_QUERIES, "maxSeconds": 40},
    }
    streams = {"streamsPerConnection": _STREAMS} if protocol == "GRPC" else {}
    scenarios: list[dict[str, Any]] = [{"name": _LATENCY, "singleStream": {}}]
    if searches:
        scenarios.append({"name": _PEAK, "findPeak": peak})
    return {
        "apiVersion": API_VERSION,
        "kind": "BenchmarkRun",
        "metadata": {"name": f"stacks-{protocol.lower()}"},
        "spec": {
            "model": {"uri": f"zoo://{SHUFFLENET.task}/{SHUFFLENET.name}"},
            "server": dict(stack.server),
            "load": {"protocol": protocol, "connections": _CONNECTIONS, **streams},
            "scenarios": scenarios,
            "validity": {
                "warmUpSeconds": 1,
                "minDurationSeconds": _LATENCY_SECONDS,
                "minQueries": 64,
                "maxDurationSeconds": _SEARCH_SECONDS,
            },
        },
    }


def _launch(search_path: str, place: Place, run: Mapping[str, Any]) -> ResultDocument:
    """Return the result of a run by `inferometer run`, whatever its verdict."""
    folder = Path(mkdtemp(dir=place.folder))
    file, output = folder / "run.json", folder / "result"
    file.write_text(json.dumps(run), encoding="utf-8")
    command = str(Path(sys.executable).with_name("inferometer"))
    done = subprocess.run(
        (command, "run", str(file), "--output", str(output), "--no-save"),
        cwd=ROOT,
        env={**os.environ, "PATH": search_path},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode not in {0, 3}:
        raise BenchError(f"inferometer run failed: {done.stderr[-1500:]}")
    return read_result((output / "result.json").read_bytes(), source=str(output)).document


def _engine_seconds(place: Place, stack: Stack, model: Path) -> float:
    """Return the median of an inference by the stack's engine, in a process without a server."""
    words = ("--runtime", stack.runtime, "--precision", stack.precision)
    command = [sys.executable, "-m", "bench.in_process", "--model", str(model), *words]
    with start_child("the engine", command, core=None, folder=place.folder) as process:
        return float(process.ask(inferences=_INFERENCES)["medianSeconds"])


def figures_of(
    grpc: ResultDocument, http: ResultDocument, engine_seconds: float, reference: ResultDocument
) -> Figures:
    """Return the figures of a stack; without a counter there is none of the energy.

    Raises BenchError if a run did not come to its end.
    """
    for each in (grpc, http):
        if each.outcome.state != "Complete":
            raise BenchError(f"The run {each.run.name} did not end: {each.outcome.message}")
    latency, search = grpc.scenarios
    by_grpc, by_http = _median_seconds(latency), _median_seconds(http.scenarios[0])
    return {
        **_of_search(search),
        GRPC: by_grpc,
        HTTP: by_http,
        ADDED_GRPC: by_grpc - engine_seconds,
        ADDED_HTTP: by_http - engine_seconds,
        **_cosine(reference, grpc),
    }


def _of_search(search: ScenarioResult) -> Figures:
    """Return the rate, or the highest that is known to keep the bound; none if there is none."""
    peak = search.peak
    rate = None if peak is None else peak.qps or peak.low_qps
    found = {FOUND: float(search.verdict.state == "VALID")}
    if peak is None or not rate:
        return found
    found[RATE] = rate
    if peak.low_qps is not None and peak.high_qps is not None:
        found[WIDTH] = (peak.high_qps - peak.low_qps) / rate
    for step in search.steps:
        microjoules = step.energy.microjoules_per_inference
        if step.label == peak.step and microjoules is not None:
            found[ENERGY] = microjoules / 1e6
    return found


def _median_seconds(scenario: ScenarioResult) -> float:
    found = nanoseconds_at(scenario.steps[0].latency, 50.0) if scenario.steps else None
    if found is None:
        raise BenchError(f"{scenario.name} answered no query: {scenario.verdict}.")
    return found / 1e9


def _cosine(reference: ResultDocument, document: ResultDocument) -> Figures:
    agreement = output_agreement(reference, document)
    return {} if agreement is None else {COSINE: agreement.cosine}


def _rows() -> Iterator[Row]:
    """Yield the rows: every stack next to ONNX Runtime in our server, figure by figure."""
    first = _ONNX_RUNTIME.name
    bounded = f"rate at a P99 of {_BOUND_MILLISECONDS} ms"
    for figure, what, unit in (
        (RATE, bounded, _PER_SECOND),
        (GRPC, GRPC, _MILLISECONDS),
        (HTTP, HTTP, _MILLISECONDS),
        (ADDED_GRPC, ADDED_GRPC, _MILLISECONDS),
        (ADDED_HTTP, ADDED_HTTP, _MILLISECONDS),
        (ENERGY, ENERGY, _JOULES),
    ):
        for each in (*_OTHERS, _KSERVE):
            # The column of our own figures: OpenVINO runs in our server, too.
            ours, peer = (each.name, first) if each.is_own else (first, each.name)
            yield Row(f"{ours}: {what}", Source(ours, figure), unit, Source(peer, figure))
    for figure, unit in ((WIDTH, _PER_CENT), (FOUND, _COUNT), (COSINE, _COSINE)):
        for each in (_ONNX_RUNTIME, *_OTHERS, _KSERVE):
            yield Row(f"{each.name}: {figure}", Source(each.name, figure), unit)


STACKS = Case(
    name="stacks",
    title="One model behind every server",
    text=f"""\
{SHUFFLENET.name} with one thread, one instance and no batching in our server (ONNX Runtime, and
OpenVINO in two precisions), in Triton and MLServer, which `inferometer run` launches, and in
KServe, which serves our image on a cluster of one node, with a CPU limit of 1.5.

Triton's Python back end and MLServer compute with ONNX Runtime too. The *rate* is what `findPeak`
finds over gRPC: the highest at which the P99 keeps {_BOUND_MILLISECONDS} ms; *not known* if it
finds none. It is no figure to rank by unless its search is VALID. The median latencies are of one
query after another.

What a protocol and its server *add* is the median latency less that of the same engine in a
process without a server, which is measured before, between and after the two. MLServer takes
binary tensors over gRPC only: its HTTP rows are of JSON. The cosine compares the outputs for
seeded inputs with those of ONNX Runtime: below 0.999 a stack is not to be ranked. Energy is *not
known* without a counter of it. Load generator and server share the machine.""",
    commands=(
        "bench/install-tools --with-triton",
        "tests/install-tools verify    # MLServer, OpenVINO, and KServe's controller",
        "make bench CASE=stacks",
        "",
        "# the same by hand, as a suite",
        "inferometer run examples/16-servers.yaml",
    ),
    sides=tuple(Side(each.name, each.require) for each in (_ONNX_RUNTIME, *_OTHERS, _KSERVE)),
    stage=_stage,
    rows=tuple(_rows()),
    minutes=14,
    repeats=1,
    is_pinned=False,
)
