"""`inferometer status`: shows the state of a run in a cluster."""

from typing import Annotated

import typer

from inferometer_cli.cluster.options import (
    ClusterOptions,
    ContextOption,
    KubeconfigOption,
    NamespaceOption,
    RunName,
)


def status(
    name: RunName,
    namespace: NamespaceOption = None,
    context: ContextOption = None,
    kubeconfig: KubeconfigOption = None,
    *,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Follow the run until it is finished.")
    ] = False,
) -> None:
    """Show the conditions, progress and figures of a run.

    The exit code is that of `inferometer run`: 0 VALID, 3 INVALID, 1 failed, 2 refused. For a run
    that has not ended it is 0.
    """
    from inferometer_cli.cluster.api import connect
    from inferometer_cli.cluster.follow import follow
    from inferometer_cli.cluster.run_summary import exit_code_of
    from inferometer_cli.cluster.runs import read_run
    from inferometer_cli.cluster.status_table import show_run

    cluster = connect(ClusterOptions(namespace, context, kubeconfig))
    run = read_run(cluster, name)
    if watch:
        run = follow(cluster, run)
    show_run(cluster, run)
    raise typer.Exit(exit_code_of(run))
