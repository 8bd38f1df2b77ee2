"""`inferometer report`: prints a saved result and writes its report, from a file or a cluster."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from inferometer_api.results.result import ResultDocument
from inferometer_cli.cluster.options import (
    ClusterOptions,
    ContextOption,
    KubeconfigOption,
    NamespaceOption,
    ResultArgument,
)
from inferometer_cli.exits import FailedError, RefusedError
from inferometer_cli.price_file import PricesOption, load_prices
from inferometer_cli.result_file import is_file, load_result
from inferometer_cli.terminal import flushed_output, output_console, print_message

if TYPE_CHECKING:
    from inferometer_results.explore.prices import PriceList

_PAGE = ".html"


_OutputOption = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="DIR",
        help="Directory for report.html, or a file name that ends in .html. [default: the "
        "directory of the result; for a run in a cluster results/NAME-TIME] With --format: the "
        "file to write. [default: standard output]",
    ),
]
_FormatOption = Annotated[
    Literal["csv", "json", "junit", "markdown", "openmetrics"] | None,
    typer.Option(
        "--format",
        "-f",
        help="Print the result in this format instead of the table, and write no report.html. "
        "csv and json have a row for each step, with the field names of result.json.",
        show_default=False,
    ),
]


def report(  # noqa: PLR0913 - one argument for each option
    result: ResultArgument,
    output: _OutputOption = None,
    format_name: _FormatOption = None,
    *,
    prices: PricesOption = None,
    namespace: NamespaceOption = None,
    context: ContextOption = None,
    kubeconfig: KubeconfigOption = None,
) -> None:
    """Print the table of a saved result and write its report.html again, or export its figures."""
    where = ClusterOptions(namespace, context, kubeconfig)
    document = load_result(result, where)
    if format_name is not None:
        if output is not None and output.absolute() == Path(result).absolute():
            raise RefusedError(f"{output} is the result itself. Choose another --output.")
        _export(document, format_name, output)
        return
    if is_file(result, where):
        default = Path(result).parent
    else:
        default = Path("results") / f"{result}-{_compact(document.started_at)}"
    from inferometer_cli.result_file import check_directory
    from inferometer_cli.tables.result import print_table

    path = _page(output, default)
    check_directory(path.parent)
    with flushed_output():
        print_table(document, output_console())
    _draw(document, path, load_prices(prices))
    print_message(f"\nreport  {path}")


def _export(document: ResultDocument, format_name: str, output: Path | None) -> None:
    from inferometer_results.export import FORMATS

    text = FORMATS[format_name](document)
    if output is None:
        with flushed_output():
            typer.echo(text, nl=False)
        return
    if output.is_dir():
        raise RefusedError(f"{output} is a directory. With --format, --output is a file.")
    try:
        output.write_text(text, encoding="utf-8", newline="")
    except OSError as error:
        raise FailedError(f"Cannot write {output}: {error.strerror}.") from error


def _page(output: Path | None, default: Path) -> Path:
    """Return the path of the page, given a directory or a file."""
    from inferometer_cli.result_file import REPORT_NAME

    if output is not None and output.suffix == _PAGE and not output.is_dir():
        return output
    return (output or default) / REPORT_NAME


def _draw(document: ResultDocument, path: Path, prices: "PriceList | None") -> None:
    from inferometer_cli.result_file import save_report

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        save_report(document, path, prices)
    except OSError as error:
        raise FailedError(f"Cannot write {path}: {error.strerror}.") from error


def _compact(time: str) -> str:
    """Return a time in the form of directory names: 20260131T120000Z."""
    seconds = time.partition(".")[0].removesuffix("Z")
    return f"{seconds.replace('-', '').replace(':', '')}Z"
