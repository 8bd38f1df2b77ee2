"""`inferometer results tag`, `retract` and `reindex`: what people say of results."""

from typing import Annotated

import typer

from inferometer_cli.cluster.options import ClusterOptions, ContextOption, KubeconfigOption
from inferometer_cli.commands.results.show import IdArgument
from inferometer_cli.result_source import ClusterOption, opened_source
from inferometer_cli.result_store import DatabaseOption, IndexProgress, open_store
from inferometer_cli.terminal import print_message


def tag(  # noqa: PLR0913 - one argument for each option
    id_: IdArgument,
    name: Annotated[str, typer.Argument(metavar="TAG", help="The tag.", show_default=False)],
    *,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the tag.")] = False,
    database: DatabaseOption = None,
    cluster: ClusterOption = False,
    context: ContextOption = None,
    kubeconfig: KubeconfigOption = None,
) -> None:
    """Tag a result. `results list --where tag=TAG` finds it; `results prune` keeps it."""
    options = ClusterOptions(None, context, kubeconfig)
    with opened_source(database, options, in_cluster=cluster) as source:
        source.annotate(id_, "untag" if remove else "tag", name)


def retract(  # noqa: PLR0913 - one argument for each option
    id_: IdArgument,
    *,
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Why its figures are wrong.")
    ] = "",
    undo: Annotated[bool, typer.Option("--undo", help="Take the retraction back.")] = False,
    database: DatabaseOption = None,
    cluster: ClusterOption = False,
    context: ContextOption = None,
    kubeconfig: KubeconfigOption = None,
) -> None:
    """Mark a result as wrong: it stays, and lists leave it out."""
    options = ClusterOptions(None, context, kubeconfig)
    with opened_source(database, options, in_cluster=cluster) as source:
        source.annotate(id_, "restore" if undo else "retract", reason)


def reindex(*, database: DatabaseOption = None) -> None:
    """Make the index anew from the documents and from what people added."""
    done = 0
    faults: list[str] = []
    with open_store(database, must_exist=True) as store, IndexProgress() as progress:
        for done in store.reindex(faults.append, progress):  # noqa: B007 - the last one counts
            pass
    for fault in faults:
        print_message(fault)
    print_message(f"{done} results indexed.")
    if faults:
        raise typer.Exit(1)
