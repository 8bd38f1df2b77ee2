"""Bounds and advice on a GPU, from timings of layers that an NVIDIA H200 ran."""

from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest

from inferometer_analysis.advice import Advice, Evidence, MeasuredVariant
from inferometer_analysis.bound import best_timings
from inferometer_analysis.gpu_advice import GpuTimings, advise_on_gpu, gpu_evidence
from inferometer_analysis.samples import Interval
from inferometer_api.layers.timings import LayerTimings
from inferometer_api.layers.variants import ProviderOption
from inferometer_results.layers.advice_report import (
    AdviceTrial,
    AdvisedModel,
    advice_sentences,
    model_advice,
)
from inferometer_results.layers.bound_report import BoundReport, bound_document, bound_report
from inferometer_results.layers.machine_views import bound_rows, layer_machines
from support.node_documents import a_figure, a_node_document, recorded_gpu_node

_DATA = Path(__file__).parents[2] / "data" / "layers"


def _recorded(name: str) -> LayerTimings:
    return LayerTimings.read_json((_DATA / f"h200-{name}.json").read_bytes())


def _report(name: str) -> BoundReport:
    timings = _recorded(name)
    precision = name.rpartition("-")[2]
    return bound_report("zoo://model", precision, timings.graphs[0], None, timings)


@pytest.mark.parametrize(
    "name", ["resnet50-1-TF32", "resnet50-1-FP16", "bert_base-1-TF32", "mobilenet_v2-1-TF32"]
)
def test_a_recorded_bound_covers_all_layers_and_lies_below_the_latency(name: str) -> None:
    """Each layer that takes time has a timing, some of them by a library of kernels."""
    report = _report(name)
    assert report.bound.coverage == 1.0
    assert not report.is_wrong
    assert report.fastest is not None
    assert 0.3 < report.bound.sequential_ns / report.fastest.value < 1
    assert report.bound.critical_path_ns <= report.bound.sequential_ns
    assert {"onnxruntime", "cudnn", "cublas"} & set(report.bound.by_engine) - {"onnxruntime"}
    assert report.roofline_ns is not None
    assert report.roofline_ns < report.bound.sequential_ns


def test_peaks_of_a_measured_node_raise_the_roofline_of_its_gpu() -> None:
    """Those of its model count, in the precision of the bound; others and those of CPUs do not."""
    timings = _recorded("resnet50-1-TF32")
    machine = timings.machine
    flops, bandwidth = 2 * machine.peak_flops("TF32"), 2 * machine.copy_bytes_per_second
    node = recorded_gpu_node()
    cards = [
        node.machine.gpus[0],
        node.machine.gpus[0].model_copy(update={"index": 1, "name": "NVIDIA H200 NVL"}),
    ]
    node = node.model_copy(
        update={
            "machine": node.machine.model_copy(update={"gpus": cards}),
            "figures": [
                a_figure("gpu/gemm", "flop/s", flops, precision="TF32", gpu=0),
                a_figure("gpu/gemm", "flop/s", 9 * flops, precision="TF32", gpu=1),
                a_figure("gpu/gemm", "flop/s", 9 * flops, precision="FP16", gpu=0),
                a_figure("gemm", "flop/s", 9 * flops, precision="TF32", threads=1),
                a_figure("gpu/stream/triad", "bytes/s", bandwidth, gpu=0),
                a_figure("gpu/stream/read", "bytes/s", 9 * bandwidth, gpu=1),
                a_figure("memcpy", "bytes/s", 9 * bandwidth, source=0, destination=0),
            ],
        }
    )
    other = a_node_document(figures=[a_figure("gemm", "flop/s", 1e20, precision="TF32", threads=1)])
    (own,) = bound_rows([timings], layer_machines([timings]))
    (row,) = bound_rows([timings], layer_machines([timings]), [node, other])
    assert (row.report.arithmetic.rate, row.report.bandwidth.rate) == (flops, bandwidth)
    assert own.report.roofline_ns is not None
    assert row.report.roofline_ns == pytest.approx(own.report.roofline_ns / 2)


def test_the_work_of_a_gpu_lies_between_bound_and_latency() -> None:
    """The GPU is busy for longer than the bound, and waits for the rest of the latency."""
    report = _report("resnet50-1-TF32")
    name = "onnxruntime:TF32:1"
    assert report.bound.sequential_ns < report.busy[name] < report.measured[name].value


def test_the_sentences_name_the_provider_options_and_the_noise_floor() -> None:
    """A GPU has no threads; what an empty kernel takes stands next to the figures."""
    sentences = "\n".join(bound_document(_report("resnet50-1-TF32"))["sentences"])
    assert "Coverage: 100.0 %" in sentences
    assert "by cudnn" in sentences
    assert "Measured on onnxruntime, TF32, as one CUDA graph: 0.940 ms" in sentences
    assert "The GPU works for 0.805 ms of it." in sentences
    assert "Noise floor: an empty kernel takes 0.64 µs" in sentences
    assert "thread" not in sentences


def test_the_roofline_has_the_peak_of_the_precision() -> None:
    """Products in TF32 and FP16 have peaks of their own."""
    tf32, fp16 = _report("resnet50-1-TF32"), _report("resnet50-1-FP16")
    assert tf32.arithmetic.rate == tf32.machine.flops_by_precision["TF32"]
    assert fp16.arithmetic.rate == fp16.machine.flops_by_precision["FP16"]


def test_a_view_of_a_gpu_has_the_precision_of_its_first_variant() -> None:
    """Pages of machines show it next to the models of CPUs."""
    timings = _recorded("bert_base-1-TF32")
    (row,) = bound_rows([timings], layer_machines([timings]))
    assert row.report.precision == "TF32"
    assert row.report.bound.covered > 0


def test_a_view_has_the_bounds_of_a_model_in_each_precision() -> None:
    """The model is the same in TF32 and FP32, unlike in FP16."""
    tf32 = _recorded("bert_base-1-TF32")
    name, first = next(iter(tf32.variants.items()))
    variants = {name: first.model_copy(update={"precision": "FP32"})}
    fp32 = tf32.model_copy(update={"variants": variants})
    rows = bound_rows([tf32, fp32], layer_machines([tf32]))
    assert sorted(each.report.precision for each in rows) == ["FP32", "TF32"]


def _variant(timings: LayerTimings, option: ProviderOption) -> MeasuredVariant:
    found = timings.variants[f"onnxruntime:TF32:1{option and ':' + option}"]
    rounds = tuple(found.nanoseconds)
    return MeasuredVariant(
        "onnxruntime", "TF32", 1, rounds, found.difference, device="GPU", provider_option=option
    )


def _advice(*options: ProviderOption, fp16_factor: float | None = None) -> list[Advice]:
    """Return advice with variants: recorded ones, and one in FP16 that takes a planted share."""
    single, half = _recorded("resnet50-1-TF32"), _recorded("resnet50-1-FP16")
    measured = [_variant(single, each) for each in ("", *options)]
    if fp16_factor is not None:
        rounds = tuple(round(fp16_factor * each) for each in measured[0].nanoseconds)
        model = "file:/half.onnx"
        measured.append(
            replace(
                measured[0],
                precision="FP16",
                nanoseconds=rounds,
                difference=0.002,
                rewriting="FP16",
                model=model,
            )
        )
    present = GpuTimings(
        "TF32",
        single.graphs[0],
        single.kernels,
        single.variants["onnxruntime:TF32:1"].busy_nanoseconds,
    )
    lower = GpuTimings("FP16", half.graphs[0], half.kernels)
    return advise_on_gpu(*gpu_evidence(measured, present, [lower]))


def _only(advice: list[Advice], question: str) -> Advice:
    (found,) = (each for each in advice if each.question == question)
    return found


def test_advice_follows_from_the_layers_alone() -> None:
    """Without other variants: algorithms, gaps and tensor cores, and why none is applied."""
    advice = _advice()
    assert {each.question for each in advice} >= {"Q1", "Q3", "Q4", "Q6"}
    assert all(each.why_not for each in advice)
    algorithms = _only(advice, "Q3")
    assert "cudnn IMPLICIT_PRECOMP_GEMM NHWC" in algorithms.sentence
    assert algorithms.gain.low is not None
    assert algorithms.gain.high is not None
    assert 0 < algorithms.gain.low < algorithms.gain.value < algorithms.gain.high
    assert "in FP16 the bound is" in _only(advice, "Q6").sentence


def test_the_saving_of_algorithms_is_the_difference_to_the_fastest() -> None:
    """The predicted gain adds up over the layers at their places in the model."""
    timings = _recorded("resnet50-1-TF32")
    own = {each.key: each for each in timings.kernels if each.engine == "onnxruntime"}
    best = best_timings(timings.kernels, "TF32")
    uses = [each.layer for each in timings.graphs[0].uses if each.layer in own]
    most = sum(own[key].nanoseconds - best[key].nanoseconds for key in uses)
    now = median(timings.variants["onnxruntime:TF32:1"].nanoseconds)
    gain = _only(_advice(), "Q3").gain.value
    assert 0.8 * most / now < gain <= most / now


def test_a_cuda_graph_fills_the_gaps_that_the_timings_show() -> None:
    """Both gains are about the same, and a setting applies the graph."""
    predicted = _only(_advice("ChannelsLast"), "Q4")
    measured = _only(_advice("CudaGraph", "ChannelsLast"), "Q4")
    assert "The GPU has nothing to do for" in predicted.sentence
    assert predicted.why_not == "No variant without them was measured."
    assert "one CUDA graph" in measured.sentence
    assert abs(predicted.gain.value - measured.gain.value) < 0.06
    assert measured.settings == ("spec.server.onnxRuntime.cudaGraph=true",)


def test_a_faster_model_in_fp16_replaces_the_prediction() -> None:
    """It becomes a setting; one that is not faster is named as tried."""
    faster = _only(_advice(fp16_factor=0.8), "Q6")
    assert faster.settings == ("spec.model.uri=file:/half.onnx",)
    assert faster.gain.value == pytest.approx(0.2, abs=0.001)
    assert "differ by at most 0.002" in faster.sentence
    slower = _only(_advice(fp16_factor=1.1), "Q6")
    assert slower.why_not == "Tried and not faster beyond noise: the model in FP16."


def _advised() -> AdvisedModel:
    timings = _recorded("resnet50-1-TF32")
    return AdvisedModel("zoo://model", timings.machine, Evidence(_variant(timings, ""), ()))


def test_advice_is_worded_for_a_gpu() -> None:
    """It has no threads."""
    sentences = list(advice_sentences(model_advice(_advised(), _advice())))
    assert sentences[0] == "An inference takes 2.453 ms on onnxruntime in TF32, on the GPU."


def test_a_prediction_becomes_a_share_of_the_served_latency() -> None:
    """What a server adds to an inference stays as it is: next to 4.906 ms the gain halves."""
    model = _advised()
    (piece,) = advice = [each for each in _advice("CudaGraph") if each.settings]
    served_ns = 2 * median(model.evidence.present.nanoseconds)
    report = model_advice(model, advice, AdviceTrial({0: Interval(0.25)}, served_ns=served_ns))
    assert report.served_nanoseconds == round(served_ns)
    assert report.advice[0].predicted_served_gain == piece.gain.value / 2
    expected = f"predicted of that: {50 * piece.gain.value:.1f} %"
    assert any(each.endswith(expected) for each in advice_sentences(report))
