"""`inferometer cancel`: ends a run in a cluster and keeps what it measured."""

from typing import Annotated

import typer

from inferometer_cli.cluster.options import (
    ClusterOptions,
    ContextOption,
    KubeconfigOption,
    NamespaceOption,
    RunName,
)
from inferometer_cli.exits import FailedError
from inferometer_cli.program import program_name
from inferometer_cli.terminal import print_output


def cancel(
    name: RunName,
    namespace: NamespaceOption = None,
    context: ContextOption = None,
    kubeconfig: KubeconfigOption = None,
    *,
    wait: Annotated[
        bool, typer.Option("--wait", help="Follow the run until it is finished.")
    ] = False,
    timeout: Annotated[
        int, typer.Option("--timeout", min=1, metavar="SECONDS", help="How long --wait waits.")
    ] = 300,
) -> None:
    """End a run and keep what it has measured so far. This cannot be undone."""
    from inferometer_cli.cluster.api import connect
    from inferometer_cli.cluster.cancellation import cancel_run
    from inferometer_cli.cluster.follow import follow
    from inferometer_cli.cluster.run_summary import headline
    from inferometer_cli.cluster.runs import read_run

    cluster = connect(ClusterOptions(namespace, context, kubeconfig))
    run, sentence = cancel_run(cluster, read_run(cluster, name))
    print_output(sentence)
    if not wait:
        return
    run = follow(cluster, run, until_seconds=timeout)
    if not run.holds("Finished"):
        raise FailedError(
            f"{run.namespace}/{run.name} was not finished after {timeout} s. Check that an "
            f"operator serves its namespace: {program_name()} preflight -n {run.namespace}"
        )
    head = headline(run)
    print_output(f"{head.word}: {head.sentence}")
