"""`inferometer run`: measures a BenchmarkRun file on this machine."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeGuard

import typer

from inferometer_api.metrics.definitions import run_labels
from inferometer_api.spec.run import BenchmarkRun
from inferometer_cli.commands.compare import SuiteInconclusiveOption
from inferometer_cli.exits import (
    ExitCode,
    FailedError,
    RefusedError,
    deferred_signals,
    exit_code_of,
)
from inferometer_cli.quick_run import (
    QuickOptions,
    compose_run,
    in_flags,
    is_model,
    run_yaml,
)
from inferometer_cli.result_store import SaveOption
from inferometer_cli.run_file import (
    PythonStepsOption,
    SetOption,
    check_run,
    parse_run_file,
    parse_run_text,
    source_name,
)
from inferometer_cli.shown_result import Showing, keep_and_show
from inferometer_cli.terminal import (
    ProgressFormat,
    message_format,
    print_error,
    print_output,
)

if TYPE_CHECKING:
    from inferometer_api.suite.spec import BenchmarkSuite
    from inferometer_cli.local.run import RunOptions


_COMMAND_LINE = "The command line"
_Target = Annotated[
    str | None,
    typer.Argument(
        metavar="FILE",
        help="A BenchmarkRun or a BenchmarkSuite in YAML or JSON, - for a run on standard input; "
        "or a model: model.onnx, "
        "zoo://TASK/NAME, https://...",
        show_default=False,
    ),
]
_UrlOption = Annotated[
    str | None,
    typer.Option(
        "--url",
        metavar="URL",
        help="Without a file: measure this server. http://HOST:PORT or grpc://HOST:PORT (https://, "
        "grpcs:// with TLS).",
    ),
]
_ModelOption = Annotated[
    str | None,
    typer.Option("--model", metavar="NAME", help="With --url: the server's name of the model."),
]
_QpsOption = Annotated[
    str | None,
    typer.Option(
        "--qps", metavar="RATE", help="Without a file: an open loop of this many queries a second."
    ),
]
_P99Option = Annotated[
    str | None,
    typer.Option(
        "--p99",
        metavar="TIME",
        help="The latency bound of the P99, such as 50ms. Without --qps: search for the highest "
        "rate that keeps it.",
    ),
]
_ClientsOption = Annotated[
    str | None,
    typer.Option(
        "--clients",
        metavar="N,N,...",
        help="Without a file: a closed loop of so many clients, one step each.",
    ),
]
_SecondsOption = Annotated[
    int | None,
    typer.Option(
        "--seconds",
        min=1,
        max=86_400,
        metavar="N",
        help="Without a file: how long to measure, or one probe of a search. [default: 60]",
        show_default=False,
    ),
]
_WaitOption = Annotated[
    int | None,
    typer.Option(
        "--wait",
        min=1,
        max=86_400,
        metavar="SECONDS",
        help="Wait this long for the server to be ready. Without it, an External server that "
        "cannot be reached is refused at once. Sets spec.server.readyDeadlineSeconds.",
        show_default=False,
    ),
]
_PrintYamlOption = Annotated[
    bool,
    typer.Option("--print-yaml", help="Print the run that is meant, and do not run it."),
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
_AgentOption = Annotated[
    str | None,
    typer.Option(
        "--agent",
        metavar="URL",
        help="Use the node agent at this URL instead of starting one.",
    ),
]
_TargetsOption = Annotated[
    Path | None,
    typer.Option(
        "--prometheus-targets",
        metavar="FILE.json",
        help="List the metrics endpoints of the run in this file, for Prometheus's "
        "file_sd_configs.",
    ),
]
_FleetWebOption = Annotated[
    bool,
    typer.Option(
        "--fleet-web",
        help="Serve Locust's web page while a fleet (spec.load.workers) measures, and print its "
        "address.",
    ),
]
_ProgressOption = Annotated[
    ProgressFormat,
    typer.Option(
        "--progress",
        help="How to write progress and messages to standard error: a moving line on a terminal "
        "and plain lines elsewhere (auto), plain lines, or an object per line (json).",
    ),
]
_LogOption = Annotated[
    Path | None,
    typer.Option(
        "--log-requests",
        metavar="FILE",
        help="Write a row for each measured query to this .csv or .parquet file: due, sent and "
        "answered (from the window's begin), status, connection.",
    ),
]
_JsonOption = Annotated[
    bool, typer.Option("--json", help="Print the result document instead of the table.")
]


def run(  # noqa: PLR0913 - one argument for each option
    target: _Target = None,
    *,
    url: _UrlOption = None,
    model: _ModelOption = None,
    qps: _QpsOption = None,
    p99: _P99Option = None,
    clients: _ClientsOption = None,
    seconds: _SecondsOption = None,
    output: _OutputOption = None,
    set_: SetOption = None,
    wait: _WaitOption = None,
    agent: _AgentOption = None,
    prometheus_targets: _TargetsOption = None,
    fleet_web: _FleetWebOption = False,
    print_yaml: _PrintYamlOption = False,
    log_requests: _LogOption = None,
    allow_python_steps: PythonStepsOption = False,
    progress: _ProgressOption = "auto",
    inconclusive: SuiteInconclusiveOption = "fail",
    json: _JsonOption = False,
    save: SaveOption = True,
) -> None:
    """Start the server, drive the load, measure, judge and report, without a cluster.

    Writes result.json and report.html and leaves nothing else behind. Progress goes to standard
    error. Of a suite, each run gets a folder, and suite.html shows them all; the same command with
    --output continues after an interruption.
    """
    quick = QuickOptions(url, model, qps, p99, clients, seconds)
    with message_format(progress), _option_names(target):
        suite = _suite(target, set_ or [])
        if suite is not None and target is not None:
            only_runs = {
                "--prometheus-targets": prometheus_targets,
                "--fleet-web": fleet_web,
                "--print-yaml": print_yaml,
                "--log-requests": log_requests,
                "--allow-python-steps": allow_python_steps,
                "--json": json,
                "--wait": wait,
                "--url, --model, --qps, --p99, --clients or --seconds": quick.is_given,
            }
            _refuse_with_suite(target, only_runs)
            from inferometer_cli.local.suite.run import SuiteOptions, run_suite

            suite_options = SuiteOptions(output, save, agent, progress, inconclusive == "pass")
            raise typer.Exit(run_suite(suite, Path(target), suite_options))
        if inconclusive == "pass":
            raise RefusedError("--inconclusive is for suites, which have a gate. Omit it.")
        waits = [] if wait is None else [f"spec.server.readyDeadlineSeconds={wait}"]
        parsed, source, base = _parse(target, quick, [*waits, *(set_ or [])])
        if print_yaml:
            print_output(run_yaml(parsed), end="")
            return
        benchmark_run = check_run(parsed, source=source)
        options = _run_options(
            benchmark_run, agent, prometheus_targets, progress, log_requests, fleet_web=fleet_web
        )
        options = replace(options, allow_python_steps=allow_python_steps)
        shown = Showing(json, save, _has_file(target))
        raise typer.Exit(_measure(benchmark_run, base, output, options, shown))


def _measure(
    run: BenchmarkRun,
    base: Path,
    output: Path | None,
    options: "RunOptions",
    showing: Showing,
) -> ExitCode:
    """Measure a run, keep and show its result, and return the exit code."""
    # Reports and tables are slow to import: not before the file is known to be valid.
    from inferometer_cli.local.earlier_results import with_run_to_run_spread
    from inferometer_cli.local.measurement import measure
    from inferometer_cli.local.request_log import finish_request_log
    from inferometer_cli.result_file import check_directory

    now = datetime.now(tz=UTC)
    directory = output or Path("results") / f"{run.name}-{now:%Y%m%dT%H%M%SZ}"
    check_directory(directory)
    with deferred_signals() as ending:
        document = measure(run, base, ending, options)
        if options.request_log is not None:
            finish_request_log(options.request_log)
        document = with_run_to_run_spread(document, directory, is_stored=showing.save)
        keep_and_show(document, directory, showing)
    if document.outcome.state == "Complete" and ending.exit_code is not None:
        print_error("Stopped after the last measurement; the result is complete.")
        return ending.exit_code
    return exit_code_of(document)


def _suite(target: str | None, settings: list[str]) -> "BenchmarkSuite | None":
    """Return the suite that a file holds, None if the target is something else."""
    if target is None or target == "-" or is_model(target):
        return None
    from inferometer_cli.suite_file import read_suite

    return read_suite(Path(target), settings)


def _refuse_with_suite(target: str, options: Mapping[str, object]) -> None:
    """Raise RefusedError if options of a single run are given with a suite."""
    given = [name for name, value in options.items() if value]
    if given:
        raise RefusedError(
            f"{target} is a suite, which {given[0]} does not go with. Omit it; "
            "`inferometer suite plan` prints the runs."
        )


def _parse(
    target: str | None, quick: QuickOptions, settings: list[str]
) -> tuple[BenchmarkRun, str, Path]:
    """Return the run that is meant, its name for messages, and the base of its paths."""
    here = Path.cwd()
    if not _has_file(target):
        text = compose_run(target, quick)
        return parse_run_text(text, source=_COMMAND_LINE, settings=settings), _COMMAND_LINE, here
    if quick.is_given:
        raise RefusedError(
            f"{source_name(Path(target))} is a run file, which --url, --model, --qps, --p99, "
            "--clients and --seconds replace. Omit them, or change the file's fields with --set."
        )
    file = Path(target)
    return parse_run_file(file, settings), source_name(file), file.parent.resolve()


def _has_file(target: str | None) -> TypeGuard[str]:
    return target is not None and not is_model(target)


@contextmanager
def _option_names(target: str | None) -> Iterator[None]:
    """Name options instead of fields in the errors of a run without a file."""
    try:
        yield
    except (RefusedError, FailedError) as error:
        if _has_file(target):
            raise
        raise type(error)(in_flags(str(error))) from error


def _run_options(
    run: BenchmarkRun,
    agent: str | None,
    targets: Path | None,
    progress: ProgressFormat,
    log_requests: Path | None,
    *,
    fleet_web: bool,
) -> "RunOptions":
    from inferometer_cli.local.prometheus_targets import PrometheusTargets
    from inferometer_cli.local.run import RunOptions

    labels = run_labels(run)[1]
    if log_requests is not None:
        from inferometer_cli.local.request_log import check_request_log

        check_request_log(log_requests)
    return RunOptions(PrometheusTargets(targets, labels), agent, fleet_web, progress, log_requests)
