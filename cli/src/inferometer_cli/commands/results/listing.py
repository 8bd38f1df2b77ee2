"""`inferometer results list` and `fields`: finds results, and lists what they are searched by."""

from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from inferometer_cli.cluster.options import (
    ClusterOptions,
    ContextOption,
    KubeconfigOption,
    NamespaceOption,
)
from inferometer_cli.result_source import ClusterOption, opened_source
from inferometer_cli.result_store import DatabaseOption, WhereOption
from inferometer_cli.terminal import (
    flushed_output,
    output_console,
    print_message,
    print_output,
)

if TYPE_CHECKING:
    from inferometer_results.store.scenario_rows import ScenarioRow

_HEADER = (
    "ID", "STARTED", "RUN", "MODEL", "STACK", "NODE", "SCENARIO", "VERDICT", "QUERIES/S", "P50 MS",
    "P99 MS",
)  # fmt: skip
_TEXT_COLUMNS = range(8)


def list_results(  # noqa: PLR0913 - one argument for each option
    *,
    where: WhereOption = "",
    sort: Annotated[
        str,
        typer.Option(
            "--sort", metavar="FIELD", help="Field to sort by; -FIELD puts the largest first."
        ),
    ] = "-started",
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=500, metavar="N", help="Results to list.")
    ] = 20,
    offset: Annotated[
        int, typer.Option("--offset", min=0, metavar="N", help="Results to skip.")
    ] = 0,
    after: Annotated[
        str,
        typer.Option(
            "--after", metavar="ID", help="Continue the list after this result, at any depth."
        ),
    ] = "",
    retracted: Annotated[
        bool, typer.Option("--retracted", help="List retracted results too.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON with every column.")] = False,
    database: DatabaseOption = None,
    cluster: ClusterOption = False,
    namespace: NamespaceOption = None,
    context: ContextOption = None,
    kubeconfig: KubeconfigOption = None,
) -> None:
    """List results, one row for each scenario and repeat.

    The figures are those of the step that stands for the scenario, as in the status of a run.
    """
    from inferometer_results.store.query import Search
    from inferometer_results.store.scenario_rows import short_id

    search = Search(where, sort, limit, offset, with_retracted=retracted, after=after)
    options = ClusterOptions(namespace, context, kubeconfig)
    with opened_source(database, options, in_cluster=cluster) as source:
        page = source.search(search)
    found, total = page.rows, page.total
    if json:
        print_output(orjson.dumps(found, option=orjson.OPT_INDENT_2).decode())
        return
    if found:
        _print_table([row for result in found for row in _rows(result)])
    if after and len(found) == limit:
        print_message(f"\nContinue with --after {short_id(found[-1]['id'])}.")
    elif not after and (total > offset + len(found) or (found and not page.is_exact)):
        every = f"{total:,}" if page.is_exact else f"more than {total:,}"
        shown = f"{offset + len(found)} of {every} results."
        print_message(f"\n{shown} --limit, --offset and --after show more.")
    elif not found:
        print_message("No results." if not where else "No results for this condition.")


def fields() -> None:
    """List the fields that --where and --sort can name."""
    from inferometer_results.store.search_fields import FIELDS

    named = {name: field.help for name, field in FIELDS.items()}
    named |= {"tag": "tag=NAME, a tag of a person", "label.NAME": "label of the run"}
    width = max(map(len, named))
    print_output("\n".join(f"{name.ljust(width)}  {text}" for name, text in named.items()))


def _rows(result: dict[str, Any]) -> list[tuple[str, ...]]:
    from inferometer_results.store.scenario_rows import scenario_rows, short_id, stack, started

    shared: tuple[str, ...] = (
        short_id(result["id"]),
        started(result),
        result["name"],
        result["model"],
        stack(result),
        result["node"],
    )
    return [(*shared, row.scenario, row.verdict, *_figures(row)) for row in scenario_rows(result)]


def _figures(row: "ScenarioRow") -> tuple[str, str, str]:
    if row.qps is None:
        return ("", "", "")
    times = (_figure(row.p50_nanoseconds, 1e6), _figure(row.p99_nanoseconds, 1e6))
    return (_figure(row.qps), *times)


def _figure(value: float | None, size: float = 1.0) -> str:
    from inferometer_results.quantity import DASH, significant

    return DASH if value is None else significant(value / size)


def _print_table(rows: list[tuple[str, ...]]) -> None:
    from inferometer_cli.text_table import print_columns

    with flushed_output():
        print_columns([_HEADER, *rows], output_console(), text_columns=_TEXT_COLUMNS)
