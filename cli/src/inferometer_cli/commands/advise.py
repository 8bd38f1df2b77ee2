"""`inferometer advise`: what would make a model faster here, and whether it does."""

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from inferometer_cli.commands.bound import BoundRequest, measure_bound
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
from inferometer_cli.terminal import print_output

if TYPE_CHECKING:
    from inferometer_analysis.advice import Advice
    from inferometer_analysis.cpu_evidence import CpuTimings
    from inferometer_api.layers.advice import ModelAdvice
    from inferometer_api.layers.variants import Rewriting
    from inferometer_cli.local.layers import LayerSettings
    from inferometer_results.layers.advice_report import AdvisedModel

_ROUNDS = 15
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
    round takes about seven seconds for each change. The advice is kept in the database, for the
    page Bounds of `inferometer results serve`.
    """
    from inferometer_cli.local.advice_trial import TrialSettings, try_advice
    from inferometer_cli.local.files import check_manifest_of
    from inferometer_cli.local.layers import LayerSettings
    from inferometer_results.layers.advice_report import advice_sentences, model_advice

    uri = model_uri(model)
    check_manifest_of(model, device)
    settings = LayerSettings(batch_size, 1, "Plain", read_shapes(warm_up_shape), device)
    advised, advice = _advice(uri, settings, database)
    trial = None
    if try_:
        with deferred_signals() as ending:
            present = advised.evidence.present
            chosen = TrialSettings(uri, batch_size, settings.shapes, rounds, present.settings)
            trial = try_advice(chosen, advice, ending)
    report = model_advice(advised, advice, trial)
    _keep(report, database)
    if json:
        import orjson

        print_output(orjson.dumps(report.model_dump(), option=orjson.OPT_INDENT_2).decode())
        return
    print_output("\n".join(advice_sentences(report)))
    if not try_ and report.can_be_tried:
        print_output("\nTo measure what can be applied, add --try.")


def _advice(
    uri: str, settings: "LayerSettings", database: str | None
) -> "tuple[AdvisedModel, list[Advice]]":
    from inferometer_results.layers.advice_report import AdvisedModel

    size = settings.batch_size
    if settings.device == "GPU":
        from inferometer_analysis.gpu_advice import advise_on_gpu
        from inferometer_cli.local.gpu_evidence import evidence_on_gpu

        gpu = evidence_on_gpu(uri, settings, database)
        advised = AdvisedModel(uri, gpu.machine, gpu.evidence, size, gpu.not_measured)
        return advised, advise_on_gpu(gpu.evidence, gpu.more)
    from inferometer_analysis.advice import advise as advise_on_cpu
    from inferometer_analysis.cpu_evidence import cpu_evidence
    from inferometer_results.layers.slowness import slowdown

    timings = _timings(uri, settings, database)
    evidence = cpu_evidence(timings)
    if evidence is None:
        raise FailedError("ONNX Runtime does not take this model, so there is nothing to compare.")
    machine = timings.measured.machine
    slower = slowdown(timings.measured, timings.known)
    advised = AdvisedModel(uri, machine, evidence, size, timings.not_measured, slower)
    return advised, advise_on_cpu(evidence)


def _timings(uri: str, settings: "LayerSettings", database: str | None) -> "CpuTimings":
    import os

    from inferometer_analysis.cpu_evidence import PRECISION, CpuTimings
    from inferometer_api.layers.variants import ModelVariant, cpu_variants
    from inferometer_cli.commands.serve import fetched_model

    with tempfile.TemporaryDirectory(prefix="inferometer-") as folder:
        file = fetched_model(uri, None, Path(folder)).path
        rewritten, reasons = _rewritten(file, settings)
        present = ModelVariant(file)
        variants = cpu_variants(present, len(os.sched_getaffinity(0)), rewritten)
        request = BoundRequest(settings, PRECISION, tuple(variants), _ROUNDS, fill=True)
        with open_store(database) as store:
            found = measure_bound(store, file, request)
    return CpuTimings(
        found.graph,
        found.measured.model_copy(update={"present": present.name}),
        found.known,
        {each.name: model_uri(str(each.model)) for each in variants if each.rewriting},
        reasons,
    )


def _rewritten(
    file: Path, settings: "LayerSettings"
) -> "tuple[dict[Rewriting, Path], dict[Rewriting, str]]":
    """Return the rewritten models by kind, and for the others why there is none."""
    from inferometer_api.layers.variants import CPU_REWRITINGS
    from inferometer_cli.local.layers import rewritten_model

    found: dict[Rewriting, Path] = {}
    reasons: dict[Rewriting, str] = {}
    for kind in CPU_REWRITINGS:
        try:
            found[kind] = rewritten_model(file, kind, settings)
        except (RefusedError, FailedError) as error:
            reasons[kind] = str(error)
    return found, reasons


def _keep(report: "ModelAdvice", database: str | None) -> None:
    from datetime import UTC, datetime

    from inferometer_api.timestamps import format_time
    from inferometer_results.store.advice import keep_advice
    from inferometer_results.store.index_rows import Origin

    with open_store(database) as store:
        keep_advice(store, report, Origin("advise", format_time(datetime.now(tz=UTC))))
