"""`inferometer bound`: the best latency that the layers of a model allow on this machine."""

import os
import platform
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from inferometer_api.timestamps import format_time
from inferometer_cli.quick_run import model_uri
from inferometer_cli.result_store import DatabaseOption, opened
from inferometer_cli.terminal import print_message, print_output

if TYPE_CHECKING:
    from inferometer_analysis.bound import Bound, Timing
    from inferometer_cli.local.layer_benchmark import LayerBenchmark

_MOST_NAMED = 10
_Model = Annotated[
    str,
    typer.Argument(metavar="MODEL", help="model.onnx, zoo://TASK/NAME, https://..."),
]
_FillOption = Annotated[
    bool,
    typer.Option("--fill", help="Benchmark the layers that the database lacks, and keep them."),
]
_ThreadsOption = Annotated[
    int, typer.Option("--threads", min=1, max=1024, metavar="N", help="Threads within a layer.")
]
_BatchOption = Annotated[
    int, typer.Option("--batch-size", min=1, max=4096, metavar="N", help="Samples of an inference.")
]
_PrecisionOption = Annotated[
    Literal["FP32", "BF16"],
    typer.Option("--precision", help="A bound joins timings of one effective precision."),
]
ShapeOption = Annotated[
    list[str] | None,
    typer.Option(
        "--warm-up-shape",
        metavar="NAME=SHAPE",
        help="Whole shape of an input with open axes other than the batch, as in "
        "image=1,3,224,224. Can be repeated.",
    ),
]
_RoundsOption = Annotated[
    int, typer.Option("--rounds", min=3, max=1000, metavar="N", help="Interleaved rounds.")
]
_JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of sentences.")]


def bound(  # noqa: PLR0913 - one argument for each option
    model: _Model,
    *,
    fill: _FillOption = False,
    threads: _ThreadsOption = 1,
    batch_size: _BatchOption = 1,
    precision: _PrecisionOption = "FP32",
    rounds: _RoundsOption = 7,
    warm_up_shape: ShapeOption = None,
    database: DatabaseOption = None,
    json: _JsonOption = False,
) -> None:
    """Show the lower bound of a model's latency: sequential, along the critical path, roofline.

    Each layer counts with the fastest timing of ONNX Runtime and OpenVINO in the database. The
    whole model is measured in the same rounds, next to which the bound is printed.
    """
    from inferometer_cli.local.layer_benchmark import BenchmarkSettings

    shapes = tuple(warm_up_shape or ())
    settings = BenchmarkSettings(threads, batch_size, precision, rounds, shapes)
    found = bound_document(model_uri(model), settings, database, fill=fill)
    if json:
        import orjson

        print_output(orjson.dumps(found, option=orjson.OPT_INDENT_2).decode())
        return
    print_output("\n".join(found["sentences"]))


def bound_document(uri: str, settings: Any, database: str | None, *, fill: bool) -> dict[str, Any]:
    """Return the bounds of a model with its measured latency; keep new timings."""
    from inferometer_cli.local.layer_benchmark import benchmark_layers

    with opened(database) as store:
        from inferometer_results.store.layer_timings import (
            TimingConditions,
            keep_timings,
            known_timings,
        )

        conditions = TimingConditions(machine(), settings.threads, engine_versions())
        stored = known_timings(store, conditions)
        known: dict[str, list[str]] = {}
        for timing in stored:
            if timing.precision in ("", settings.precision):
                known.setdefault(timing.engine, []).append(timing.key)
        if fill:
            print_message("Benchmarking the layers that the database lacks...")
        found = benchmark_layers(uri, settings, known, fill=fill)
        if found.timings:
            now = format_time(datetime.now(tz=UTC))
            keep_timings(store, conditions, found.timings, now)
    return _document(uri, found, [*stored, *found.timings], settings.precision)


def machine() -> str:
    """Return what timings depend on: processor, number of CPUs and kernel."""
    from inferometer_cli.local.layers import cpu_name
    from inferometer_serving.cpu import instruction_set

    kernel = ".".join(platform.release().split(".")[:2])
    count = len(os.sched_getaffinity(0))
    return f"{cpu_name() or platform.machine()}, {count} CPUs, {instruction_set()}, Linux {kernel}"


def engine_versions() -> dict[str, str]:
    """Return the versions of the engines that are installed."""
    from importlib.metadata import PackageNotFoundError, version

    found = {}
    for name in ("onnxruntime", "openvino"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _document(
    uri: str, found: "LayerBenchmark", timings: "list[Timing]", precision: str
) -> dict[str, Any]:
    from inferometer_analysis.bound import best_timings, is_wrong, lower_bound, roofline_bound
    from inferometer_analysis.samples import median_interval

    bounds = lower_bound(found.layers, best_timings(timings, precision))
    roofline = roofline_bound(found.layers, found.flops_per_second, found.bytes_per_second)
    measured = {
        name: median_interval(times)
        for name, times in found.measured_ns.items()
        if found.precisions[name] in ("", precision)
    }
    fastest = min(measured.values(), key=lambda each: each.value, default=None)
    wrong = fastest is not None and bounds.covered > 0 and is_wrong(bounds.sequential_ns, fastest)
    document: dict[str, Any] = {
        "model": uri,
        "precision": precision,
        "sequentialNanoseconds": round(bounds.sequential_ns),
        "criticalPathNanoseconds": round(bounds.critical_path_ns),
        "rooflineNanoseconds": round(roofline),
        "coverage": round(bounds.coverage, 4),
        "layers": bounds.layers,
        "layersByEngine": dict(bounds.by_engine),
        "missing": [
            {"name": each.name, "operator": each.operator, "reason": each.why_not}
            for each in bounds.missing
        ],
        "failures": list(found.failures),
        "measured": {
            name: {
                "nanoseconds": round(each.value),
                "lowNanoseconds": None if each.low is None else round(each.low),
                "highNanoseconds": None if each.high is None else round(each.high),
            }
            for name, each in measured.items()
        },
        "boundIsWrong": wrong,
        "flopsPerSecond": found.flops_per_second,
        "bytesPerSecond": found.bytes_per_second,
    }
    document["sentences"] = _sentences(document, bounds)
    return document


def _sentences(document: dict[str, Any], bounds: "Bound") -> list[str]:
    def milliseconds(nanoseconds: float) -> str:
        return f"{nanoseconds / 1e6:.3f} ms"

    lines = [
        (
            f"Coverage: {100 * bounds.coverage:.1f} % ({bounds.covered} of {bounds.layers} layers "
            "that take time have a timing)."
        )
    ]
    if bounds.covered:
        share = ", ".join(f"{count} by {name}" for name, count in bounds.by_engine.items())
        lines += [
            f"Sequential bound: {milliseconds(bounds.sequential_ns)} (fastest layers: {share}).",
            f"Critical path: {milliseconds(bounds.critical_path_ns)}.",
        ]
    lines.append(
        f"Roofline: {milliseconds(document['rooflineNanoseconds'])} at "
        f"{document['flopsPerSecond'] / 1e9:.1f} GFLOP/s and "
        f"{document['bytesPerSecond'] / 1e9:.1f} GB/s, as measured here."
    )
    for name, each in document["measured"].items():
        ratio = bounds.sequential_ns / each["nanoseconds"]
        words = f"; the bound is {100 * ratio:.0f} % of it" if bounds.covered else ""
        lines.append(f"Measured on {name}: {milliseconds(each['nanoseconds'])}{words}.")
    if document["boundIsWrong"]:
        lines.append(
            "Bound wrong: it lies above the fastest measured latency. Its layers take longer alone "
            "than within the model."
        )
    for each in document["missing"][:_MOST_NAMED]:
        lines.append(f"Missing: {each['name']} ({each['operator']}). {each['reason']}".rstrip())
    left = len(document["missing"]) - _MOST_NAMED
    if left > 0:
        lines.append(f"... and {left} more.")
    if any(not each["reason"] for each in document["missing"]):
        lines.append("Missing layers count as free. To benchmark them, add --fill.")
    return [*lines, *document["failures"][:_MOST_NAMED]]
