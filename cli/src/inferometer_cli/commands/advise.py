"""`inferometer advise`: what would make a model faster here, and whether it does."""

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from inferometer_cli.commands.bound import BoundMeasurement, BoundRequest, measure_bound
from inferometer_cli.commands.layer_options import (
    BatchSizeOption,
    DeviceOption,
    JsonOption,
    ModelArgument,
    ShapeOption,
    read_shapes,
)
from inferometer_cli.exits import FailedError, RefusedError, deferred_signals
from inferometer_cli.quick_run import model_uri
from inferometer_cli.result_store import DatabaseOption, open_store
from inferometer_cli.terminal import print_message, print_output

if TYPE_CHECKING:
    from inferometer_analysis.advice import Evidence, MeasuredVariant, Rewriting
    from inferometer_analysis.samples import Interval
    from inferometer_api.layers.timings import LayerTimings
    from inferometer_cli.local.layers import LayerSettings, Variant

_ROUNDS = 15
_PRECISION = "FP32"
_TryOption = Annotated[
    bool,
    typer.Option(
        "--try",
        help="Apply each piece of advice that settings or a rewritten model apply, and measure it "
        "in turn with the model as it is.",
    ),
]
_RoundsOption = Annotated[
    int, typer.Option("--rounds", min=3, max=100, metavar="N", help="With --try: rounds.")
]


def advise(  # noqa: PLR0913 - one argument for each option
    model: ModelArgument,
    *,
    try_: _TryOption = False,
    device: DeviceOption = "CPU",
    rounds: _RoundsOption = 6,
    batch_size: BatchSizeOption = 1,
    warm_up_shape: ShapeOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> None:
    """Show what would make a model faster on this machine, with a predicted gain for each change.

    The starting point is ONNX Runtime, on a CPU with one thread, on a GPU by its CUDA provider.
    Layers that the database lacks are timed first, as by `inferometer bound --fill`. Rewritten
    models (fixed shapes, fused operators, INT8, FP16) are kept in
    $XDG_DATA_HOME/inferometer/rewritten. With --try, servers are started with and without each
    change in interleaved rounds, and the achieved gain is printed next to the predicted one; a
    round takes about seven seconds for each change.
    """
    from inferometer_analysis.advice import advise as compose_advice
    from inferometer_cli.local.advice_trial import TrialSettings, try_advice
    from inferometer_cli.local.files import check_manifest_of
    from inferometer_cli.local.layers import LayerSettings
    from inferometer_results.layers.advice_report import (
        AdviceReport,
        advice_document,
        advice_sentences,
    )

    uri = model_uri(model)
    check_manifest_of(model, device)
    settings = LayerSettings(batch_size, 1, "Plain", read_shapes(warm_up_shape), device)
    if device == "GPU":
        from inferometer_analysis.gpu_advice import advise_on_gpu
        from inferometer_cli.local.gpu_evidence import evidence_on_gpu

        evidence, more = evidence_on_gpu(uri, settings, database)
        advice = advise_on_gpu(evidence, more)
    else:
        evidence = _evidence(uri, settings, database)
        advice = compose_advice(evidence)
    report = AdviceReport(uri, evidence.present, tuple(advice), was_tried=try_)
    if try_:
        with deferred_signals() as ending:
            trial = TrialSettings(
                uri, batch_size, settings.shapes, rounds, evidence.present.settings
            )
            tried = try_advice(trial, advice, ending)
        report = replace(
            report,
            achieved=tried.achieved,
            failures=tried.failures,
            served_ns=tried.served_ns,
        )
    if json:
        import orjson

        print_output(orjson.dumps(advice_document(report), option=orjson.OPT_INDENT_2).decode())
        return
    print_output("\n".join(advice_sentences(report)))


def _evidence(uri: str, settings: "LayerSettings", database: str | None) -> "Evidence":
    from inferometer_cli.commands.serve import fetched_model

    with tempfile.TemporaryDirectory(prefix="inferometer-") as folder:
        file = fetched_model(uri, None, Path(folder)).path
        rewritten, reasons = _rewritten(file, settings)
        variants = _variants(file, rewritten)
        request = BoundRequest(settings, _PRECISION, variants, _ROUNDS, fill=True)
        with open_store(database) as store:
            found = measure_bound(store, file, request)
    measured = measured_variants(found.measured, variants, file)
    if not measured or measured[0].engine != "onnxruntime" or measured[0].model:
        raise FailedError("ONNX Runtime does not take this model, so there is nothing to compare.")
    return _composed(found, measured, reasons)


def _composed(
    found: BoundMeasurement, measured: "list[MeasuredVariant]", reasons: dict[str, str]
) -> "Evidence":
    from inferometer_analysis.advice import Evidence
    from inferometer_analysis.bound import best_timings, lower_bound, timing_interval
    from inferometer_analysis.layer_work import graph_layers
    from inferometer_analysis.samples import total

    kernels = [*(() if found.known is None else found.known.kernels), *found.measured.kernels]
    own = {each.key: timing_interval(each) for each in kernels if each.engine == "onnxruntime"}
    layers = graph_layers(found.graph)
    timed = [each for each in layers if not each.is_view]
    by_operator: dict[str, list[Interval]] = {}
    for layer in timed:
        if layer.key in own:
            by_operator.setdefault(layer.operator, []).append(own[layer.key])
    is_whole = all(each.key in own for each in timed)
    return Evidence(
        present=measured[0],
        others=tuple(measured[1:]),
        bound=lower_bound(layers, best_timings(kernels, _PRECISION)),
        own_kernels=total(own[each.key] for each in timed) if is_whole else None,
        layer_times=by_operator,
        not_rewritten=reasons,
    )


def _rewritten(file: Path, settings: "LayerSettings") -> tuple[dict[str, Path], dict[str, str]]:
    """Return the rewritten models by kind, and for the others why there is none."""
    from inferometer_cli.local.layers import REWRITINGS, rewritten_model

    found: dict[str, Path] = {}
    reasons: dict[str, str] = {}
    for kind in REWRITINGS:
        try:
            found[kind] = rewritten_model(file, kind, settings)
        except (RefusedError, FailedError) as error:
            reasons[kind] = str(error)
            print_message(f"not rewritten as {kind}: {error}")
    return found, reasons


def _variants(file: Path, rewritten: dict[str, Path]) -> "tuple[Variant, ...]":
    """Return the ways to run a model, the present one first."""
    import os

    from inferometer_cli.local.layers import Variant

    found = [
        Variant(file),
        Variant(file, graph_optimization="Extended"),
        Variant(file, "openvino", "FP32"),
        Variant(file, "openvino", "BF16"),
    ]
    if len(os.sched_getaffinity(0)) > 1:
        found += [Variant(file, threads=2), Variant(file, "openvino", "FP32", 2)]
    kinds: tuple[Rewriting, ...] = ("FixedShapes", "Fused")
    found += [Variant(rewritten[each], rewriting=each) for each in kinds if each in rewritten]
    if "INT8" in rewritten:
        found += [
            Variant(rewritten["INT8"], rewriting="INT8"),
            Variant(rewritten["INT8"], "openvino", rewriting="INT8"),
        ]
    return tuple(found)


def measured_variants(
    timings: "LayerTimings", variants: "tuple[Variant, ...]", file: Path
) -> "list[MeasuredVariant]":
    """Return the variants that ran, with their durations by round; `file` is the model as it is."""
    from inferometer_analysis.advice import MeasuredVariant

    return [
        MeasuredVariant(
            engine=each.engine,
            precision=timing.precision,
            threads=each.threads,
            nanoseconds=tuple(timing.nanoseconds),
            difference=timing.difference,
            graph_optimization=each.graph_optimization,
            rewriting=each.rewriting,
            model="" if each.model == file else model_uri(str(each.model)),
            device=timings.machine.device,
            provider_option=each.provider_option,
        )
        for each in variants
        if (timing := timings.variants.get(each.name)) is not None
    ]
