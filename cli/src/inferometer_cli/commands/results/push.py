"""`inferometer results push`: keeps a result in a cluster."""

import json
from pathlib import Path
from typing import Annotated

import typer

from inferometer_cli.cluster.options import ClusterOptions, ContextOption, KubeconfigOption
from inferometer_cli.exits import FailedError, RefusedError
from inferometer_cli.program import program_name
from inferometer_cli.result_file import RESULT_NAME, parse_result
from inferometer_cli.result_store import open_store
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
    from inferometer_cli.cluster.api import connect
    from inferometer_cli.cluster.results_service import ResultsService

    path = Path(result) / RESULT_NAME if Path(result).is_dir() else Path(result)
    is_kept = "/" not in result and not path.is_file()
    content = _kept_content(result) if is_kept else _file_content(path)
    run_id = parse_result(content, source=result).run_id
    if not is_kept:
        _refuse_retracted_file(content, run_id)
    service = ResultsService(connect(ClusterOptions(to, context, kubeconfig)))
    service.check()
    kept = service.push(to, json.loads(content))
    print_output(kept["id"])
    if not kept["is_new"]:
        print_message("The service has this result already.")
    print_message(f"{program_name()} web {kept['page']} opens it.")


def _kept_content(id_: str) -> bytes:
    with open_store(None) as store:
        whole = store.resolve(id_)
        _refuse_retracted(whole, store.retraction(whole))
        return store.read(whole).content


def _file_content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise RefusedError(f"Cannot read {path}: {error.strerror}.") from error


def _refuse_retracted_file(content: bytes, run_id: str) -> None:
    """Refuse a file whose result this machine's database has as retracted."""
    from inferometer_results.store.database import default_address

    address = default_address()
    if "://" not in address and not Path(address).exists():
        return
    try:
        with open_store(address) as store:
            copy = store.retracted_copy(content, run_id)
    except FailedError as error:
        print_message(f"Whether the result is retracted here is unknown. {error}")
        return
    if copy is not None:
        _refuse_retracted(*copy)


def _refuse_retracted(id_: str, reason: str | None) -> None:
    if reason is not None:
        # The document does not have the retraction, so the cluster would count its figures.
        short = short_id(id_)
        raise RefusedError(
            f"Result {short} is retracted: {reason.removesuffix('.')}. If its figures are right, "
            f"take the retraction back first: inferometer results retract {short} --undo"
        )
