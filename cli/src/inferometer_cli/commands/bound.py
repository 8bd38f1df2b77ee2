"""`inferometer bound`: the best latency that the layers of a model allow on this machine."""

import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from inferometer_cli.commands.layer_options import (
    BatchSizeOption,
    DeviceOption,
    JsonOption,
    ModelArgument,
    ProgressPrinter,
    ShapeOption,
    ThreadsOption,
    read_shapes,
)
from inferometer_cli.exits import RefusedError
from inferometer_cli.quick_run import model_uri
from inferometer_cli.result_store import DatabaseOption, open_store
from inferometer_cli.terminal import print_message, print_output

if TYPE_CHECKING:
    from inferometer_api.layers.bricks import BrickSuite
    from inferometer_api.layers.graph import LayerGraph
    from inferometer_api.layers.timings import KernelTiming, LayerTimings
    from inferometer_api.layers.variants import ModelVariant, ProviderOption
    from inferometer_cli.local.layers import LayerSettings
    from inferometer_results.store.store import Store

ENGINES = ("onnxruntime", "openvino")
GPU_ENGINES = ("onnxruntime", "cudnn", "cublas", "matrix-units")
_FillOption = Annotated[
    bool,
    typer.Option("--fill", help="Benchmark the layers that the database lacks, and keep them."),
]
_PrecisionOption = Annotated[
    Literal["FP32", "BF16", "TF32", "FP16"] | None,
    typer.Option(
        "--precision",
        help="A bound joins timings of one effective precision. On a CPU FP32 (the default) or "
        "BF16; on a GPU FP32, TF32 (the default: FP32 whose products may be in TF32) or FP16 (of "
        "the model rewritten in FP16).",
        show_default=False,
    ),
]
_PRECISIONS: dict[str, tuple[str, ...]] = {"CPU": ("FP32", "BF16"), "GPU": ("TF32", "FP32", "FP16")}
"""Of each device, the default first."""
_RoundsOption = Annotated[
    int, typer.Option("--rounds", min=3, max=1000, metavar="N", help="Rounds of measurement.")
]


def bound(  # noqa: PLR0913 - one argument for each option
    model: ModelArgument,
    *,
    fill: _FillOption = False,
    device: DeviceOption = "CPU",
    threads: ThreadsOption = 1,
    batch_size: BatchSizeOption = 1,
    precision: _PrecisionOption = None,
    rounds: _RoundsOption = 7,
    warm_up_shape: ShapeOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> None:
    """Show the best latency of a model on this machine, next to the latency that it has.

    The lower bound is the sum of the fastest known timings of all layers, by ONNX Runtime and
    OpenVINO, or on a GPU by ONNX Runtime's CUDA provider, cuDNN, cuBLAS and sums on matrix units;
    the critical path is what unlimited parallelism would leave of it. The roofline follows from the
    machine's peak arithmetic and bandwidth, as measured now or, if that is more, by inferometer
    node in the last 30 days. On a GPU, inputs and outputs stay in its memory. --fill times the
    layers that the database lacks, which takes about a minute for 100 different layers on a CPU.
    """
    from inferometer_api.layers.variants import ModelVariant
    from inferometer_cli.commands.serve import fetched_model
    from inferometer_cli.local.files import check_manifest_of
    from inferometer_cli.local.layers import LayerSettings, gpu_name
    from inferometer_cli.local.node_documents import recent_measurements
    from inferometer_results.layers.bound_report import bound_document, bound_report

    uri = model_uri(model)
    check_manifest_of(model, device)
    wanted = _checked_precision(device, precision, threads)
    settings = LayerSettings(batch_size, threads, "Plain", read_shapes(warm_up_shape), device)
    if device == "GPU":
        gpu_name()  # before anything is fetched or rewritten
    with tempfile.TemporaryDirectory(prefix="inferometer-") as folder:
        file = fetched_model(uri, None, Path(folder)).path
        with open_store(database) as store:
            if device == "GPU":
                request = gpu_bound_request(file, settings, wanted, rounds, fill=fill)
            else:
                variants = tuple(ModelVariant(file, engine, wanted, threads) for engine in ENGINES)
                request = BoundRequest(settings, wanted, variants, rounds, fill=fill)
            found = measure_bound(store, request.variants[0].model, request)
            node = recent_measurements(store)
    document = bound_document(
        bound_report(uri, wanted, found.graph, found.known, found.measured, node)
    )
    if json:
        import orjson

        print_output(orjson.dumps(document, option=orjson.OPT_INDENT_2).decode())
        return
    print_output("\n".join(document["sentences"]))


def _checked_precision(device: str, precision: str | None, threads: int) -> str:
    """Return the precision of a bound.

    Raises RefusedError if the device does not support it, or has no such number of threads.
    """
    if device == "GPU" and threads != 1:
        raise RefusedError(
            "--threads is for --device CPU: one thread launches the kernels of a GPU. Leave it out."
        )
    known = _PRECISIONS[device]
    if precision is None:
        return known[0]
    if precision not in known:
        raise RefusedError(
            f"--precision {precision} is not for --device {device}: use {' or '.join(known)}."
        )
    return precision


@dataclass(frozen=True, slots=True)
class BoundRequest:
    """What is measured for the bounds of a model."""

    settings: "LayerSettings"
    precision: str
    variants: "tuple[ModelVariant, ...]"
    rounds: int
    fill: bool
    """Whether layers without a timing are timed."""

    @property
    def engines(self) -> tuple[str, ...]:
        """The engines whose kernels are timed, if they are installed."""
        return ENGINES if self.settings.device == "CPU" else GPU_ENGINES


def gpu_bound_request(
    file: Path, settings: "LayerSettings", precision: str, rounds: int, *, fill: bool
) -> BoundRequest:
    """Return what is measured for the bounds on a GPU: for FP16, the rewritten model.

    Raises RefusedError if the model cannot be rewritten.
    """
    from inferometer_api.layers.variants import ModelVariant
    from inferometer_cli.local.layers import rewritten_model

    model = rewritten_model(file, "FP16", on_cpu(settings)) if precision == "FP16" else file
    options: tuple[ProviderOption, ...] = ("", "CudaGraph", "ChannelsLast")
    variants = tuple(
        ModelVariant(model, precision=precision, provider_option=each) for each in options
    )
    return BoundRequest(settings, precision, variants, rounds, fill=fill)


def on_cpu(settings: "LayerSettings") -> "LayerSettings":
    """Return settings with the device CPU, on which models are rewritten."""
    return replace(settings, device="CPU")


@dataclass(frozen=True, slots=True)
class BoundMeasurement:
    """The layers of a model, what the database knew, and what was measured now."""

    graph: "LayerGraph"
    known: "LayerTimings | None"
    measured: "LayerTimings"


def measure_bound(store: "Store", file: Path, request: BoundRequest) -> BoundMeasurement:
    """Measure the whole model, and its layers that the database lacks; keep the timings.

    A bound that lies above the latency is wrong: then all layers are timed once more, if layers are
    to be timed at all, and the fastest timing of each counts.
    """
    from inferometer_cli.local.layers import (
        TimingRequest,
        describe_model,
        engines_here,
        keep_here,
        known_here,
        time_layers,
    )
    from inferometer_results.layers.bound_report import bound_report

    device = request.settings.device
    known = known_here(store, request.settings.threads, device)
    graph = describe_model(file, request.settings)
    installed = engines_here(device)
    timing = TimingRequest(
        request.settings,
        suite=_missing_layers(graph, known, request, installed),
        variants=request.variants,
        engines=tuple(each for each in request.engines if each in installed),
        precision=request.precision,
        rounds=request.rounds,
    )
    count = len(timing.suite.bricks)
    words = f"{count} layers that the database lacks, and the model" if count else "the model"
    print_message(f"Measuring {words}...")
    measured = time_layers(timing, ProgressPrinter())
    keep_here(store, measured, [graph])
    known = known and _not_timed_again(known, measured)
    found = BoundMeasurement(graph, known, measured)
    is_wrong = bound_report("", request.precision, graph, known, measured).is_wrong
    if not (request.fill and is_wrong):
        return found
    every = _missing_layers(graph, None, request, installed)
    # The machine was slower while its layers were timed, for example.
    print_message("The bound lies above the latency. Timing all layers once more...")
    again = time_layers(replace(timing, suite=every, variants=()), ProgressPrinter())
    fastest = _fastest((*(known.kernels if known else ()), *measured.kernels), again)
    keep_here(store, fastest, [graph])
    return replace(found, measured=fastest.model_copy(update={"variants": measured.variants}))


def _not_timed_again(known: "LayerTimings", measured: "LayerTimings") -> "LayerTimings":
    """Return what was known without the timings that were replaced."""
    again = {(each.key, each.engine, each.precision) for each in measured.kernels}
    kernels = [
        each for each in known.kernels if (each.key, each.engine, each.precision) not in again
    ]
    return known.model_copy(update={"kernels": kernels})


def _fastest(old: "Iterable[KernelTiming]", new: "LayerTimings") -> "LayerTimings":
    """Return new timings, with each one that was faster before in place of the new one."""
    fastest: dict[tuple[str, str, str], KernelTiming] = {}
    for each in sorted((*old, *new.kernels), key=lambda timing: timing.nanoseconds):
        fastest.setdefault((each.key, each.engine, each.precision), each)
    kernels = [fastest[each.key, each.engine, each.precision] for each in new.kernels]
    return new.model_copy(update={"kernels": kernels})


def _missing_layers(
    graph: "LayerGraph",
    known: "LayerTimings | None",
    request: BoundRequest,
    installed: Mapping[str, str],
) -> "BrickSuite":
    """Return the layers that take time and that an engine has neither timed nor refused.

    Timings without a spread, of an earlier version, are replaced.
    """
    from inferometer_analysis.layer_work import is_view, why_not_alone
    from inferometer_api.layers.split import compose_suite
    from inferometer_serving.layers.gpu.problems import has_kernels

    tried = set() if known is None else {(each.key, each.engine) for each in known.failed}
    tried |= {
        (each.key, each.engine)
        for each in (() if known is None else known.kernels)
        if each.precision in ("", request.precision) and each.spread_nanoseconds is not None
    }
    is_on_gpu = request.settings.device == "GPU"
    # The libraries of a GPU have kernels for some layers only; ONNX Runtime has them for all.
    suite = compose_suite([graph], 1)
    bricks = {
        key: brick
        for key, brick in suite.bricks.items()
        if request.fill
        and not is_view(layer := suite.layers[key])
        and not why_not_alone(layer)
        and any(
            (key, engine) not in tried
            for engine in installed
            if not is_on_gpu or engine == "onnxruntime" or has_kernels(engine, layer)
        )
    }
    return suite.model_copy(update={"bricks": bricks})
