"""The table of a result in a terminal and in a log."""

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from inferometer_api.results.result import (
    ResultDocument,
    ScenarioResult,
    Step,
    nanoseconds_at,
)
from inferometer_api.results.rule_pages import explain_command
from inferometer_api.results.search import RepeatSummary
from inferometer_cli.tables.energy import EnergyRow, print_energy
from inferometer_cli.tables.server_time import print_server_time
from inferometer_cli.text_table import (
    STYLES,
    Row,
    latency_headings,
    print_rows,
    print_sentences,
)
from inferometer_results.cold_start import (
    cold_start_sentences,
    cold_starts,
    phase_cells,
    phase_rows,
)
from inferometer_results.findings import (
    LocatedFinding,
    RuleFindings,
    by_rule,
    cautions_of,
    entry_name,
    reasons_of,
)
from inferometer_results.headline import headline
from inferometer_results.layers.step_layers import layer_sentences
from inferometer_results.quantity import PERCENTILES, Unit, significant, time_unit
from inferometer_results.wording.energy import mean_milliwatts, notes_of
from inferometer_results.wording.mix import model_with_share
from inferometer_results.wording.search import (
    FIGURE_HEADINGS,
    figure_name,
    figure_texts,
    figures_shown,
    found_by,
    judged_step,
    repeat_coverage,
    steps_shown,
)
from inferometer_results.wording.server_time import server_parts

_INDENT = "  "
_REPEATS_HEADER = ("over repeats", "scenario", *FIGURE_HEADINGS)


def print_table(document: ResultDocument, console: Console) -> None:
    """Print a row for each step, the energy if there is any, the verdict and every finding.

    A search has one row: the probe at its peak. Scenarios with repeats have rows for their means,
    too. On a terminal this is a coloured table; elsewhere plain lines, one sentence a line.
    """
    rows = list(_rows(document))
    if rows:
        print_rows(_header(document), rows, console)
        console.print()
        print_energy(list(_spent(document)), _energy_notes(document), console)
        _print_server_time(document, console)
        _print_starts(document, console)
        _print_repeats(document.repeat_summaries, console)
        _print_layers(document, console)
    print_sentences(_sentences(document), console)


def _print_layers(document: ResultDocument, console: Console) -> None:
    """Print what timings of layers show."""
    for each in layer_sentences(document):
        print_sentences([Text(f"{each.name}:", style="bold")], console)
        print_sentences([Text(line) for line in each.sentences], console)
        console.print()


def _print_server_time(document: ResultDocument, console: Console) -> None:
    """Print where the servers spent the time of the requests of each step, if they report it."""
    spent = {
        _step_name(result, step): server_parts(step.server_time)
        for result in document.scenarios
        for step in steps_shown(result)
        if step.server_time is not None
    }
    print_server_time(spent, console)


def _print_starts(document: ResultDocument, console: Console) -> None:
    """Print a row for each phase of cold starts, and what they amount to."""
    for name in dict.fromkeys(each.name for each in document.scenarios):
        starts = cold_starts(document, name)
        if not starts:
            continue
        cells = (phase_cells(row) for row in phase_rows(starts))
        rows = [Row("median", phase, tuple(figures)) for phase, *figures in cells]
        print_rows(("start", "phase", "time", "share", "rate"), rows, console)
        sentences = (f"{name}: {each}" for each in cold_start_sentences(starts))
        print_sentences((Text(each, style="dim") for each in sentences), console)
        console.print()


def _print_repeats(repeated: Sequence[RepeatSummary], console: Console) -> None:
    """Print a row for each figure of each repeated scenario, and the advice."""
    rows = [
        Row(
            figure_name(figure),
            ", ".join(part for part in (each.name, figure.step) if part),
            figure_texts(figure),
        )
        for each in repeated
        for figure in figures_shown(each)
    ]
    if not rows:
        return
    print_rows(_REPEATS_HEADER, rows, console)
    coverage = dict.fromkeys(repeat_coverage(each) for each in repeated)
    advice = [f"{each.name}: {each.advice}" for each in repeated if each.advice]
    sentences = (Text(each, style="dim") for each in (*coverage, *advice))
    print_sentences(sentences, console)
    console.print()


def _rows(document: ResultDocument) -> Iterator[Row]:
    unit = _latency_unit(document)
    for result in document.scenarios:
        verdict = result.verdict.state
        name = entry_name(result)
        if len(result.steps) == 1 and not result.steps[0].label:
            yield Row(verdict, name, _figures(result.steps[0], unit))
            yield from _model_rows(result.steps[0], unit)
            continue
        probe = judged_step(result)
        if probe is not None:
            yield Row(verdict, name, _figures(probe, unit))
            yield from _model_rows(probe, unit)
            continue
        yield Row(verdict, name, ())
        for step in steps_shown(result):
            yield Row("", _INDENT + step.label, _figures(step, unit))
            yield from _model_rows(step, unit)


def _model_rows(step: Step, unit: Unit) -> Iterator[Row]:
    """Yield a row for each model of a mix, with its planned share."""
    for each in step.models:
        figures = (
            str(each.queries),
            significant(each.achieved_qps),
            significant(each.achieved_qps * step.batch_size),
            *(unit.text(nanoseconds_at(each.latency, percentile)) for percentile in PERCENTILES),
            str(each.failed),
        )
        yield Row("", f"{_INDENT}{model_with_share(each)}", figures)


def _figures(step: Step, unit: Unit) -> tuple[str, ...]:
    return (
        str(step.counts.queries),
        significant(step.achieved_qps),
        significant(step.achieved_samples_per_second),
        *(unit.text(nanoseconds_at(step.latency, percentile)) for percentile in PERCENTILES),
        str(step.counts.failed),
    )


def _spent(document: ResultDocument) -> Iterator[EnergyRow]:
    for result in document.scenarios:
        for step in steps_shown(result):
            energy = step.energy
            yield EnergyRow(
                name=_step_name(result, step),
                attribution=energy.attribution,
                gross=energy.microjoules_per_inference,
                net=energy.net_microjoules_per_inference,
                milliwatts=mean_milliwatts(energy),
                idle_milliwatts=energy.baseline_milliwatts,
            )


def _step_name(result: ScenarioResult, step: Step) -> str:
    return ", ".join(part for part in (entry_name(result), step.label) if part)


def _energy_notes(document: ResultDocument) -> Iterator[str]:
    """Yield why energy is unavailable and what it leaves out."""
    for result in document.scenarios:
        for step in steps_shown(result):
            yield from notes_of(step.energy)


def _header(document: ResultDocument) -> tuple[str, ...]:
    latencies = latency_headings(_latency_unit(document))
    return ("", "scenario", "queries", "qps", "samples/s", *latencies, "errors")


def _latency_unit(document: ResultDocument) -> Unit:
    return time_unit(
        nanoseconds_at(step.latency, percentile)
        for result in document.scenarios
        for step in steps_shown(result)
        for percentile in PERCENTILES
    )


def _sentences(document: ResultDocument) -> Iterator[Text]:
    head = headline(document)
    yield Text.assemble((head.word, STYLES[head.tone]), ": ", head.sentence)
    if document.outcome.message and document.outcome.state != "Complete":
        yield Text(document.outcome.message)
    for result in document.scenarios:
        for sentence in found_by(result):
            yield Text(f"{entry_name(result)}: {sentence}")
    reasons = by_rule(reasons_of(document))
    for reason in reasons:
        yield _reason(reason)
    if reasons:
        yield Text(f"What to do: {explain_command(reasons[0].rule)}")
    for caution in cautions_of(document):
        yield _finding("caution", "yellow", caution)


def _reason(reason: RuleFindings) -> Text:
    """Return a rule's first finding in whole, and the figures of the others."""
    text = _finding("INVALID", "red", reason.first)
    others = [
        f"{', '.join(place for _, place in each.places)} ({each.finding.figure})"
        for each in reason.findings[1:]
    ]
    return text.append(f" Also in {', '.join(others)}." if others else "")


def _finding(word: str, style: str, located: LocatedFinding) -> Text:
    where = ", ".join(place for _, place in located.places)
    message = located.finding.message
    return Text.assemble((word, style), f" {where}: {message}")
