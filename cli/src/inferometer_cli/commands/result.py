"""`inferometer result`: downloads the result document of a run in a cluster."""

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
from inferometer_cli.terminal import print_message, print_output

_STANDARD_OUTPUT = Path("-")


def result(
    name: RunName,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="FILE", help="Output file; - is standard output."),
    ] = _STANDARD_OUTPUT,
    namespace: NamespaceOption = None,
    context: ContextOption = None,
    kubeconfig: KubeconfigOption = None,
) -> None:
    """Download the result of a run and verify its checksum.

    It has the format of the result.json that `inferometer run` writes. `inferometer report FILE`
    shows it.
    """
    from inferometer_cli.cluster.api import connect
    from inferometer_cli.cluster.results import download_result
    from inferometer_cli.cluster.runs import read_run

    cluster = connect(ClusterOptions(namespace, context, kubeconfig))
    document = download_result(cluster, read_run(cluster, name))
    if output == _STANDARD_OUTPUT:
        print_output(document.decode(), end="")
        return
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_bytes(document)
    except OSError as error:
        raise FailedError(f"Cannot write {output}: {error.strerror}.") from error
    print_message(f"result  {output}")
