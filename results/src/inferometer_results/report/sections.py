"""The section of each scenario in the report: its charts and tables."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from inferometer_api.layers.advice import ModelAdvice
from inferometer_api.results.cold_start import ColdStartRecord
from inferometer_api.results.result import NodeSample, ResultDocument, ScenarioResult
from inferometer_api.results.search import RepeatSummary
from inferometer_results.cold_start import cold_start_sentences, cold_starts
from inferometer_results.findings import entry_name
from inferometer_results.layers.step_layers import advice_of, scenario_sentences
from inferometer_results.profile import batch_sentence, steps_of
from inferometer_results.report.chart import Chart
from inferometer_results.report.cold_start_chart import cold_start_chart, cold_start_table
from inferometer_results.report.energy_facts import StepCounters, energy_of_steps, left_out
from inferometer_results.report.facts import (
    Table,
    percentile_table,
    repeat_table,
    step_table,
    worker_table,
)
from inferometer_results.report.frame import Margins
from inferometer_results.report.gpu_charts import (
    gpu_clock_chart,
    gpu_memory_chart,
    held_down_chart,
    utilization_chart,
)
from inferometer_results.report.latency_charts import (
    distribution_chart,
    lag_chart,
    percentile_chart,
)
from inferometer_results.report.mix_table import mix_table
from inferometer_results.report.node_charts import (
    frequency_chart,
    never_held_back,
    node_cpu_chart,
    node_memory_chart,
    same_scale,
    temperature_chart,
    waiting_chart,
)
from inferometer_results.report.power_charts import power_chart
from inferometer_results.report.profile_tables import (
    ProfileTables,
    model_table,
    profile_tables,
)
from inferometer_results.report.search_charts import curve_chart, repeats_chart, search_chart
from inferometer_results.report.step_charts import (
    step_energy_chart,
    step_latency_chart,
    throughput_chart,
)
from inferometer_results.report.summary import anchor
from inferometer_results.report.svg import draw
from inferometer_results.report.time_charts import error_chart, latency_chart, rate_chart
from inferometer_results.report.timeline import Timeline, of_node
from inferometer_results.report.tracing_charts import TracedCharts, traced_charts
from inferometer_results.report.usage_charts import cpu_chart, memory_chart
from inferometer_results.report.wording import bound_of, setting
from inferometer_results.wording.search import (
    early_stopping_sentences,
    found_by,
    repeat_coverage,
    repeated_of,
    steps_shown,
)

MOST_DRAWN = 16
"""Only this many scenarios have charts, so that the file stays small."""
_MOST_NODES = 6
"""Only this many nodes have charts."""
_MOST_ROWS = 12

_NodeChart = Callable[[Timeline, ScenarioResult, str], Chart | None]
_OF_MANY: tuple[_NodeChart, ...] = (node_cpu_chart, node_memory_chart)
"""Charts for several nodes only: the CPU and memory of a single node are in the main charts."""
_OF_NODES: tuple[_NodeChart, ...] = (
    power_chart,
    waiting_chart,
    frequency_chart,
    temperature_chart,
    utilization_chart,
    gpu_clock_chart,
    held_down_chart,
    gpu_memory_chart,
)


@dataclass(frozen=True, slots=True)
class Drawn:
    """A chart on the page."""

    title: str
    caption: str
    svg: Markup


@dataclass(frozen=True, slots=True)
class Panel:
    """Charts under one heading: everything over time, or one figure by node."""

    title: str
    caption: str
    charts: tuple[Drawn, ...]


@dataclass(frozen=True, slots=True)
class Section:
    """A scenario's part of the page."""

    anchor: str
    name: str
    setting: str
    result: ScenarioResult
    charts: tuple[Drawn, ...]
    panels: tuple[Panel, ...]
    calm: tuple[str, ...]
    """What never held the servers back: sentences without a period."""
    not_drawn: tuple[str, ...]
    """Why something is not drawn: sentences without a period."""
    found: tuple[str, ...]
    """The outcome of a search, a sweep, repeats, a profile and early stopping: sentences."""
    repeats: Table
    """The summary of all repeats, in the section of the first; no rows elsewhere."""
    models: Table
    """The queries to each model of a mix; no rows without one."""
    workers: Table
    """What each worker of a fleet did; no rows without a fleet."""
    batches: Table
    """The profiled model at each batch size; no rows without a profile."""
    profiles: tuple[ProfileTables, ...]
    """Layers and kernels of the profiled steps."""
    traces: tuple[TracedCharts, ...]
    """Where the time of slow queries went, in traced steps."""
    starts: Table
    """Phases of all cold starts, in the section of the first repeat; no rows elsewhere."""
    layers: tuple[str, ...]
    """What timings of layers show: sentences."""
    advice: tuple[ModelAdvice, ...]
    """What would make the model faster."""
    energy: tuple[StepCounters, ...]
    left_out: tuple[str, ...]
    """What the energy figures do not cover: sentences without a period."""
    steps: Table
    percentiles: Table
    errors: tuple[tuple[str, str, str], ...]

    @property
    def few_counters(self) -> bool:
        """Return whether the table of counters is short enough to be open at first."""
        return sum(len(step.rows) for step in self.energy) <= _MOST_ROWS


def section_of(document: ResultDocument, index: int) -> Section:
    """Return the section of a scenario, given its index in the document."""
    result = document.scenarios[index]
    key = anchor(index)
    drawn = bool(result.steps) and index < MOST_DRAWN
    shown = _shown(result)
    nodes = _nodes(shown)
    return Section(
        anchor=key,
        name=entry_name(result),
        setting=setting(document.run, result.name, result.kind),
        result=result,
        charts=tuple(_drawn(_charts(document, result), key)) if drawn else (),
        panels=tuple(_panels(document, shown, nodes, key)) if drawn else (),
        calm=tuple(never_held_back(shown)) if drawn else (),
        not_drawn=tuple(_not_drawn(shown, nodes)) if drawn else (),
        found=tuple(_found(document, result)),
        repeats=repeat_table(_repeats(document, result)),
        models=mix_table(result),
        workers=worker_table(result),
        batches=model_table(result),
        profiles=tuple(profile_tables(result)),
        traces=tuple(traced_charts(result, key)) if drawn else (),
        starts=cold_start_table(_starts(document, result)),
        layers=tuple(scenario_sentences(result)),
        advice=tuple(advice_of(result)),
        energy=tuple(energy_of_steps(shown)),
        left_out=tuple(left_out(shown)),
        steps=step_table(result),
        percentiles=percentile_table(result),
        errors=tuple(_errors(result)),
    )


def _charts(document: ResultDocument, result: ScenarioResult) -> Iterator[Chart]:
    repeats = _repeats(document, result)
    found = (
        cold_start_chart(_starts(document, result)),
        search_chart(result),
        curve_chart(result),
        repeats_chart(repeats),
    )
    result = _shown(result)
    candidates = (
        *found,
        throughput_chart(result),
        step_latency_chart(result),
        step_energy_chart(result),
        distribution_chart(result),
        percentile_chart(result, bound_of(document.run, result.name)),
        lag_chart(result),
    )
    yield from (chart for chart in candidates if chart is not None)


def _starts(document: ResultDocument, result: ScenarioResult) -> list[ColdStartRecord]:
    return cold_starts(document, result.name) if result.repeat == 1 else []


def _repeats(document: ResultDocument, result: ScenarioResult) -> RepeatSummary | None:
    return repeated_of(document, result.name) if result.repeat == 1 else None


def _shown(result: ScenarioResult) -> ScenarioResult:
    """Return the scenario with the steps to draw: for a search, only the judged probe."""
    return result.model_copy(update={"steps": steps_shown(result)})


def _panels(
    document: ResultDocument, result: ScenarioResult, nodes: Sequence[str], key: str
) -> Iterator[Panel]:
    """Yield the charts over time, all with the same margins so that moments align."""
    only = nodes[0] if len(nodes) == 1 else None
    candidates = (
        latency_chart(result, bound_of(document.run, result.name)),
        rate_chart(result),
        error_chart(result),
        cpu_chart(result, only),
        memory_chart(result),
    )
    whole = [chart for chart in candidates if chart is not None]
    figures = list(_figures(result, nodes))
    if only is not None:
        whole += [chart for charts in figures for chart in charts.values()]
        figures = []
    margins = Margins.shared([*whole, *(chart for charts in figures for chart in charts.values())])
    if whole:
        yield Panel("", "", tuple(_drawn(whole, key, margins)))
    for charts in figures:
        yield _panel(charts, key, margins)


def _figures(result: ScenarioResult, nodes: Sequence[str]) -> Iterator[dict[str, Chart]]:
    """Yield for each figure a chart for each node that has it."""
    timelines = {node: of_node(result, node) for node in nodes[:_MOST_NODES]}
    kinds = _OF_NODES if len(nodes) == 1 else (*_OF_MANY, *_OF_NODES)
    for kind in kinds:
        charts = {node: kind(timeline, result, node) for node, timeline in timelines.items()}
        found = {node: chart for node, chart in charts.items() if chart is not None}
        if found:
            yield dict(zip(found, same_scale(list(found.values())), strict=True))


def _panel(charts: dict[str, Chart], key: str, margins: Margins | None) -> Panel:
    first = next(iter(charts.values()))
    alike = len({chart.caption for chart in charts.values()}) == 1
    drawn = []
    for place, (node, chart) in enumerate(charts.items(), 1):
        named = replace(chart, key=f"{chart.key}-{place}", title=f"{chart.title}, {node}")
        drawn.append(Drawn(node, "" if alike else chart.caption, draw(named, key, margins)))
    return Panel(f"{first.title} by node", first.caption if alike else "", tuple(drawn))


def _drawn(charts: Iterable[Chart], key: str, margins: Margins | None = None) -> Iterator[Drawn]:
    for chart in charts:
        yield Drawn(chart.title, chart.caption, draw(chart, key, margins))


def _found(document: ResultDocument, result: ScenarioResult) -> Iterator[str]:
    yield from found_by(result)
    starts = _starts(document, result)
    if starts:
        yield from cold_start_sentences(starts)
    repeats = _repeats(document, result)
    if repeats is not None:
        yield repeat_coverage(repeats)
    if repeats is not None and repeats.advice:
        yield repeats.advice
    if best_batch := batch_sentence(steps_of(result)):
        yield best_batch
    for sentence in early_stopping_sentences(result):
        yield f"{sentence[0].upper()}{sentence[1:]}."


def _nodes(result: ScenarioResult) -> list[str]:
    """Return the nodes with telemetry, in order."""
    return list(dict.fromkeys(each.node for step in result.steps for each in step.telemetry))


def _not_drawn(result: ScenarioResult, nodes: Sequence[str]) -> Iterator[str]:
    """Yield why charts that a reader may expect are missing."""
    if not nodes:
        reasons = dict.fromkeys(step.energy.reason.strip().rstrip(".") for step in result.steps)
        why = "; ".join(reason for reason in reasons if reason)
        yield "No charts of the servers' nodes: no agent reported" + f" ({why})" * bool(why)
        return
    if len(nodes) > _MOST_NODES:
        yield f"Only the first {_MOST_NODES} of {len(nodes)} nodes have charts"
    for node in nodes:
        absent = [name for name, has in _REPORTED.items() if not _is_reported(result, node, has)]
        if absent:
            listed = ", ".join(absent)
            yield f"No charts for {node or 'the node'}, because its agent did not report: {listed}"


def _is_reported(result: ScenarioResult, node: str, has: Callable[[NodeSample], bool]) -> bool:
    samples = (
        s for step in result.steps for t in step.telemetry if t.node == node for s in t.samples
    )
    return any(map(has, samples))


_REPORTED: dict[str, Callable[[NodeSample], bool]] = {
    "power": lambda sample: bool(sample.watts),
    "CPU use": lambda sample: sample.cpu_cores is not None,
    "CPU clock": lambda sample: sample.cpu_frequency_hertz is not None,
    "CPU temperature": lambda sample: sample.temperature_celsius is not None,
}


def _errors(result: ScenarioResult) -> Iterator[tuple[str, str, str]]:
    totals: dict[str, int] = {}
    for step in result.steps:
        for kind, count in step.counts.errors.items():
            totals[kind] = totals.get(kind, 0) + count
    messages: dict[str, str] = {}
    for each in (example for step in result.steps for example in step.error_examples):
        messages.setdefault(each.kind, each.message)
    for kind, count in sorted(totals.items()):
        yield kind, f"{count:,}", messages.get(kind, "")
