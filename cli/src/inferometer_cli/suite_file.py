"""Suite files: read, overridden with --set, and planned."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from inferometer_api.runtimes.descriptor import Place
from inferometer_api.spec.reading import InvalidRunError
from inferometer_api.spec.run import BenchmarkRun
from inferometer_api.suite.plan_suite import (
    ANYWHERE,
    InvalidSuiteError,
    SuitePlan,
    System,
    plan_suite,
)
from inferometer_api.suite.reading import is_suite, parse_suite
from inferometer_api.suite.schedule import ScheduleError, check_schedule
from inferometer_api.suite.spec import BenchmarkSuite
from inferometer_cli.exits import RefusedError
from inferometer_cli.run_file import check_support, print_warnings, read_text, split_setting


def read_suite(file: Path, settings: Sequence[str] = ()) -> BenchmarkSuite | None:
    """Return the suite in a file, None if it holds something else. Raises RefusedError."""
    text = read_text(file)
    if not is_suite(text):
        return None
    try:
        suite = parse_suite(
            text, source=str(file), overrides=[split_setting(each) for each in settings]
        )
    except InvalidRunError as error:
        raise RefusedError(str(error)) from error
    if suite.spec.schedule is not None:
        try:
            check_schedule(suite.spec.schedule)
        except ScheduleError as error:
            raise RefusedError(f"{file} is not a valid BenchmarkSuite:\n  {error}") from error
    return suite


def plan_file(
    suite: BenchmarkSuite,
    *,
    source: str,
    place: Place,
    systems: Sequence[System] = (ANYWHERE,),
    execution: str = "",
) -> SuitePlan:
    """Return the plan of a suite. Raises RefusedError with every cell that is no valid run."""
    if place == "Local" and (problems := list(_unavailable_locally(suite))):
        raise RefusedError("\n  ".join((f"{source} cannot be run here:", *problems)))
    try:
        return plan_suite(suite, systems, place=place, execution=execution)
    except InvalidSuiteError as error:
        lines = "".join(f"\n  {problem}" for problem in error.problems)
        raise RefusedError(f"{source} cannot be planned:{lines}") from error


def cell_runs(plan: SuitePlan) -> dict[str, BenchmarkRun]:
    """Return the run of each cell by its key, resolved and checked for this machine.

    Warnings are printed, each once. Raises RefusedError with the first cell that cannot be run.
    """
    first = {run.cell.key: run for run in reversed(plan.runs)}
    runs = {key: each.run for key, each in first.items()}
    checked = {
        key: check_support(run, source=f"cell {first[key].label}") for key, run in runs.items()
    }
    print_warnings(runs.values())
    return checked


def _unavailable_locally(suite: BenchmarkSuite) -> Iterator[str]:
    """Yield a sentence for each field that a suite on this machine does not support."""
    for name in ("suspend", "cancel"):
        if getattr(suite.spec, name):
            yield f"spec.{name}: a local suite is stopped by Ctrl-C and repeated later. Omit it."
