"""`inferometer preflight`: what would stop a run, before it starts?"""

from pathlib import Path
from typing import Annotated

import typer

from inferometer_cli.cluster.options import (
    ClusterOptions,
    ContextOption,
    KubeconfigOption,
    NamespaceOption,
)
from inferometer_cli.exits import ExitCode
from inferometer_cli.run_file import parse_run_file
from inferometer_cli.terminal import say


def preflight(
    file: Annotated[
        Path | None,
        typer.Option("--filename", "-f", metavar="FILE", help="The BenchmarkRun that is meant."),
    ] = None,
    namespace: NamespaceOption = None,
    context: ContextOption = None,
    kubeconfig: KubeconfigOption = None,
) -> None:
    """Say what would stop a run in a cluster, before it starts.

    Each line is something that was looked at: ok, warning, stops, or not known. Nothing is changed
    in the cluster. Ends 0 where nothing stops the run, 2 where something does.
    """
    from inferometer_cli.cluster.api import connect
    from inferometer_cli.preflight.assess import looked_over
    from inferometer_cli.preflight.check import lines, summary

    run = None if file is None else parse_run_file(file)
    meant = namespace or (None if run is None else run.metadata.namespace)
    cluster = connect(ClusterOptions(meant, context, kubeconfig))
    checks = list(looked_over(cluster, run))
    what = f"{file or 'a run with defaults'} in namespace {cluster.namespace}"
    say("\n".join((*lines(checks), "", summary(checks, what))))
    if any(check.state == "stops" for check in checks):
        raise typer.Exit(ExitCode.REFUSED)
