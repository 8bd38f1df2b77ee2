"""`inferometer results delete` and `prune`: removes stored results by name or by age."""

from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from inferometer_api.timestamps import format_time
from inferometer_cli.cluster.options import ClusterOptions, ContextOption, KubeconfigOption
from inferometer_cli.exits import RefusedError
from inferometer_cli.result_source import ClusterOption, opened_source
from inferometer_cli.result_store import DatabaseOption, open_store
from inferometer_cli.terminal import print_message

_MOST_DAYS = 100_000
"""So long ago, there is still a date."""


def delete(
    ids: Annotated[
        list[str], typer.Argument(metavar="ID", help="IDs of results.", show_default=False)
    ],
    *,
    database: DatabaseOption = None,
    cluster: ClusterOption = False,
    context: ContextOption = None,
    kubeconfig: KubeconfigOption = None,
) -> None:
    """Delete results with their tags. They cannot be brought back."""
    options = ClusterOptions(None, context, kubeconfig)
    with opened_source(database, options, in_cluster=cluster) as source:
        deleted = source.delete(ids)
    print_message(f"Results deleted: {deleted}.")


def prune(
    *,
    older_than_days: Annotated[
        int | None,
        typer.Option(
            "--older-than-days",
            min=0,
            max=_MOST_DAYS,
            metavar="N",
            help="Delete results older than this.",
        ),
    ] = None,
    keep_megabytes: Annotated[
        int | None,
        typer.Option(
            "--keep-megabytes",
            min=0,
            metavar="N",
            help="Delete the oldest results until the rest takes no more than this.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print how many would be deleted.")
    ] = False,
    database: DatabaseOption = None,
) -> None:
    """Delete old results, but none that has a tag or begins a judged change (`results confirm`).

    The results service of a cluster does so by itself: value `retention` of its chart.
    """
    from inferometer_results.store.retention import dispensable

    if older_than_days is None and keep_megabytes is None:
        raise RefusedError("Say what to delete: --older-than-days or --keep-megabytes.")
    oldest = None
    if older_than_days is not None:
        oldest = format_time(datetime.now(tz=UTC) - timedelta(days=older_than_days))
    most_bytes = None if keep_megabytes is None else keep_megabytes * 10**6
    with open_store(database, must_exist=True) as store:
        chosen = dispensable(store, oldest, most_bytes)
        deleted = len(chosen) if dry_run else store.delete(chosen)
    print_message(f"Results {'that would be ' if dry_run else ''}deleted: {deleted}.")
