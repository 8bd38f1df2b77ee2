"""Analyses A8 to A15 on kernels that CUPTI recorded on an H200, in report, table and files."""

import csv
from io import StringIO

import pytest

from inferometer_api.results.result import StepProfile
from inferometer_results.analyses import ANALYSES, analysis_documents, analysis_files
from inferometer_results.gpu_kernels import (
    gpu_kernels,
    gpu_row_of_model,
    gpu_rows_by_layer,
    gpu_rows_by_name,
    gpu_sentences,
    layer_work,
    processor_of,
)
from inferometer_results.profile import profiled_steps, sentences_of
from inferometer_results.report import render_report
from support.profiled_results import a_profiled_result
from support.recorded_kernels import MODEL_NS, recorded_profile


def test_a10_and_a15_sum_to_the_time_of_the_gpu() -> None:
    """All kernels and copies are in one row by name, and together in that of the model."""
    profile = recorded_profile()
    total = sum(each.latency_ns for each in gpu_kernels(profile))
    by_name = gpu_rows_by_name(profile).values()
    assert sum(row.latency_ns for row in by_name) == pytest.approx(total)
    model = gpu_row_of_model(profile)
    assert (model.latency_ns, model.count) == (total, len(profile.kernels))
    assert model.latency_share == pytest.approx(total / MODEL_NS)
    assert 0.2 < model.latency_share < 0.5


def test_the_flops_of_the_model_are_those_of_the_zoo() -> None:
    """SqueezeNet 1.1 has 349,151,936 multiply-accumulates, two flops each."""
    assert gpu_row_of_model(recorded_profile()).flops == 2 * 349_151_936


def test_a11_to_a14_have_each_layer_that_launched() -> None:
    """Convolutions have work and a bound; what a layer takes beyond its kernels is the rest."""
    profile = recorded_profile()
    rows = gpu_rows_by_layer(profile)
    assert [each.row.latency_ns for each in rows] == sorted(
        (each.row.latency_ns for each in rows), reverse=True
    )
    convolutions = [each for each in rows if each.layer and each.layer.operator == "Conv"]
    assert len(convolutions) == 26
    for each in convolutions:
        assert each.other_ns is not None
        assert each.other_ns > 0
        assert each.row.flops == layer_work(profile)[each.layer.index if each.layer else -1][0]
        assert each.bound in {"memory", "compute"}
    none = next(each for each in rows if each.layer is None)
    assert (none.other_ns, none.row.flops, none.row.count) == (None, None, 2)


def test_a_kernel_has_work_if_it_is_the_only_one_of_its_layer() -> None:
    """Of several kernels in one layer no counter says which does what; a copy moves its bytes."""
    profile = recorded_profile()
    layers = {each.index: each.operator for each in profile.layers}
    for kernel, each in zip(gpu_kernels(profile), profile.kernels, strict=True):
        alone = sum(other.layer == each.layer for other in profile.kernels) == 1
        if each.kind != "Kernel":
            assert kernel.flops == 0
            assert (kernel.read_bytes or 0) + (kernel.written_bytes or 0) >= (each.moved_bytes or 0)
        elif alone:
            assert kernel.flops is not None
            assert each.layer is not None
            assert (kernel.flops == 0) == (layers[each.layer] != "Conv")
        else:
            assert kernel.flops is None


def test_an_operator_without_a_formula_leaves_the_work_unknown() -> None:
    """One such layer, and the flops of the model are not known; nothing is guessed."""
    profile = recorded_profile()
    layers = [
        each.model_copy(update={"operator": "Attention"}) if each.operator == "MaxPool" else each
        for each in profile.layers
    ]
    other = profile.model_copy(update={"layers": layers})
    assert gpu_row_of_model(other).flops is None
    assert any("flops are not known" in line for line in gpu_sentences(other))


def test_rooflines_need_the_peaks_of_the_gpu() -> None:
    """On tensor cores those of TF32; of FP16 there, or of a GPU that is not known, none."""
    gpu = recorded_profile().gpu
    assert gpu is not None
    fast, plain = (processor_of(gpu, each) for each in (["float"], []))
    assert fast is not None
    assert plain is not None
    assert fast.ideal_intensity == pytest.approx(8 * plain.ideal_intensity)
    for hidden in ({"fp32_flops_per_second": None}, {"bytes_per_second": 0}):
        assert processor_of(gpu.model_copy(update=hidden), []) is None
    assert processor_of(None, ["float"]) is None
    assert processor_of(gpu, ["float", "float16"]) is None


def test_layers_in_fp16_on_tensor_cores_have_no_bound() -> None:
    """The peak of TF32 is half of theirs: they would seem to be at the roofline, or beyond it."""
    profile = recorded_profile()
    on_cores = {each.layer for each in profile.kernels if each.tensor_cores}
    halves = [
        each.model_copy(
            update={
                "inputs": [one.model_copy(update={"datatype": "float16"}) for one in each.inputs]
            }
        )
        for each in profile.layers
    ]
    rows = gpu_rows_by_layer(profile.model_copy(update={"layers": halves}))
    known = {each.layer.index: each.bound for each in rows if each.layer is not None}
    assert {known[layer] for layer in on_cores if layer is not None} == {""}
    assert {known[layer] for layer in known.keys() - on_cores} & {"memory", "compute"}


def test_sentences_have_the_overhead_of_each_level() -> None:
    """Of the layers with their waits, and of layers and kernels together."""
    [each] = profiled_steps(a_profiled_result(recorded_profile()))
    text = "\n".join([*sentences_of(each), *gpu_sentences(each.profile)])
    assert "The profiler of the layers and the wait for each kernel add 0.8" in text
    assert "The profilers of layers and kernels together add 1." in text
    assert "in 103 kernels and copies" in text
    assert "TFLOP/s" in text
    assert list(gpu_sentences(each.profile.model_copy(update={"kernels": []}))) == []


def test_the_report_has_kernels_and_their_layers() -> None:
    """Both tables are in the page, without those of the engine's own kernels."""
    page = render_report(a_profiled_result(recorded_profile()))
    assert all(f"{analysis.title}" in page for analysis in ANALYSES)
    assert "The GPU&#39;s kernels by name" in page
    assert "The GPU&#39;s work by layer" in page
    assert "_UnaryElementWise" in page
    assert "no layer: copies of inputs and outputs" in page


def test_csv_and_rows_have_each_kernel() -> None:
    """The longest first, with launch geometry and computed work."""
    found = analysis_documents(a_profiled_result(recorded_profile()))
    rows = found["a8"]["rows"]
    assert len(rows) == 103
    assert [row["nanoseconds"] for row in rows] == sorted(
        (row["nanoseconds"] for row in rows), reverse=True
    )
    assert all(each["rows"] for each in found.values())
    files = analysis_files(a_profiled_result(recorded_profile()))
    assert len(files) == 15
    read = list(csv.DictReader(StringIO(files["a8-gpu-kernel-information-table.csv"])))
    assert read[0]["name"] == rows[0]["name"]
    kernel = next(row for row in rows if row["kind"] == "Kernel")
    assert kernel["layerName"]
    assert kernel["grid"].count("x") == 2
    (model,) = found["a15"]["rows"]
    assert model["computedFlops"] == gpu_row_of_model(recorded_profile()).flops
    by_layer = gpu_rows_by_layer(recorded_profile())
    assert [row["flopsPerByte"] for row in found["a14"]["rows"]] == [
        each.row.intensity for each in by_layer
    ]
    assert analysis_files(a_profiled_result(StepProfile())) == {}
