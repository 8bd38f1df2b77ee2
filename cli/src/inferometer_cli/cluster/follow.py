"""Following a run in a cluster until it is finished."""

import time
from collections.abc import Callable

from inferometer_cli.cluster.api import Cluster, ClusterUnreachableError, NotThereError
from inferometer_cli.cluster.run_summary import headline
from inferometer_cli.cluster.runs import SeenRun, seen
from inferometer_cli.exits import FailedError
from inferometer_cli.terminal import print_message

_EVERY_SECONDS = 1.0
_PATIENCE_SECONDS = 120.0
"""How long the API server may be unreachable before the command gives up."""


def follow(
    cluster: Cluster,
    run: SeenRun,
    *,
    until_seconds: float | None = None,
    report: Callable[[str], None] = print_message,
) -> SeenRun:
    """Report a line at each change until the run is Finished; return the run.

    After `until_seconds` the run is returned as it is. Raises FailedError if the run is deleted
    or the API server stays unreachable.
    """
    end_at = None if until_seconds is None else time.monotonic() + until_seconds
    last_line = ""
    while not run.holds("Finished"):
        line = line_of(run)
        if line != last_line:
            report(line)
            last_line = line
        if end_at is not None and time.monotonic() >= end_at:
            return run
        time.sleep(_EVERY_SECONDS)
        run = _refresh(cluster, run, report)
    return run


def line_of(run: SeenRun) -> str:
    """Return the state of a run that is not finished, in one line."""
    head = headline(run)
    if run.has_ended:
        return f"{head.word}: {head.sentence.partition(chr(10))[0]} Cleaning up."
    progress, shown = run.status.progress_percent, run.status.display
    far = "" if progress is None else f" {progress} %"
    if shown is None or not shown.scenario:
        return f"{head.word.lower()}{far}: {head.sentence}"
    live_figures = "  ".join(
        part for part in (f"{shown.qps} queries/s" if shown.qps else "", _p99(shown.p99)) if part
    )
    return f"{head.word.lower()}{far}: {shown.scenario}  {live_figures}".rstrip()


def _p99(text: str | None) -> str:
    return f"p99 {text}" if text else ""


def _refresh(cluster: Cluster, run: SeenRun, report: Callable[[str], None]) -> SeenRun:
    """Return the current state of the run; wait while the API server is unreachable."""
    give_up_at = time.monotonic() + _PATIENCE_SECONDS
    is_reported = False
    while True:
        try:
            now = seen(cluster.read(cluster.run_path(run.name)))
        except ClusterUnreachableError as error:
            if time.monotonic() >= give_up_at:
                raise
            if not is_reported:
                report(f"{error} Still trying.")
                is_reported = True
            time.sleep(_EVERY_SECONDS)
            continue
        except NotThereError as error:
            raise _deleted(run) from error
        if now.uid != run.uid:
            raise _deleted(run)
        return now


def _deleted(run: SeenRun) -> FailedError:
    return FailedError(
        f"BenchmarkRun {run.namespace}/{run.name} was deleted while this command followed it; "
        "its result is gone."
    )
