"""`inferometer results show`: prints one stored result."""

from pathlib import Path
from typing import Annotated

import typer

from inferometer_cli.cluster.options import ClusterOptions, ContextOption, KubeconfigOption
from inferometer_cli.exits import FailedError
from inferometer_cli.result_source import ClusterOption, opened_source
from inferometer_cli.result_store import DatabaseOption
from inferometer_cli.terminal import (
    flushed_output,
    output_console,
    print_message,
    print_output,
)

IdArgument = Annotated[
    str, typer.Argument(metavar="ID", help="ID of a result, or its beginning.", show_default=False)
]


def show(  # noqa: PLR0913 - one argument for each option
    id_: IdArgument,
    *,
    json: Annotated[bool, typer.Option("--json", help="Print the result document.")] = False,
    report: Annotated[
        Path | None,
        typer.Option("--report", metavar="FILE.html", help="Write its report to this file."),
    ] = None,
    database: DatabaseOption = None,
    cluster: ClusterOption = False,
    context: ContextOption = None,
    kubeconfig: KubeconfigOption = None,
) -> None:
    """Print the table of a result, as the run printed it."""
    from inferometer_cli.result_file import parse_result, save_report
    from inferometer_cli.tables.result import print_table

    options = ClusterOptions(None, context, kubeconfig)
    with opened_source(database, options, in_cluster=cluster) as source:
        content, retracted = source.document(id_), source.retraction(id_)
    if json:
        print_output(content.decode(), end="")
        return
    document = parse_result(content, source=f"Result {id_}")
    if retracted is not None:
        print_message(f"This result is retracted: {retracted}")
    with flushed_output():
        print_table(document, output_console())
    if report is not None:
        try:
            save_report(document, report, retracted=retracted)
        except OSError as error:
            raise FailedError(f"Cannot write {report}: {error.strerror}.") from error
        print_message(f"\nreport  {report}")
