"""The roofline of a bound takes the peaks of the node's own benchmark, if they are higher."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from inferometer_api.layers.graph import LayerGraph
from inferometer_api.layers.timings import KernelTiming, LayerTimings, VariantTiming
from inferometer_api.nodes.characteristics import NodeFigure
from inferometer_results.layers.bound_report import (
    BoundReport,
    bound_document,
    bound_report,
    bound_sentences,
)
from inferometer_results.layers.machine_views import bound_rows, layer_machines
from support.layer_graphs import MACHINE, layer_graph
from support.node_documents import a_figure, a_node_document

_GRAPH = layer_graph(("Relu", [0], [1]), weights={"Relu": 1000})
_PRODUCT = a_figure("gemm", "flop/s", 2e11, precision="FP32", engine="openvino", threads=1)
_COPY = a_figure("memcpy", "bytes/s", 50e9, source=0, destination=0, bytes=65536)


def _report(*figures: NodeFigure, threads: int = 1, graph: LayerGraph = _GRAPH) -> BoundReport:
    machine = MACHINE.model_copy(
        update={"flops_per_second": 1e11, "copy_bytes_per_second": 40e9, "threads": threads}
    )
    variant = VariantTiming(nanoseconds=[9000], precision="FP32", version="1", difference=0.0)
    measured = LayerTimings(machine=machine, seconds=1.0, variants={"onnxruntime:FP32:1": variant})
    node = [a_node_document(figures=list(figures))] if figures else []
    return bound_report("net", "FP32", graph, None, measured, node)


def _control_flow() -> LayerGraph:
    """Return two loops and a choice."""
    graph = layer_graph(("Loop", [0], [1]), ("If", [1], [2]), ("Loop", [2], [3]))
    inner = {
        name: layer.model_copy(update={"attributes": [{"name": "body", "g": {}}]})
        for name, layer in graph.layers.items()
    }
    return graph.model_copy(update={"layers": inner, "layout": "Plain"})


def _peaks(*figures: NodeFigure, threads: int = 1) -> tuple[float, float]:
    found = bound_document(_report(*figures, threads=threads))
    return found["flopsPerSecond"], found["bytesPerSecond"]


def _roofline(report: BoundReport) -> str:
    return next(each for each in bound_sentences(report) if each.startswith("Roofline"))


def test_without_a_node_benchmark_the_own_probes_count() -> None:
    """Both peaks are those of the measurement itself."""
    assert _peaks() == (1e11, 40e9)
    assert _roofline(_report()).endswith("at 100.0 GFLOP/s and 40.0 GB/s, as measured here.")


@pytest.mark.parametrize(("roofline_ns", "is_wrong"), [(8_900.0, False), (9_100.0, True)])
def test_a_roofline_above_the_latency_is_wrong(roofline_ns: float, *, is_wrong: bool) -> None:
    """An inference takes 9,000 ns: the peaks were measured too low, and that is not hidden."""
    report = replace(_report(), roofline_ns=roofline_ns)
    sentences = list(bound_sentences(report))
    assert any(each.startswith("Roofline wrong: it lies above") for each in sentences) == is_wrong
    assert bound_document(report)["rooflineWrong"] is is_wrong


def test_layers_without_a_roofline_are_named() -> None:
    """The work of control flow is not known: the reader sees what the roofline takes for free."""
    report = _report(graph=_control_flow())
    assert (
        "Free in the roofline: 3 layers (2 Loop, 1 If), whose work is not known."
        in bound_sentences(report)
    )
    assert bound_document(report)["layersWithoutRoofline"] == {"Loop": 2, "If": 1}
    assert not any("Free in" in each for each in bound_sentences(_report()))


def test_higher_peaks_of_the_node_count() -> None:
    """A copy reads and writes each byte. The roofline is lower, and says where they are from."""
    report = _report(_PRODUCT, _COPY)
    words = "at 200.0 GFLOP/s and 100.0 GB/s, as measured by `inferometer node` on 2026-01-01."
    assert _roofline(report).endswith(words)
    assert _peaks(_PRODUCT, _COPY) == (2e11, 100e9)
    before = _report().roofline_ns
    assert before is not None
    assert report.roofline_ns == pytest.approx(before * 40 / 100)


def test_one_peak_of_the_node_is_named() -> None:
    """The other is that of the measurement itself."""
    sentence = _roofline(_report(_PRODUCT))
    assert sentence.endswith(
        "as measured here, the arithmetic by `inferometer node` on 2026-01-01."
    )


@pytest.mark.parametrize(
    "figures",
    [
        [a_figure("gemm", "flop/s", 5e10, precision="FP32", threads=1)],
        [a_figure("gemm", "flop/s", 9e11, precision="INT8", threads=1)],
        [a_figure("gemm", "flop/s", 9e11, precision="FP32", threads=2)],
        [a_figure("memcpy", "bytes/s", 19e9, source=0, destination=0, bytes=65536)],
        [a_figure("memcpy", "bytes/s", 90e9, source=0, destination=1, bytes=65536)],
        [a_figure("stream/add", "bytes/s", 90e9, threads=2)],
        [a_figure("stream/add", "bytes/s", 90e9, threads=1, node=1)],
    ],
)
def test_peaks_of_other_conditions_do_not_count(figures: Sequence[NodeFigure]) -> None:
    """Nor lower ones, as of a busy machine: the roofline would be above what is possible."""
    assert _peaks(*figures) == (1e11, 40e9)


def test_the_explorer_takes_the_peaks_of_equal_machines_alone() -> None:
    """Equal are processor, number of CPUs and kernel, as in the name that timings have."""
    name = "A CPU, 2 CPUs, AVX-512 VNNI, Linux 6.18"
    machine = MACHINE.model_copy(update={"name": name, "copy_bytes_per_second": 1.0})
    machine = machine.model_copy(update={"flops_per_second": 1.0})
    variant = VariantTiming(nanoseconds=[9000], precision="FP32", version="1", difference=0.0)
    graph = _GRAPH.model_copy(update={"layout": "Plain"})
    timings = LayerTimings(
        machine=machine, seconds=1.0, variants={"onnxruntime:FP32:1": variant}, graphs=[graph]
    )
    for document, rate in (
        (a_node_document(figures=[_PRODUCT]), 2e11),
        (a_node_document(figures=[_PRODUCT], cpu_model="Another CPU"), 1.0),
        (a_node_document(figures=[_PRODUCT], cpu_model="A"), 1.0),
    ):
        (row,) = bound_rows([timings], layer_machines([timings]), [document])
        assert row.report.arithmetic.rate == rate


def test_peaks_are_those_of_as_many_threads() -> None:
    """A copy is by one thread; a loop of STREAM and a product are by all of theirs."""
    assert _peaks(_COPY, threads=2) == (1e11, 200e9)
    loop = a_figure("stream/add", "bytes/s", 90e9, threads=2)
    assert _peaks(loop, threads=2) == (1e11, 90e9)


def test_layers_of_0_ns_are_named_with_the_bound_that_they_would_have() -> None:
    """The reader sees what an engine ran in place, and the bound if that is not to be had."""
    graph = layer_graph(("Relu", [0], [1]), ("Concat", [1], [2]), ("Add", [2], [3]))
    timings = {"Relu": [4e6, 5e6], "Concat": [2e6, 0.0], "Add": [1e6, 3e6]}
    kernels = [
        KernelTiming(key=use.layer, engine=engine, precision="", nanoseconds=nanoseconds)
        for use in graph.uses
        for engine, nanoseconds in zip(
            ("onnxruntime", "openvino"), timings[graph.layers[use.layer].operator], strict=True
        )
    ]
    measured = LayerTimings(machine=MACHINE, seconds=1.0, kernels=kernels)
    report = bound_report("net", "FP32", graph, None, measured)
    sentences = list(bound_sentences(report))
    assert sentences[1:4] == [
        "Sequential bound: 5.000 ms (fastest layers: 2 by onnxruntime).",
        (
            "Free in it: 1 layer (1 Concat), for which openvino reports 0 ns: run in place, or too "
            "short for its counters."
        ),
        "With the fastest timing above 0 of each, the sequential bound is 7.000 ms.",
    ]
    document = bound_document(report)
    assert document["layersWithoutKernel"] == {"Concat": 1}
    assert document["kernelsNanoseconds"] == 7_000_000
