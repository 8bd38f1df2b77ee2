"""`inferometer profile`: measures a model and shows its layers and kernels."""

from datetime import UTC, datetime
from json import dumps
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from inferometer_api.document import API_VERSION
from inferometer_api.results.result import ResultDocument
from inferometer_api.spec.run import BenchmarkRun
from inferometer_cli.commands.layer_options import ShapeOption, read_shapes
from inferometer_cli.exits import FailedError, RefusedError, deferred_signals, exit_code_of
from inferometer_cli.quick_run import QuickOptions, compose_run, is_model
from inferometer_cli.result_store import SaveOption, try_to_keep
from inferometer_cli.run_file import SetOption, check_run, parse_run_file, parse_run_text
from inferometer_cli.span_export import (
    OtlpOption,
    PerfettoOption,
    check_exports,
    export_spans,
    has_spans,
)
from inferometer_cli.terminal import (
    flushed_output,
    output_console,
    print_error,
    print_output,
    print_paths,
)

_SCENARIO = "profile"
_SECONDS = 5
_Target = Annotated[
    str,
    typer.Argument(
        metavar="MODEL|RUN.yaml",
        help="A model: model.onnx, zoo://TASK/NAME, https://...; or a BenchmarkRun, whose "
        "scenarios the profile replaces unless they are profiles.",
        show_default=False,
    ),
]
_BatchSizesOption = Annotated[
    str, typer.Option("--batch-sizes", metavar="N,N,...", help="Batch sizes, one step each.")
]
_LevelsOption = Annotated[
    str,
    typer.Option(
        "--levels", metavar="LEVEL,...", help="Model, Layer, Kernel: how deep the profile goes."
    ),
]
_IterationsOption = Annotated[
    int, typer.Option("--iterations", min=1, max=10_000, metavar="N", help="Runs of each level.")
]
_RuntimeOption = Annotated[
    str | None,
    typer.Option("--runtime", metavar="RUNTIME", help="Which engine: OnnxRuntime or OpenVino."),
]
_SecondsOption = Annotated[
    int | None,
    typer.Option(
        "--seconds",
        min=1,
        max=86_400,
        metavar="N",
        help=f"How long to measure each batch size without a profiler. [default: {_SECONDS} with a "
        "model]",
        show_default=False,
    ),
]
_TopOption = Annotated[
    int, typer.Option("--top", min=1, metavar="N", help="Layers to print, the longest first.")
]
_CsvOption = Annotated[
    Path | None,
    typer.Option(
        "--csv",
        metavar="DIR",
        help="Write the analyses A1 to A15 to this directory, a file for each that has figures.",
    ),
]
_OutputOption = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="DIR",
        help="Directory for result.json and report.html. [default: results/NAME-TIME]",
    ),
]
_JsonOption = Annotated[
    bool, typer.Option("--json", help="Print the analyses A1 to A15 as JSON instead of tables.")
]


def profile(  # noqa: PLR0913 - one argument for each option
    target: _Target,
    *,
    batch_sizes: _BatchSizesOption = "1",
    levels: _LevelsOption = "Model,Layer,Kernel",
    iterations: _IterationsOption = 30,
    runtime: _RuntimeOption = None,
    seconds: _SecondsOption = None,
    top: _TopOption = 15,
    csv: _CsvOption = None,
    perfetto: PerfettoOption = None,
    otlp: OtlpOption = None,
    output: _OutputOption = None,
    warm_up_shape: ShapeOption = None,
    set_: SetOption = None,
    save: SaveOption = True,
    json: _JsonOption = False,
) -> None:
    """Measure a model, then profile it: where the engine spends the time of an inference.

    The latency is that of queries without a profiler. Runs within the server with and without the
    profiler alternate, so that its overhead is known.
    """
    from inferometer_cli.local.measurement import measure
    from inferometer_cli.result_file import check_directory, save_result

    scenario = {
        "levels": levels.split(","),
        "batchSizes": _numbers(batch_sizes),
        "iterations": iterations,
    }
    settings = list(set_ or [])
    if runtime is not None:
        settings.append(f"spec.server.runtime={runtime}")
    if shapes := read_shapes(warm_up_shape):
        settings.append(f"spec.load.inputs.random.shapes={dumps(shapes)}")
    run, base = _profile_run(target, scenario, seconds, settings)
    now = datetime.now(tz=UTC)
    directory = output or Path("results") / f"{run.name}-{now:%Y%m%dT%H%M%SZ}"
    check_directory(directory)
    if csv is not None:
        check_directory(csv, what="the analyses", option="--csv")
    check_exports(perfetto, otlp)
    with deferred_signals() as ending:
        document = measure(run, base, ending)
        if document.scenarios:
            paths = save_result(document, directory)
            _show(document, top, json=json)
            stored = try_to_keep(paths[0]) if save else ""
            print_paths(result=paths[0], report=paths[1], stored=stored)
        is_complete = document.outcome.state == "Complete"
        if not is_complete:
            print_error(document.outcome.message)
        try:
            if csv is not None and document.scenarios:
                _write_analyses(document, csv)
        finally:
            if is_complete or has_spans(document):
                export_spans(document, perfetto, otlp)
    if is_complete and (reason := _why_no_layers(document)):
        raise FailedError(f"No layer was profiled. {reason}")
    raise typer.Exit(exit_code_of(document))


def _profile_run(
    target: str, scenario: dict[str, Any], seconds: int | None, settings: list[str]
) -> tuple[BenchmarkRun, Path]:
    """Return the run with the profile as its only scenario, and the base of its paths."""
    here = Path.cwd()
    if is_model(target):
        text = compose_run(target, QuickOptions(seconds=seconds or _SECONDS))
        fields, base = yaml.safe_load(text), here
        fields["spec"]["validity"]["warmUpSeconds"] = 1
    else:
        file = Path(target)
        given = parse_run_file(file)
        if any(each.profile is not None for each in given.spec.scenarios):
            return check_run(parse_run_file(file, settings), source=target), file.parent.resolve()
        fields = given.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude_none=True)
        base = file.parent.resolve()
        if seconds is not None:
            fields["spec"].setdefault("validity", {})["minDurationSeconds"] = seconds
    fields["apiVersion"] = API_VERSION
    fields["spec"]["scenarios"] = [{"name": _SCENARIO, "profile": scenario}]
    text = yaml.safe_dump(fields, sort_keys=False, allow_unicode=True)
    return check_run(parse_run_text(text, source=target, settings=settings), source=target), base


def _numbers(text: str) -> list[int]:
    try:
        return [int(each) for each in text.split(",")]
    except ValueError as error:
        raise RefusedError(
            f'--batch-sizes expects numbers such as 1,8,32, but "{text}" was given.'
        ) from error


def _why_no_layers(document: ResultDocument) -> str:
    """Return why no step has layers, although they are a level of the profile; else ""."""
    profiles = [step.profile for each in document.scenarios for step in each.steps if step.profile]
    reasons = [each.unavailable.get("Layer", "") for each in profiles]
    return reasons[0] if reasons and all(reasons) else ""


def _write_analyses(document: ResultDocument, directory: Path) -> None:
    from inferometer_results.analyses import analysis_files

    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, text in analysis_files(document).items():
            (directory / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise FailedError(
            f"Cannot write {error.filename or directory}: {error.strerror}."
        ) from error


def _show(document: ResultDocument, top: int, *, json: bool) -> None:
    from inferometer_cli.tables.profile import print_profiles
    from inferometer_cli.tables.result import print_table
    from inferometer_results.analyses import analysis_documents

    if json:
        import orjson

        found = analysis_documents(document)
        print_output(orjson.dumps(found, option=orjson.OPT_INDENT_2).decode())
        return
    with flushed_output():
        console = output_console()
        print_table(document, console)
        print_profiles(document, top, console)
