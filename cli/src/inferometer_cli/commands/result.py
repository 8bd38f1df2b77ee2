"""`inferometer result`: the whole result document of a run in a cluster."""

from pathlib import Path
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
from inferometer_cli.terminal import say, tell

_STANDARD_OUTPUT = Path("-")


def result(
    name: RunName,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="FILE", help="Where it goes; - is standard output."),
    ] = _STANDARD_OUTPUT,
    namespace: NamespaceOption = None,
    context: ContextOption = None,
    kubeconfig: KubeconfigOption = None,
) -> None:
    """Take a run's whole result document out of its cluster, its checksum checked.

    It is the result.json that `inferometer run` leaves: `inferometer report FILE` draws it.
    """
    from inferometer_cli.cluster.api import connect
    from inferometer_cli.cluster.results import read_result
    from inferometer_cli.cluster.runs import read_run

    cluster = connect(ClusterOptions(namespace, context, kubeconfig))
    document = read_result(cluster, read_run(cluster, name))
    if output == _STANDARD_OUTPUT:
        say(document.decode(), end="")
        return
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_bytes(document)
    except OSError as error:
        raise FailedError(f"{output} could not be written: {error.strerror}.") from error
    tell(f"result  {output}")
