"""`inferometer bound`: the best latency that the layers of a model allow on this machine."""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from inferometer_cli.commands.layer_options import (
    BatchSizeOption,
    JsonOption,
    ModelArgument,
    ProgressPrinter,
    ShapeOption,
    ThreadsOption,
    read_shapes,
)
from inferometer_cli.quick_run import model_uri
from inferometer_cli.result_store import DatabaseOption, opened
from inferometer_cli.terminal import print_message, print_output

if TYPE_CHECKING:
    from inferometer_api.layers.bricks import BrickSuite
    from inferometer_api.layers.graph import LayerGraph
    from inferometer_api.layers.timings import LayerTimings
    from inferometer_cli.local.layers import LayerSettings, Variant
    from inferometer_results.store.store import Store

ENGINES = ("onnxruntime", "openvino")
_FillOption = Annotated[
    bool,
    typer.Option("--fill", help="Benchmark the layers that the database lacks, and keep them."),
]
_PrecisionOption = Annotated[
    Literal["FP32", "BF16"],
    typer.Option("--precision", help="A bound joins timings of one effective precision."),
]
_RoundsOption = Annotated[
    int, typer.Option("--rounds", min=3, max=1000, metavar="N", help="Rounds of measurement.")
]


def bound(  # noqa: PLR0913 - one argument for each option
    model: ModelArgument,
    *,
    fill: _FillOption = False,
    threads: ThreadsOption = 1,
    batch_size: BatchSizeOption = 1,
    precision: _PrecisionOption = "FP32",
    rounds: _RoundsOption = 7,
    warm_up_shape: ShapeOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> None:
    """Show the best latency of a model on this machine, next to the latency that it has.

    The lower bound is the sum of the fastest known timings of all layers, by ONNX Runtime and
    OpenVINO; the critical path is what unlimited parallelism would leave of it. The roofline
    follows from the machine's peak arithmetic and bandwidth, as measured now or, if that is more,
    by inferometer node in the last 30 days. --fill times the layers that the
    database lacks, which takes about a minute for 100 different layers.
    """
    from inferometer_cli.commands.serve import fetched_model
    from inferometer_cli.local.layers import LayerSettings, Variant
    from inferometer_cli.local.node_documents import recent_measurements
    from inferometer_results.layers.bound_report import bound_document, bound_report

    uri = model_uri(model)
    settings = LayerSettings(batch_size, threads, "Plain", read_shapes(warm_up_shape))
    with tempfile.TemporaryDirectory(prefix="inferometer-") as folder:
        file = fetched_model(uri, None, Path(folder)).path
        variants = [Variant(file, engine, precision, threads) for engine in ENGINES]
        with opened(database) as store:
            request = BoundRequest(settings, precision, tuple(variants), rounds, fill=fill)
            found = measure_bound(store, file, request)
            node = recent_measurements(store)
    document = bound_document(
        bound_report(uri, precision, found.graph, found.known, found.measured, node)
    )
    if json:
        import orjson

        print_output(orjson.dumps(document, option=orjson.OPT_INDENT_2).decode())
        return
    print_output("\n".join(document["sentences"]))


@dataclass(frozen=True, slots=True)
class BoundRequest:
    """What is measured for the bounds of a model."""

    settings: "LayerSettings"
    precision: str
    variants: "tuple[Variant, ...]"
    rounds: int
    fill: bool
    """Whether layers without a timing are timed."""


@dataclass(frozen=True, slots=True)
class BoundMeasurement:
    """The layers of a model, what the database knew, and what was measured now."""

    graph: "LayerGraph"
    known: "LayerTimings | None"
    measured: "LayerTimings"


def measure_bound(store: "Store", file: Path, request: BoundRequest) -> BoundMeasurement:
    """Measure the whole model, and its layers that the database lacks; keep the timings."""
    from inferometer_cli.local.layers import (
        TimingRequest,
        describe_model,
        keep_here,
        known_here,
        time_layers,
    )
    from inferometer_serving.machine_name import engine_versions

    graph = describe_model(file, request.settings)
    known = known_here(store, request.settings.threads)
    timing = TimingRequest(
        request.settings,
        suite=_missing_layers(graph, known, request),
        variants=request.variants,
        engines=tuple(each for each in ENGINES if each in engine_versions()),
        precision=request.precision,
        rounds=request.rounds,
    )
    count = len(timing.suite.bricks)
    words = f"{count} layers that the database lacks, and the model" if count else "the model"
    print_message(f"Measuring {words}...")
    measured = time_layers(timing, ProgressPrinter())
    keep_here(store, measured, [graph])
    return BoundMeasurement(graph, known, measured)


def _missing_layers(
    graph: "LayerGraph", known: "LayerTimings | None", request: BoundRequest
) -> "BrickSuite":
    """Return the layers that take time and that an engine has neither timed nor refused."""
    from inferometer_analysis.bricks.split import compose_suite
    from inferometer_analysis.layer_work import is_view, why_not_alone
    from inferometer_serving.machine_name import engine_versions

    tried = set() if known is None else {(each.key, each.engine) for each in known.failed}
    tried |= {
        (each.key, each.engine)
        for each in (() if known is None else known.kernels)
        if each.precision in ("", request.precision)
    }
    suite = compose_suite([graph], 1)
    bricks = {
        key: brick
        for key, brick in suite.bricks.items()
        if request.fill
        and not is_view(suite.layers[key])
        and not why_not_alone(suite.layers[key])
        and any((key, engine) not in tried for engine in engine_versions())
    }
    return suite.model_copy(update={"bricks": bricks})
