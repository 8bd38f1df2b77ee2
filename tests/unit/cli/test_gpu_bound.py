"""`inferometer bound --device GPU` with what an NVIDIA H200 ran, and without a GPU."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from inferometer_analysis.layer_work import is_view
from inferometer_api.layers.advice import ModelAdvice
from inferometer_api.layers.timings import LayerTimings
from inferometer_cli.commands import advise as advise_command
from inferometer_cli.commands import bound as bound_command
from inferometer_cli.commands import serve
from inferometer_cli.exits import RefusedError
from inferometer_cli.local import gpu_evidence, layers
from inferometer_cli.local.layers import LayerSettings, TimingRequest
from inferometer_cli.result_store import open_store
from inferometer_results.store.advice import advice_sources
from support.onnx_models import identity, save

_RECORDED = Path(__file__).parents[2] / "data" / "layers"
_ENGINES = {
    "onnxruntime": "1.31.1",
    "cudnn": "9.19.0",
    "cublas": "13.1.0",
    "matrix-units": "0.1.0",
}


def _recorded(precision: str) -> LayerTimings:
    return LayerTimings.read_json((_RECORDED / f"h200-resnet50-1-{precision}.json").read_bytes())


class RecordedGpu:
    """Answers requests for timings with what was recorded."""

    def __init__(self) -> None:
        self.requests: list[TimingRequest] = []
        self.slowness: list[float] = []
        """By how much kernels are slower in each request; in later ones they are as recorded."""
        self.has_spreads = True

    def time_layers(self, request: TimingRequest, _: Callable[[int, int], None]) -> LayerTimings:
        """Return the timings of a precision, of the layers that are wanted."""
        self.requests.append(request)
        found = _recorded(request.precision)
        wanted = request.suite.bricks
        names = {each.name for each in request.variants}
        slowness = self.slowness.pop(0) if self.slowness else 1.0
        return found.model_copy(
            update={
                "graphs": [],
                "kernels": [
                    each.model_copy(
                        update={
                            "nanoseconds": slowness * each.nanoseconds,
                            **({} if self.has_spreads else {"spread_nanoseconds": None}),
                        }
                    )
                    for each in found.kernels
                    if each.key in wanted
                ],
                "variants": {name: each for name, each in found.variants.items() if name in names},
            }
        )


@pytest.fixture(name="gpu")
def _gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> RecordedGpu:
    found = RecordedGpu()
    graphs = {"TF32": _recorded("TF32").graphs[0], "FP16": _recorded("FP16").graphs[0]}
    half = tmp_path / "half.onnx"
    monkeypatch.setattr(layers, "time_layers", found.time_layers)
    monkeypatch.setattr(layers, "gpu_name", lambda: _recorded("TF32").machine.name)
    monkeypatch.setattr(layers, "engines_here", lambda _: _ENGINES)
    monkeypatch.setattr(layers, "rewritten_model", lambda *_: half)
    monkeypatch.setattr(
        layers, "describe_model", lambda path, _: graphs["FP16" if path == half else "TF32"]
    )
    return found


@pytest.fixture(name="model")
def _model(tmp_path: Path) -> str:
    model = tmp_path / "model.onnx"
    save(identity(), model)
    return str(model)


def test_layers_are_timed_once_by_the_engines_of_a_gpu(
    gpu: RecordedGpu, model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The database knows them by GPU, driver and engines; another precision has its own."""
    database = str(tmp_path / "layers.db")
    for precision in ("TF32", "TF32", "FP16"):
        bound_command.bound(model, device="GPU", fill=True, precision=precision, database=database)
    first, second, third = gpu.requests
    graph = _recorded("TF32").graphs[0]
    assert set(first.suite.bricks) == {
        key for key, layer in graph.layers.items() if not is_view(layer)
    }
    assert first.engines == ("onnxruntime", "cudnn", "cublas", "matrix-units")
    assert first.settings.arguments[-2:] == ("--device", "GPU")
    assert [each.provider_option for each in first.variants] == ["", "CudaGraph", "ChannelsLast"]
    assert second.suite.bricks == {}
    assert third.suite.bricks
    assert {each.model.name for each in third.variants} == {"half.onnx"}
    assert capsys.readouterr().out.count("Coverage: 100.0 %") == 3


@pytest.mark.parametrize(
    ("slowness", "milliseconds", "is_wrong"),
    [([100.0, 1.0], "0.460", False), ([3.0, 9.0], "1.379", True)],
)
def test_the_layers_of_a_wrong_bound_are_timed_once_more(
    gpu: RecordedGpu,
    model: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    *,
    slowness: list[float],
    milliseconds: str,
    is_wrong: bool,
) -> None:
    """The machine was slower meanwhile. The fastest timing of each layer counts, and is kept."""
    gpu.slowness = slowness
    for fill in (True, False):
        database = str(tmp_path / "layers.db")
        bound_command.bound(model, device="GPU", fill=fill, precision="TF32", database=database)
        shown = capsys.readouterr()
        assert ("Timing all layers once more" in shown.err) == fill
        assert f"Sequential bound: {milliseconds} ms" in shown.out
        assert ("Bound wrong" in shown.out) == is_wrong
    first, second, third = gpu.requests
    assert second.suite.bricks == first.suite.bricks
    assert [len(each.variants) for each in (first, second, third)] == [3, 0, 3]
    assert third.suite.bricks == {}


def test_timings_of_an_earlier_version_are_replaced(
    gpu: RecordedGpu, model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They have no spread. Later ones count, also if they are slower."""
    gpu.slowness = [0.9, 1.0]
    for has_spreads, milliseconds in ((False, "0.414"), (True, "0.460"), (True, "0.460")):
        gpu.has_spreads = has_spreads
        database = str(tmp_path / "layers.db")
        bound_command.bound(model, device="GPU", fill=True, precision="TF32", database=database)
        shown = capsys.readouterr().out
        assert f"Sequential bound: {milliseconds} ms" in shown
        assert ("(95 %: " in shown) is has_spreads
    first, second, third = gpu.requests
    assert second.suite.bricks == first.suite.bricks
    assert third.suite.bricks == {}


def test_advice_on_a_gpu_compares_the_bounds_of_two_precisions(
    gpu: RecordedGpu, model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """TF32 is what ONNX Runtime does by default; the model in FP16 is the lower one.

    What settings apply stands with them.
    """
    advise_command.advise(model, device="GPU", database=str(tmp_path / "layers.db"))
    shown = capsys.readouterr().out
    assert "in FP16 the bound is 0.342 instead of 0.460 ms" in shown
    assert "--set spec.server.onnxRuntime.cudaGraph=true" in shown
    assert "--set spec.server.onnxRuntime.channelsLast=true" in shown
    assert [each.precision for each in gpu.requests] == ["TF32", "FP16"]
    with open_store(str(tmp_path / "layers.db")) as store:
        (kept,) = (
            each.document
            for each in advice_sources(store)
            if isinstance(each.document, ModelAdvice)
        )
    assert (kept.model, kept.device) == (f"file:{model}", "GPU")
    assert {each.question for each in kept.advice} >= {"Q1", "Q3", "Q4", "Q6"}


def _unexpected(*values: object) -> None:
    raise AssertionError(values)


@contextmanager
def _refusal(words: str) -> Iterator[None]:
    with pytest.raises(RefusedError, match=words):
        yield


def test_a_precision_of_the_other_device_is_refused(model: str) -> None:
    """The sentence names those of this device."""
    with _refusal("--precision BF16 is not for --device GPU: use TF32 or FP32 or FP16"):
        bound_command.bound(model, device="GPU", precision="BF16")
    with _refusal("--precision TF32 is not for --device CPU: use FP32 or BF16"):
        bound_command.bound(model, precision="TF32")


def test_threads_are_refused_on_a_gpu(model: str) -> None:
    """The database would keep the timings as those of one thread."""
    with _refusal("--threads is for --device CPU"):
        bound_command.bound(model, device="GPU", threads=4)


def test_a_machine_without_a_gpu_says_what_is_missing(
    model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is fetched, rewritten or measured."""
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    monkeypatch.setattr(serve, "fetched_model", _unexpected)
    monkeypatch.setattr(gpu_evidence, "fetched_model", _unexpected)
    with _refusal("There is no GPU to measure on: cuda-bindings is not installed. Install"):
        bound_command.bound(model, device="GPU", precision="FP16")
    with _refusal("There is no GPU to measure on: cuda-bindings is not installed. Install"):
        advise_command.advise(model, device="GPU")


@pytest.mark.parametrize("precision", ["FP32", "TF32", "FP16"])
def test_the_process_that_times_layers_knows_each_precision_of_a_gpu(precision: str) -> None:
    """It gets as far as the GPU, which is missing."""
    request = TimingRequest(LayerSettings(device="GPU"), precision=precision)
    with _refusal("The layers cannot be timed on a GPU: "):
        layers.time_layers(request, lambda *_: None)


def test_tf32_is_refused_on_a_cpu() -> None:
    """By the process that times layers too, with what to choose."""
    request = TimingRequest(LayerSettings(), precision="TF32")
    with _refusal("TF32 is a precision of GPUs: choose FP32 or BF16 on a CPU"):
        layers.time_layers(request, lambda *_: None)
