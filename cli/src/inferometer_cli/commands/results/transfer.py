"""`inferometer results export` and `import`: carries results between stores in one file."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TextIO

import typer

from inferometer_api.timestamps import format_time
from inferometer_cli.cluster.options import ClusterOptions, ContextOption, KubeconfigOption
from inferometer_cli.exits import FailedError, RefusedError
from inferometer_cli.result_file import RESULT_NAME
from inferometer_cli.result_source import ClusterOption, opened_source
from inferometer_cli.result_store import DatabaseOption, WhereOption, open_store
from inferometer_cli.terminal import print_message, print_output

if TYPE_CHECKING:
    from inferometer_results.store.store import Store
    from inferometer_results.store.transfer import Imported

_OutputOption = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", metavar="FILE", help="File to write. [default: standard output]"
    ),
]


def export(  # noqa: PLR0913 - one argument for each option
    *,
    where: WhereOption = "",
    format_: Annotated[
        Literal["csv", "jsonl", "parquet"] | None,
        typer.Option(
            "--format",
            help="One row for each measurement; jsonl: one for each result. [default: csv]",
            show_default=False,
        ),
    ] = None,
    all_: Annotated[
        bool,
        typer.Option(
            "--all",
            help="Export every document and what people added, for `results import` elsewhere.",
        ),
    ] = False,
    output: _OutputOption = None,
    database: DatabaseOption = None,
    cluster: ClusterOption = False,
    context: ContextOption = None,
    kubeconfig: KubeconfigOption = None,
) -> None:
    """Write the figures of results, retracted ones left out; or the whole store with --all.

    Of a cluster: the results that you may read.
    """
    from inferometer_results.store import transfer

    if all_ and where:
        raise RefusedError("--all exports the whole store: leave --where away.")
    if all_ and format_:
        raise RefusedError("--all writes an archive for `results import`: leave --format away.")
    options = ClusterOptions(None, context, kubeconfig)
    with opened_source(database, options, in_cluster=cluster) as source:
        if all_:
            _export_archive(source.archive(), output)
            return
        results = source.every(where)
        if format_ == "parquet":
            if output is None:
                raise RefusedError("Parquet is not text: name a file with --output.")
            with _replace(output) as partial:
                transfer.write_parquet(transfer.figure_rows(results), partial)
            return
    text = (
        transfer.as_json_lines(results)
        if format_ == "jsonl"
        else transfer.as_csv(transfer.figure_rows(results), transfer.figure_columns())
    )
    with _open_output(output) as file:
        _write(file, text)


def _export_archive(lines: Iterator[str], output: Path | None) -> None:
    from inferometer_results.store.transfer import damage_of

    faults = written = 0
    with _open_output(output) as file:
        for line in lines:
            if fault := damage_of(line):
                faults += 1
                print_message(fault)
            else:
                _write(file, f"{line}\n")
                written += 1
    if not written and not faults:
        print_message("Nothing is exported: there are no results.")
    if faults:
        print_message(f"Left out, because they are damaged: {faults}. The others are exported.")
        raise typer.Exit(1)


def import_results(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH",
            help=f"A result file, an export of --all (.jsonl), or a folder, in which every "
            f"{RESULT_NAME} is taken.",
            show_default=False,
        ),
    ],
    *,
    database: DatabaseOption = None,
) -> None:
    """Keep results from elsewhere. What is kept already is left as it is, unless it is damaged."""
    counts = {"kept": 0, "known": 0, "refused": 0}
    try:
        with open_store(database) as store:
            for path in paths:
                for each in _import(store, path):
                    if each.fault:
                        counts["refused"] += 1
                        print_message(each.fault)
                    if each.is_repaired:
                        print_message(f"The document {each.id} was damaged, and is whole again.")
                    if each.id:
                        counts["kept" if each.is_new else "known"] += 1
    except FailedError as error:
        if any(counts.values()):
            raise FailedError(f"{error} Before that: {_counted(counts)}") from error
        raise
    print_message(_counted(counts))
    if counts["refused"]:
        raise typer.Exit(1)


def _counted(counts: Mapping[str, int]) -> str:
    return "{kept} kept, {known} known already, {refused} refused.".format_map(counts)


def _import(store: "Store", path: Path) -> "Iterator[Imported]":
    from inferometer_results.store import transfer

    now = format_time(datetime.now(tz=UTC))
    if path.suffix == transfer.ARCHIVE_SUFFIX:
        try:
            # A line that is not UTF-8 is refused alone.
            with path.open(encoding="utf-8", errors="surrogateescape", newline="\n") as lines:
                yield from transfer.import_archive(store, lines, source=str(path))
        except OSError as error:
            yield transfer.Imported(str(path), fault=f"Cannot read {path}: {error}.")
        return
    files = sorted(path.rglob(RESULT_NAME)) if path.is_dir() else [path]
    if not files:
        yield transfer.Imported(str(path), fault=f"{path} holds no {RESULT_NAME}.")
    for file in files:
        yield transfer.import_file(store, file, now)


@contextmanager
def _open_output(output: Path | None) -> Iterator[TextIO | None]:
    if output is None:
        yield None
        return
    with (
        _replace(output) as partial,
        partial.open("w", encoding="utf-8", newline="") as file,
    ):
        yield file


@contextmanager
def _replace(output: Path) -> Iterator[Path]:
    """Yield a path next to a file, which takes the file's place if the block succeeds.

    So the file is whole or as it was. What is not a file, such as a pipe, is written itself.
    """
    is_special = output.exists() and not output.is_file()
    target = output.resolve()
    partial = output if is_special else target.with_name(f".{target.name}.{os.getpid()}")
    try:
        yield partial
        if not is_special:
            partial.replace(target)
    except OSError as error:
        reason = error.strerror or str(error)
        raise FailedError(f"Cannot write {output}: {reason}. Nothing was exported.") from error
    finally:
        if not is_special:
            partial.unlink(missing_ok=True)


def _write(file: TextIO | None, text: str) -> None:
    if file is None:
        print_output(text, end="")
    else:
        file.write(text)
