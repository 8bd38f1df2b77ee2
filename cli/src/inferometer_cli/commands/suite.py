"""`inferometer suite`: what a suite consists of."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer
import yaml

from inferometer_api.suite.plan_suite import ANYWHERE, SuitePlan, System
from inferometer_api.suite.spec import BenchmarkSuite
from inferometer_api.wording import counted
from inferometer_cli.cluster.options import ClusterOptions, ContextOption, KubeconfigOption
from inferometer_cli.command_group import CommandGroup
from inferometer_cli.exits import RefusedError
from inferometer_cli.run_file import SetOption
from inferometer_cli.suite_file import plan_file, read_suite
from inferometer_cli.terminal import print_message, print_output

app = CommandGroup("suite", help="Plan suites: a matrix of runs over models, stacks and nodes.")
_FormatOption = Annotated[
    Literal["table", "json", "yaml"],
    typer.Option(
        "--format",
        help="A line for each run, or the runs themselves as a list of JSON or as YAML documents.",
    ),
]


@app.callback()
def _suites() -> None:
    """Plan suites: a matrix of runs over models, stacks and nodes."""


@app.command("plan", short_help="Print the runs of a suite, in their order.")
def plan(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="A BenchmarkSuite in YAML or JSON.", show_default=False
        ),
    ],
    *,
    set_: SetOption = None,
    format_: _FormatOption = "table",
    context: ContextOption = None,
    kubeconfig: KubeconfigOption = None,
) -> None:
    """Print the runs that the operator creates for a suite, in their order; nothing is started.

    With spec.systems the cluster's nodes are read.
    """
    suite = read_suite(file, set_ or [])
    if suite is None:
        raise RefusedError(f"{file} is not a BenchmarkSuite: its kind is another one.")
    if suite.spec.reuse:
        print_message(
            "note: spec.reuse is true: a run for which an equal result is stored is not created."
        )
    if suite.spec.schedule is not None:
        print_message(
            "note: these are the runs of one execution; their names begin with the execution's, "
            "which is the suite's with the minutes since 1970."
        )
    systems = _systems(suite, ClusterOptions(None, context, kubeconfig))
    found = plan_file(suite, source=str(file), place="Cluster", systems=systems)
    match format_:
        case "json":
            print_output(json.dumps([run.data for run in found.runs], indent=2))
        case "yaml":
            print_output(
                yaml.safe_dump_all([run.data for run in found.runs], sort_keys=False), end=""
            )
        case "table":
            print_output("\n".join(_lines(found)))
            blocks = len({run.block for run in found.runs})
            print_message(
                f"{counted(len(found.cells), 'cell')}, {counted(len(found.runs), 'run')} in "
                f"{counted(blocks, 'block')}"
                + ("" if found.anchor is None else f", anchor {found.anchor.label}")
            )


def _systems(suite: BenchmarkSuite, where: ClusterOptions) -> Sequence[System]:
    if suite.spec.systems is None:
        return (ANYWHERE,)
    from inferometer_api.suite.systems import find_systems, left_out_nodes
    from inferometer_cli.cluster.api import connect

    nodes = connect(where).read("/api/v1/nodes")["items"]
    tolerations = suite.spec.template.spec.server.placement.tolerations
    if left_out := left_out_nodes(suite.spec.systems, nodes, tolerations):
        print_message(f"note: {left_out}")
    return find_systems(suite.spec.systems, nodes, tolerations)


def _lines(found: SuitePlan) -> Iterator[str]:
    rows = [("RUN", "BLOCK", "ROLE", "CELL", "SYSTEM")] + [
        (run.name, str(run.block.repeat), run.role, run.cell.label, run.block.system.name or "any")
        for run in found.runs
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
