"""Advice on a GPU follows from planted timings of layers."""

import pytest

from inferometer_analysis.advice import Advice, Evidence, MeasuredVariant
from inferometer_analysis.bound import Bound, PathTimes
from inferometer_analysis.gpu_advice import GpuEvidence, advise_on_gpu
from inferometer_analysis.layer_work import GraphLayer
from inferometer_api.layers.timings import KernelTiming

_PRESENT = MeasuredVariant("onnxruntime", "TF32", 1, (100_000,) * 7, device="GPU")
_LAYERS = [
    GraphLayer(0, "first", "Conv", "conv"),
    GraphLayer(1, "second", "Conv", "conv", (0,)),
    GraphLayer(2, "last", "Softmax", "softmax", (1,)),
]


def _timing(
    engine: str,
    nanoseconds: float,
    spread: float,
    precision: str = "TF32",
    *,
    on_cores: bool = True,
) -> KernelTiming:
    return KernelTiming(
        key="",
        engine=engine,
        precision=precision,
        nanoseconds=nanoseconds,
        algorithm="WINOGRAD" if engine == "cudnn" else "",
        uses_tensor_cores=on_cores and precision != "",
        spread_nanoseconds=spread,
    )


def _bound(sequential_ns: float) -> Bound:
    low, high = (PathTimes(each * sequential_ns, each * sequential_ns) for each in (0.9, 1.1))
    return Bound(sequential_ns, sequential_ns, 3, 3, (), {}, (low, high))


def _advice(
    best: KernelTiming,
    own: KernelTiming,
    busy_ns: float = 100_000,
    busy_spread_ns: float | None = 1349.0,
    fp16_ns: float = 60_000,
    others: tuple[MeasuredVariant, ...] = (),
) -> dict[str, Advice]:
    softmax = _timing("onnxruntime", 20_000, 0, "")
    gpu = GpuEvidence(
        _LAYERS,
        {"conv": own, "softmax": softmax},
        {"conv": best, "softmax": softmax},
        busy_ns,
        {"FP16": _bound(fp16_ns)},
        busy_spread_ns,
    )
    found = advise_on_gpu(Evidence(_PRESENT, others, bound=_bound(60_000)), gpu)
    return {each.question: each for each in found}


def test_a_faster_algorithm_counts_at_each_place_of_its_layer() -> None:
    """Two convolutions save 10 us each; the interval follows from the quartiles."""
    advice = _advice(_timing("cudnn", 20_000, 300), _timing("onnxruntime", 30_000, 400))["Q3"]
    assert "2 layers have a faster algorithm, which saves 0.020 ms" in advice.sentence
    assert "first (Conv) by cudnn WINOGRAD in 20.0 instead of 30.0 µs" in advice.sentence
    assert advice.gain.value == 0.2
    assert advice.gain.high is not None
    assert round(advice.gain.high - 0.2, 6) == round(500 * 2**0.5 / 100_000, 6)


def test_advice_says_why_no_setting_takes_the_algorithm() -> None:
    """ONNX Runtime chooses among those of cuDNN, and has none on matrix units."""
    own = _timing("onnxruntime", 30_000, 0)
    of_library = _advice(_timing("cudnn", 20_000, 0), own)["Q3"].why_not
    of_sums = _advice(_timing("matrix-units", 20_000, 0), own)["Q3"].why_not
    assert of_library.startswith("ONNX Runtime chooses the algorithms")
    assert "matrix units" not in of_library
    assert of_sums.startswith("No engine has kernels on matrix units for sums")


def test_a_difference_within_the_noise_is_no_advice() -> None:
    """The quartiles overlap."""
    assert "Q3" not in _advice(
        _timing("cudnn", 20_000, 9_000), _timing("onnxruntime", 30_000, 8_000)
    )


def test_a_gpu_that_is_busy_throughout_has_no_gaps() -> None:
    """Otherwise the gain is the share of the time in which it waits."""
    own = _timing("onnxruntime", 30_000, 0)
    assert "Q4" not in _advice(own, own)
    found = _advice(own, own, busy_ns=25_000)["Q4"]
    assert found.gain.value == 0.75
    assert (found.gain.low, found.gain.high) == pytest.approx((0.75 - 0.0196, 0.75 + 0.0196))
    without = _advice(own, own, busy_ns=25_000, busy_spread_ns=None)["Q4"]
    assert (without.gain.low, without.gain.high) == (None, None)
    assert "no spread" in without.why_no_interval


def test_tensor_cores_are_counted_among_the_layers_that_multiply() -> None:
    """The gain is the difference of the bounds; without one there is no advice."""
    own = _timing("onnxruntime", 30_000, 0, on_cores=False)
    advice = _advice(own, own, fp16_ns=45_000)["Q6"]
    assert "2 of 2 layers that multiply matrices run without tensor cores (0.060 ms)" in (
        advice.sentence
    )
    assert advice.gain.value == 0.15
    assert (advice.gain.low, advice.gain.high) == pytest.approx((0.54 - 0.495, 0.66 - 0.405))
    assert advice.why_not == "The model in FP16 was not measured."
    assert "Q6" not in _advice(own, own)


def test_fp32_instead_of_tf32_is_a_setting() -> None:
    """The provider allows TF32 by default."""
    own = _timing("onnxruntime", 30_000, 0)
    faster = MeasuredVariant("onnxruntime", "FP32", 1, (50_000,) * 7, device="GPU")
    advice = _advice(own, own, others=(faster,))["Q6"]
    assert advice.settings == ("spec.server.onnxRuntime.tf32=false",)
