"""`inferometer validate`: checks whether a run file or a suite can be run on this machine."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from inferometer_api.scenarios.planned_duration import (
    RESTART_SECONDS,
    PlannedDuration,
    planned_duration,
    restart_count,
)
from inferometer_api.spec.resolve import is_launched
from inferometer_api.spec.run import BenchmarkRun
from inferometer_api.suite.spec import BenchmarkSuite
from inferometer_api.wording import counted
from inferometer_cli.exits import FailedError, RefusedError
from inferometer_cli.node_benchmark_file import read_node_benchmark
from inferometer_cli.run_file import (
    STANDARD_INPUT,
    PythonStepsOption,
    SetOption,
    read_run_file,
    source_name,
)
from inferometer_cli.suite_file import cell_runs, plan_file, read_suite
from inferometer_cli.terminal import print_message, print_output
from inferometer_results.quantity import long_duration


def validate(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="A BenchmarkRun or a BenchmarkSuite in YAML or JSON, - for a run on standard "
            "input.",
            show_default=False,
        ),
    ],
    *,
    set_: SetOption = None,
    allow_python_steps: PythonStepsOption = False,
) -> None:
    """Check that a file is a BenchmarkRun that can be run here, or report what is wrong.

    The server is started with the model and the inputs, as a run would, and stopped once it is
    ready and a manifest was compared with engine and model. Local data sets, also that of the
    manifest, must be there and have their checksum. Not checked, because only a run can: models
    from https://, External servers. Prints how long the run takes. Of a BenchmarkSuite every cell
    is checked, and each server is started once.
    For a cluster use `inferometer preflight`.
    """
    suite = None if file == STANDARD_INPUT else read_suite(file, set_ or [])
    if suite is not None:
        if allow_python_steps:
            raise RefusedError(
                f"{file} is a suite, which --allow-python-steps does not go with. Omit it."
            )
        _validate_suite(suite, file)
        return
    nodes = None if file == STANDARD_INPUT else read_node_benchmark(file)
    if nodes is not None:
        print_output(
            f"{file} is a valid NodeBenchmark: {nodes.name}. It needs a cluster; "
            "`inferometer node` measures this machine."
        )
        return
    run = read_run_file(file, set_ or [])
    if note := _check_files(run, file.absolute().parent, allow_python_steps=allow_python_steps):
        print_message(f"note: {note}")
    names = ", ".join(f"{scenario.name} ({scenario.kind})" for scenario in run.spec.scenarios)
    print_output(f"{source_name(file)} is a valid BenchmarkRun: {run.name}, scenarios {names}")
    print_output("\n".join(_planned_lines(run)))


def _validate_suite(suite: BenchmarkSuite, file: Path) -> None:
    plan = plan_file(suite, source=str(file), place="Local")
    runs = cell_runs(plan)
    tried: set[str] = set()
    notes = {""}
    for cell in plan.cells:
        run = runs[cell.key]
        server = run.spec.model_dump_json(include={"model", "server", "load"})
        try:
            note = _check_files(run, file.absolute().parent, starts=server not in tried)
        except (RefusedError, FailedError) as error:
            raise type(error)(f"cell {cell.label}: {error}") from error
        tried.add(server)
        if note not in notes:
            print_message(f"note: {note}")
        notes.add(note)
    by_cell = {key: _whole_duration(run) for key, run in runs.items()}
    of_runs = [by_cell[each.cell.key] for each in plan.runs]
    whole = PlannedDuration(
        sum(each.least_seconds for each in of_runs), sum(each.most_seconds for each in of_runs)
    )
    print_output(
        f"{file} is a valid BenchmarkSuite: {suite.name}, "
        f"{counted(len(plan.cells), 'cell')}, {counted(len(plan.runs), 'run')}\n"
        f"planned duration: {_span(whole)} with warm-up, after the start of each server"
    )


def _whole_duration(run: BenchmarkRun) -> PlannedDuration:
    """Return how long a run takes with its repeats and the restarts of its server."""
    spec = run.spec
    planned = [planned_duration(each, spec) for each in spec.scenarios]
    repeats, restarts_seconds = spec.validity.repeats, restart_count(spec) * RESTART_SECONDS
    return PlannedDuration(
        repeats * sum(each.least_seconds for each in planned) + restarts_seconds,
        repeats * sum(each.most_seconds for each in planned) + restarts_seconds,
        repeats * sum(each.idle_seconds for each in planned),
    )


def _check_files(
    run: BenchmarkRun, base: Path, *, starts: bool = True, allow_python_steps: bool = False
) -> str:
    """Check what a run names, and start its server if `starts`; return what was not checked."""
    from inferometer_cli.local.files import check_files, check_manifest_dataset
    from inferometer_cli.local.server import try_server

    files = check_files(run, base, allow_python_steps=allow_python_steps)
    check_manifest_dataset(files.manifest)
    uri = run.spec.model.uri
    if not starts:
        return ""
    if not is_launched(run.spec) or uri is None:
        return "The server was not contacted."
    if uri.startswith("https:"):
        return "The model was not downloaded."
    trial = try_server(
        run, base, files.inputs, files.manifest, allow_python_steps=allow_python_steps
    )
    if outcome := asyncio.run(trial):
        error = RefusedError if outcome.state == "Refused" else FailedError
        raise error(outcome.message)
    return ""


def _planned_lines(run: BenchmarkRun) -> Iterator[str]:
    """Yield how long the run takes, and below it each of its scenarios."""
    spec = run.spec
    planned = [planned_duration(each, spec) for each in spec.scenarios]
    repeats, restarts, whole = spec.validity.repeats, restart_count(spec), _whole_duration(run)
    included = f"warm-up and {repeats} repeats" if repeats > 1 else "warm-up"
    if restarts:
        of_server = "1 restart" if restarts == 1 else f"{restarts} restarts"
        included = f"warm-up, {repeats} repeats and {of_server} of the server"
    yield f"planned duration: {_span(whole)} with {included}, after the server's start"
    if whole.idle_seconds:
        idle = long_duration(whole.idle_seconds)
        yield f"  {idle} more if energy can be measured: the idle power"
    width = max(len(scenario.name) for scenario in spec.scenarios)
    for scenario, each in zip(spec.scenarios, planned, strict=True):
        times = f"{repeats} times " if repeats > 1 else ""
        yield f"  {scenario.name:<{width}}  {times}{_span(each)}"
    if whole.most_seconds + whole.idle_seconds > spec.active_deadline_seconds:
        deadline = long_duration(spec.active_deadline_seconds)
        yield f"spec.activeDeadlineSeconds ends the run after {deadline}"


def _span(planned: PlannedDuration) -> str:
    most = long_duration(planned.most_seconds)
    if long_duration(planned.least_seconds) == most:
        return most
    if not planned.least_seconds:
        return f"up to {most}"
    return f"{long_duration(planned.least_seconds)} to {most}"
