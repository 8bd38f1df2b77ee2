"""`inferometer results push`: keeps a result in a cluster."""

import json
from pathlib import Path
from typing import Annotated

import typer

from inferometer_cli.cluster.options import ClusterOptions, ContextOption, KubeconfigOption
from inferometer_cli.exits import RefusedError
from inferometer_cli.program import program_name
from inferometer_cli.result_file import RESULT_NAME
from inferometer_cli.result_store import opened
from inferometer_cli.terminal import print_message, print_output
from inferometer_results.store.scenario_rows import short_id


def push(
    result: Annotated[
        str,
        typer.Argument(
            metavar="RESULT",
            help=f"A result file, a folder with a {RESULT_NAME}, or the ID of a kept result.",
            show_default=False,
        ),
    ],
    *,
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="NAMESPACE",
            help="Namespace that the result is kept for; you need the right to create "
            "benchmarkruns there.",
            show_default=False,
        ),
    ],
    context: ContextOption = None,
    kubeconfig: KubeconfigOption = None,
) -> None:
    """Keep a result of this machine in the results service of a cluster.

    It is marked as yours (source=user), and never passes for a run of the cluster. A retracted
    result is refused.
    """
    from inferometer_api.results.reading import read_result
    from inferometer_cli.cluster.api import connect
    from inferometer_cli.cluster.results_service import ResultsService

    content = _content(result)
    read_result(content, source=result)
    service = ResultsService(connect(ClusterOptions(to, context, kubeconfig)))
    service.check()
    kept = service.push(to, json.loads(content))
    print_output(kept["id"])
    if not kept["is_new"]:
        print_message("The service has this result already.")
    print_message(f"{program_name()} web {kept['page']} opens it.")


def _content(result: str) -> bytes:
    path = Path(result) / RESULT_NAME if Path(result).is_dir() else Path(result)
    if "/" not in result and not path.is_file():
        with opened(None) as store:
            id_ = store.resolve(result)
            if (reason := store.retraction(id_)) is not None:
                raise RefusedError(_retracted(short_id(id_), reason))
            return store.read(id_).content
    try:
        return path.read_bytes()
    except OSError as error:
        raise RefusedError(f"Cannot read {path}: {error.strerror}.") from error


def _retracted(id_: str, reason: str) -> str:
    # The document does not have the retraction, so the cluster would count its figures.
    return (
        f"Result {id_} is retracted: {reason.removesuffix('.')}. If its figures are right, take "
        f"the retraction back first: inferometer results retract {id_} --undo"
    )
