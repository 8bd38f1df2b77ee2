"""The state, conditions, figures and events of a run in a cluster, as a terminal shows them.

The columns are those of a local run, as far as the summary in the status has them.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from rich.console import Console
from rich.text import Text

from inferometer_api.results.rule_pages import explain_command
from inferometer_api.results.service_paths import result_page
from inferometer_api.results.verdict_sentences import shared_reasons
from inferometer_api.status.run_status import ScenarioSummary
from inferometer_cli.cluster.api import Cluster
from inferometer_cli.cluster.operator_state import operator_lines
from inferometer_cli.cluster.run_summary import (
    condition_lines,
    event_lines,
    event_of,
    head_lines,
    verdict_line,
)
from inferometer_cli.cluster.runs import SeenRun
from inferometer_cli.exits import FailedError, RefusedError
from inferometer_cli.program import program_name
from inferometer_cli.tables.energy import EnergyRow, print_energy
from inferometer_cli.tables.server_time import print_server_time
from inferometer_cli.terminal import flushed_output, output_console, print_message
from inferometer_cli.text_table import Row, latency_headings, print_rows, print_sentences
from inferometer_results.quantity import DASH, Unit, significant, time_unit


def show_run(cluster: Cluster, run: SeenRun) -> None:
    """Print a run to standard output, and the commands to try next to standard error."""
    operator = operator_lines(cluster, run)
    now = cluster.now
    events = _events(cluster, run, now)
    console = output_console()
    with flushed_output():
        _print([*head_lines(run, now), *operator], console)
        _print(["", *condition_lines(run), ""], console)
        print_figures(run.status.scenarios, verdict_line(run), console)
        _print(["", "events", *events], console)
    result = run.status.result
    if result is not None and (result.config_maps or result.stored is not None):
        where = f"{run.name} -n {run.namespace}"
        print_message(
            f"\nresult  {program_name()} result {where}\nreport  {program_name()} report {where}"
        )
    if result is not None and result.stored is not None:
        page = result_page(result.stored.id)
        print_message(f"page    {program_name()} web {page}, then {result.stored.url}")
    if result is not None and result.exported is not None:
        print_message(f"\nexport  {result.exported.uri}")


def _print(lines: Iterable[str], console: Console) -> None:
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _events(cluster: Cluster, run: SeenRun, now: datetime) -> list[str]:
    try:
        listed = cluster.read(
            cluster.core_path("events"), {"fieldSelector": f"involvedObject.uid={run.uid}"}
        )
    except (RefusedError, FailedError) as error:
        return [f"unknown: {error}"]
    lines = list(event_lines([event_of(item) for item in listed.get("items", [])], now))
    return lines or ["none (a cluster keeps events for about an hour)"]


def print_figures(summaries: Sequence[ScenarioSummary], verdict: Text, console: Console) -> None:
    """Print a row for each scenario, the verdict, and each reason and caution once."""
    if summaries:
        unit = time_unit(each for summary in summaries for each in _latencies(summary))
        print_rows(_header(unit), [_row(summary, unit) for summary in summaries], console)
        console.print()
        print_energy([_spent(summary) for summary in summaries], (), console)
        print_server_time(dict(_server_times(summaries)), console)
    findings = (*_reasons(summaries), *_cautions(summaries))
    print_sentences((verdict, *findings), console)


def _header(unit: Unit) -> tuple[str, ...]:
    return ("", "scenario", "queries", "qps", *latency_headings(unit), "errors")


def _row(summary: ScenarioSummary, unit: Unit) -> Row:
    figures = (
        _count(summary.queries),
        _rate(summary.achieved_milli_qps),
        *(unit.text(nanoseconds) for nanoseconds in _latencies(summary)),
        _count(summary.errors),
    )
    return Row(summary.verdict, _name(summary), figures)


def _spent(summary: ScenarioSummary) -> EnergyRow:
    return EnergyRow(
        name=_name(summary),
        attribution=summary.energy_attribution or "unavailable",
        gross=summary.microjoules_per_inference,
        net=summary.net_microjoules_per_inference,
    )


def _server_times(summaries: Sequence[ScenarioSummary]) -> Iterator[tuple[str, dict[str, int]]]:
    for summary in summaries:
        spent = summary.server_time
        if spent is not None:
            microseconds = {
                "queue": spent.queue_microseconds,
                "compute input": spent.compute_input_microseconds,
                "compute": spent.compute_infer_microseconds,
                "compute output": spent.compute_output_microseconds,
            }
            yield _name(summary), {name: each * 1000 for name, each in microseconds.items()}


def _name(summary: ScenarioSummary) -> str:
    return f"{summary.name}, {summary.step}" if summary.step else summary.name


def _latencies(summary: ScenarioSummary) -> list[int | None]:
    microseconds = (
        summary.p50_microseconds,
        summary.p90_microseconds,
        summary.p99_microseconds,
        summary.p999_microseconds,
    )
    return [None if each is None else each * 1000 for each in microseconds]


def _count(count: int | None) -> str:
    return DASH if count is None else str(count)


def _rate(milli_qps: int | None) -> str:
    return DASH if milli_qps is None else significant(milli_qps / 1000)


def _reasons(summaries: Sequence[ScenarioSummary]) -> Iterator[Text]:
    """Yield each rule once, after the scenarios that violate it; its page comes last."""
    reasons = shared_reasons(summaries)
    for reason in reasons:
        yield _finding("INVALID", "red", reason.scenarios, reason.message)
    if reasons and reasons[0].rule:
        yield Text(f"What to do: {explain_command(reasons[0].rule)}")


def _cautions(summaries: Sequence[ScenarioSummary]) -> Iterator[Text]:
    """Yield each caution once, after the scenarios that it applies to."""
    places: dict[str, list[str]] = {}
    for summary in summaries:
        for message in summary.cautions:
            places.setdefault(message, []).append(summary.name)
    for message, names in places.items():
        yield _finding("caution", "yellow", dict.fromkeys(names), message)


def _finding(word: str, style: str, names: Iterable[str], message: str) -> Text:
    where = ", ".join(names)
    return Text.assemble((word, style), f" {where}: {message}")
