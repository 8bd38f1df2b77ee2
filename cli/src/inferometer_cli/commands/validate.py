"""`inferometer validate`: checks whether a run file can be run on this machine."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

from inferometer_api.scenarios.planned_duration import (
    RESTART_SECONDS,
    PlannedDuration,
    planned_duration,
    restart_count,
)
from inferometer_api.spec.resolve import is_launched
from inferometer_api.spec.run import BenchmarkRun
from inferometer_cli.exits import FailedError, RefusedError
from inferometer_cli.run_file import RunFile, SetOption, read_run_file
from inferometer_cli.terminal import print_message, print_output
from inferometer_results.quantity import long_duration


def validate(file: RunFile, set_: SetOption = None) -> None:
    """Check that a file is a BenchmarkRun that can be run here, or report what is wrong.

    The server is started with the model and the inputs, as a run would, and stopped once it is
    ready. Not checked, because only a run can: models from https://, External servers. Prints how
    long the run takes. For a run in a cluster use `inferometer preflight`.
    """
    run = read_run_file(file, set_ or [])
    _check_files(run, file.absolute().parent)
    names = ", ".join(f"{scenario.name} ({scenario.kind})" for scenario in run.spec.scenarios)
    print_output(f"{file} is a valid BenchmarkRun: {run.name}, scenarios {names}")
    print_output("\n".join(_planned_lines(run)))


def _check_files(run: BenchmarkRun, base: Path) -> None:
    from inferometer_cli.local.files import credentials, inputs_file, trace_files
    from inferometer_cli.local.server import try_server

    file = inputs_file(run, base)
    trace_files(run, base)
    credentials(run, base)
    uri = run.spec.model.uri
    if not is_launched(run.spec) or uri is None:
        print_message("note: The server was not contacted.")
    elif uri.startswith("https:"):
        print_message("note: The model was not downloaded.")
    elif outcome := asyncio.run(try_server(run, base, file)):
        error = RefusedError if outcome.state == "Refused" else FailedError
        raise error(outcome.message)


def _planned_lines(run: BenchmarkRun) -> Iterator[str]:
    """Yield how long the run takes, and below it each of its scenarios."""
    spec = run.spec
    planned = [planned_duration(each, spec) for each in spec.scenarios]
    repeats = spec.validity.repeats
    restarts = restart_count(spec)
    restarts_seconds = restarts * RESTART_SECONDS
    whole = PlannedDuration(
        repeats * sum(each.least_seconds for each in planned) + restarts_seconds,
        repeats * sum(each.most_seconds for each in planned) + restarts_seconds,
    )
    included = f"warm-up and {repeats} repeats" if repeats > 1 else "warm-up"
    if restarts:
        of_server = "1 restart" if restarts == 1 else f"{restarts} restarts"
        included = f"warm-up, {repeats} repeats and {of_server} of the server"
    yield f"planned duration: {_span(whole)} with {included}, after the server's start"
    idle = repeats * sum(each.idle_seconds for each in planned)
    if idle:
        yield f"  {long_duration(idle)} more if energy can be measured: the idle power"
    width = max(len(scenario.name) for scenario in spec.scenarios)
    for scenario, each in zip(spec.scenarios, planned, strict=True):
        times = f"{repeats} times " if repeats > 1 else ""
        yield f"  {scenario.name:<{width}}  {times}{_span(each)}"
    if whole.most_seconds + idle > spec.active_deadline_seconds:
        deadline = long_duration(spec.active_deadline_seconds)
        yield f"spec.activeDeadlineSeconds ends the run after {deadline}"


def _span(planned: PlannedDuration) -> str:
    most = long_duration(planned.most_seconds)
    if not planned.least_seconds:
        return f"up to {most}"
    return f"{long_duration(planned.least_seconds)} to {most}"
