"""What does a person see of a run: where it stands, its figures, what happened last?"""

from collections.abc import Iterable
from datetime import UTC, datetime

from rich.console import Console

from inferometer_cli.cluster.api import Cluster
from inferometer_cli.cluster.figures import print_figures
from inferometer_cli.cluster.runs import SeenRun
from inferometer_cli.cluster.summary import (
    condition_lines,
    event_lines,
    event_of,
    head_lines,
    verdict_line,
)
from inferometer_cli.exits import FailedError, RefusedError
from inferometer_cli.program import program_name
from inferometer_cli.terminal import output, tell, written_out


def show_run(cluster: Cluster, run: SeenRun) -> None:
    """Print a run to standard output, and to standard error what can be asked next."""
    now = datetime.now(tz=UTC)
    events = _events(cluster, run, now)
    console = output()
    with written_out():
        _print(head_lines(run, now), console)
        _print(["", *condition_lines(run), ""], console)
        print_figures(run.status.scenarios, verdict_line(run), console)
        _print(["", "events", *events], console)
    if run.status.result is not None and run.status.result.config_maps:
        where = f"{run.name} -n {run.namespace}"
        tell(f"\nresult  {program_name()} result {where}\nreport  {program_name()} report {where}")


def _print(lines: Iterable[str], console: Console) -> None:
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _events(cluster: Cluster, run: SeenRun, now: datetime) -> list[str]:
    try:
        listed = cluster.read(
            cluster.core_path("events"), {"fieldSelector": f"involvedObject.uid={run.uid}"}
        )
    except (RefusedError, FailedError) as error:
        return [f"not known: {error}"]
    lines = list(event_lines([event_of(item) for item in listed.get("items", [])], now))
    return lines or ["none: the cluster keeps events for an hour or so"]
