"""How does a run go on, from now until it is finished?"""

import time
from collections.abc import Callable

from inferometer_cli.cluster.api import Cluster, NotThereError, UnreachableError
from inferometer_cli.cluster.run_summary import headline
from inferometer_cli.cluster.runs import SeenRun, seen
from inferometer_cli.exits import FailedError

_EVERY_SECONDS = 1.0
_PATIENCE_SECONDS = 120.0
"""How long an API server may be away before nobody waits for it any more."""


def follow(
    cluster: Cluster,
    run: SeenRun,
    *,
    until_seconds: float | None = None,
    report: Callable[[str], None] = print_message,
) -> SeenRun:
    """Return the run as it is once Finished; tell a line at each change until then.

    Past `until_seconds` the run is returned as it is then. Raises FailedError where the run is
    deleted meanwhile, or the API server stays away.
    """
    end_at = None if until_seconds is None else time.monotonic() + until_seconds
    told = ""
    while not run.holds("Finished"):
        line = line_of(run)
        if line != told:
            report(line)
            told = line
        if end_at is not None and time.monotonic() >= end_at:
            return run
        time.sleep(_EVERY_SECONDS)
        run = _again(cluster, run, report)
    return run


def line_of(run: SeenRun) -> str:
    """Return in one line how a run stands that goes on."""
    head = headline(run)
    if run.has_ended:
        return f"{head.word}: {head.sentence.partition(chr(10))[0]} Cleaning up."
    progress, shown = run.status.progress_percent, run.status.display
    far = "" if progress is None else f" {progress} %"
    if shown is None or not shown.scenario:
        return f"{head.word.lower()}{far}: {head.sentence}"
    figures = "  ".join(
        part for part in (f"{shown.qps} queries/s" if shown.qps else "", _p99(shown.p99)) if part
    )
    return f"{head.word.lower()}{far}: {shown.scenario}  {figures}".rstrip()


def _p99(text: str | None) -> str:
    return f"p99 {text}" if text else ""


def _again(cluster: Cluster, run: SeenRun, report: Callable[[str], None]) -> SeenRun:
    """Return the run as it is now; wait for an API server that is away for a while."""
    give_up_at = time.monotonic() + _PATIENCE_SECONDS
    is_told = False
    while True:
        try:
            now = seen(cluster.read(cluster.run_path(run.name)))
        except UnreachableError as error:
            if time.monotonic() >= give_up_at:
                raise
            if not is_told:
                report(f"{error} Waiting for it.")
                is_told = True
            time.sleep(_EVERY_SECONDS)
            continue
        except NotThereError as error:
            raise _deleted(run) from error
        if now.uid != run.uid:
            raise _deleted(run)
        return now


def _deleted(run: SeenRun) -> FailedError:
    return FailedError(
        f"The BenchmarkRun {run.namespace}/{run.name} was deleted while it was followed; nothing "
        "of it is kept."
    )
