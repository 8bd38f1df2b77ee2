"""`inferometer node`: measures what this machine gives at best."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from inferometer_api.nodes.benchmark import PRIMITIVE_FAMILIES
from inferometer_api.nodes.wire_rates import LOOPBACK, POD_TO_POD, is_selected
from inferometer_cli.exits import RefusedError
from inferometer_cli.result_store import DatabaseOption, SaveOption, open_store
from inferometer_cli.terminal import output_console, print_message, print_output

if TYPE_CHECKING:
    from inferometer_api.nodes.characteristics import NodeCharacteristics
    from inferometer_results.nodes.comm_scope import CommScopeFigure

_FolderOption = Annotated[
    Path | None,
    typer.Option(
        "--folder",
        exists=True,
        file_okay=False,
        writable=True,
        metavar="FOLDER",
        help="Folder on the disk to measure, with 512 MiB free.",
    ),
]
_OnlyOption = Annotated[
    list[str] | None,
    typer.Option(
        "--only",
        metavar="NAME",
        help="Measure only primitives whose names, or those of their figures, begin so: timer, "
        "jitter, steal, stream, latency, memcpy, malloc, pageFault, disk, pageCache, loopback, "
        "gemm, gpu, and Comm|Scope's, such as cudaMemcpyAsync and UM_Demand. Can be repeated.",
    ),
]
_FormatOption = Annotated[
    Literal["table", "json", "comm-scope"],
    typer.Option(
        "--format",
        help="json: the whole document. comm-scope: its transfers as Comm|Scope writes them.",
    ),
]
_CompareOption = Annotated[
    Path | None,
    typer.Option(
        "--compare",
        exists=True,
        dir_okay=False,
        metavar="FILE",
        help="A result of Comm|Scope in JSON, whose figures are printed next to the same transfers "
        "here.",
    ),
]
_StoredOption = Annotated[
    str | None,
    typer.Option(
        "--stored",
        metavar="NODE",
        help="Measure nothing: print the newest measurement of NODE in the database.",
    ),
]


def node(  # noqa: PLR0913 - one argument for each option
    *,
    folder: _FolderOption = None,
    only: _OnlyOption = None,
    format_: _FormatOption = "table",
    compare: _CompareOption = None,
    stored: _StoredOption = None,
    save: SaveOption = True,
    database: DatabaseOption = None,
) -> None:
    """Measure what this machine gives at best: memory, disk, timers, matrix products, GPUs.

    Takes at most 3 minutes, and needs the machine alone. Each figure has its 95 % interval. What
    cannot be measured here is listed with the reason.
    """
    from inferometer_cli.local.node_benchmark import EndedEarlyError, measure_node

    if compare is not None and format_ != "table":
        raise RefusedError("--compare prints its figures below the table: leave out --format.")
    others = _read(compare)
    if stored is not None:
        if folder is not None or only:
            raise RefusedError("--stored measures nothing: leave out --folder and --only.")
        _print(_newest(stored, database), format_, others)
        return
    _check_names(only or ())
    if save:
        with open_store(database):
            pass  # it fails now, not after the measurement

    def report(done: int, total: int, name: str) -> None:
        print_message(f"[{done + 1}/{total}] {name}")

    failure = None
    try:
        document = measure_node(folder, only or (), report)
    except EndedEarlyError as error:
        document, failure = error.document, error
    # First, so that a database that cannot be written costs no figures.
    try:
        _print(document, format_, others)
    finally:
        if save:
            _keep(document, database)
    if failure is not None:
        raise failure


def _check_names(only: Sequence[str]) -> None:
    """Raise RefusedError for an empty name, and for what needs a second node."""
    for begin in only:
        if not begin:
            raise RefusedError("--only is empty. Name a primitive, or leave it out to measure all.")
        others = (each for each in PRIMITIVE_FAMILIES if each != POD_TO_POD)
        if is_selected(POD_TO_POD, (begin,)) and not any(each.startswith(begin) for each in others):
            raise RefusedError(
                f"--only {begin}: {POD_TO_POD} is measured between two nodes of a cluster. Apply a "
                f"NodeBenchmark, or measure {LOOPBACK} here."
            )


def _keep(document: "NodeCharacteristics", database: str | None) -> None:
    from inferometer_results.store.node_characteristics import keep_characteristics

    with open_store(database) as store:
        keep_characteristics(store, document)


def _newest(name: str, database: str | None) -> "NodeCharacteristics":
    from inferometer_results.store.node_characteristics import known_characteristics

    with open_store(database) as store:
        found = known_characteristics(store, name)
    if not found:
        raise RefusedError(
            f"The database has no measurement of {name}. `inferometer results serve` lists the "
            "nodes that it has, on the page Nodes."
        )
    return found[-1]


def _read(file: Path | None) -> "list[CommScopeFigure]":
    if file is None:
        return []
    from inferometer_results.nodes.comm_scope import NotCommScopeError, read_comm_scope

    try:
        return read_comm_scope(file.read_bytes())
    except NotCommScopeError as error:
        raise RefusedError(f"{file}: {error}") from error


def _print(document: "NodeCharacteristics", format_: str, others: "list[CommScopeFigure]") -> None:
    match format_:
        case "json":
            print_output(document.model_dump_json(indent=2, by_alias=True, exclude_none=True))
        case "comm-scope":
            import orjson

            from inferometer_results.nodes.comm_scope import to_comm_scope

            found = orjson.dumps(to_comm_scope(document), option=orjson.OPT_INDENT_2)
            print_output(found.decode())
        case _:
            _print_table(document, others)


def _print_table(document: "NodeCharacteristics", others: "list[CommScopeFigure]") -> None:
    from inferometer_cli.text_table import Row, print_rows
    from inferometer_results.nodes.comm_scope import counterparts
    from inferometer_results.nodes.wording import (
        HEADINGS,
        figure_cells,
        gpu_sentences,
        machine_sentence,
        setting_words,
        unavailable_sentences,
        unit_sentences,
        worded,
    )

    print_output(machine_sentence(document))
    for sentence in gpu_sentences(document):
        print_output(sentence)
    rows = [
        Row(name, at, tuple(figures)) for name, at, *figures in map(figure_cells, document.figures)
    ]
    if rows:
        print_rows(HEADINGS, rows, output_console())
    pairs = list(counterparts(document, others))
    if others and not pairs:
        print_output(
            "The file has no figure for the same transfer: those of the same name, NUMA node, GPU "
            "and size are compared."
        )
    for figure, other in pairs:
        print_output(
            f"{figure.name} {setting_words(figure.setting)}: {worded(figure, figure.value)} here, "
            f"{worded(figure, other.value)} in the file ({figure.value / other.value:.2f} times)."
        )
    if pairs and (left := len(others) - len({id(other) for _, other in pairs})):
        print_output(f"Figures of the file for other transfers, which are not compared: {left}.")
    for sentence in (
        *unit_sentences(document.matrix_units),
        *unavailable_sentences(document),
        *document.cautions,
    ):
        print_output(sentence)
