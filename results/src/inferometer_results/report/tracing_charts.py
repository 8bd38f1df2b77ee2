"""The section *Where one slow request went*: parts of slow queries against the median, and one."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from inferometer_api.results.result import ScenarioResult
from inferometer_api.results.tracing import StepTracing, TracedPart, TracedQuery
from inferometer_results.quantity import Unit, duration, time_unit
from inferometer_results.report.elements import stroke, written
from inferometer_results.report.facts import Table
from inferometer_results.report.frame import CHARACTER, WIDTH
from inferometer_results.report.summary import FigureCell
from inferometer_results.tracing import part_name, sentences_of, slowest_query

_ROW = 34.0
_BAR = 11.0
_DEPTH = 26.0
_TOP = 34.0
_ROOM_FOR_VALUES = 70.0
_SERIES = {"client": 4, "wire": 2, "server": 1}
_OTHER_SERIES = 3


@dataclass(frozen=True, slots=True)
class TracedCharts:
    """What the report shows of one traced step."""

    label: str
    sentences: tuple[str, ...]
    parts: Markup
    flame: Markup
    flame_caption: str
    table: Table


def traced_charts(result: ScenarioResult, key: str) -> Iterator[TracedCharts]:
    """Yield the charts of each traced step; their ids begin with the key."""
    for number, step in enumerate(result.steps, 1):
        tracing = step.tracing
        if tracing is None:
            continue
        query = slowest_query(tracing)
        yield TracedCharts(
            label=step.label,
            sentences=tuple(sentences_of(tracing)),
            parts=_parts_chart(tracing, f"{key}-parts-{number}") if tracing.parts else Markup(""),
            flame=Markup("") if query is None else _flame(query, f"{key}-flame-{number}"),
            flame_caption="" if query is None else _flame_caption(query),
            table=_table(tracing),
        )


def _parts_chart(tracing: StepTracing, key: str) -> Markup:
    """Return two bars for each part: of queries around the median, and of the slowest 1 %."""
    parts = tracing.parts
    unit = time_unit([tracing.slowest_latency_nanoseconds])
    names = [part_name(part) for part in parts]
    left = max(map(len, names)) * CHARACTER * 0.8 + 12
    longest = max(max(p.median_nanoseconds, p.slowest_nanoseconds) for p in parts) or 1
    scale = (WIDTH - left - _ROOM_FOR_VALUES) / longest
    height = _TOP + len(parts) * _ROW + 6
    drawn = [
        written("name s1", left, 16, "around the median"),
        written("name s2", left + 150, 16, "slowest 1 %"),
    ]
    for at, (name, part) in enumerate(zip(names, parts, strict=True)):
        top = _TOP + at * _ROW
        drawn.append(written("tick end", left - 6, top + _BAR + 4, name))
        for series, value in ((1, part.median_nanoseconds), (2, part.slowest_nanoseconds)):
            y = top + (series - 1) * (_BAR + 1)
            drawn += _bar(left, y, value * scale, series, unit.named(value))
    drawn.append(stroke("base", left, _TOP - 4, left, height - 8))
    return _svg(key, height, "Parts of the latency", _summary(parts, unit), drawn)


def _bar(x: float, y: float, width: float, series: int, value: str) -> Iterator[Markup]:
    yield Markup(
        '<rect class="bar s{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"/>'
    ).format(series, x, y, max(width, 0.5), _BAR)
    yield written("value", x + width + 5, y + _BAR - 1, value)


def _flame(query: TracedQuery, key: str) -> Markup:
    """Return the spans of one query over time, each below the one that contains it."""
    depths = depths_of(query)
    begin = min(span.start_nanoseconds for span in query.spans)
    end = max(span.start_nanoseconds + span.duration_nanoseconds for span in query.spans)
    scale = WIDTH / max(1, end - begin)
    height = 8 + (max(depths) + 1) * _DEPTH + 20
    drawn = []
    for span, depth in zip(query.spans, depths, strict=True):
        x, width = (span.start_nanoseconds - begin) * scale, span.duration_nanoseconds * scale
        y = 4 + depth * _DEPTH
        series = _SERIES.get(span.service, _OTHER_SERIES)
        words = f"{part_name(span)}: {duration(span.duration_nanoseconds)}"
        drawn.append(
            Markup(
                '<rect class="bar s{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}">'
                "<title>{}</title></rect>"
            ).format(series, x, y, max(width, 0.6), _DEPTH - 3, escape(words))
        )
        if len(span.name) * CHARACTER * 0.85 < width:
            drawn.append(written("value", x + 4, y + 15, span.name))
    bottom = height - 6
    drawn.append(written("tick", 0, bottom, duration(0)))
    drawn.append(written("tick end", WIDTH, bottom, duration(end - begin)))
    title = "Flame graph of the slowest traced query"
    return _svg(key, height, title, _flame_caption(query), drawn)


def depths_of(query: TracedQuery) -> list[int]:
    """Return how deep each span lies below the query itself; a parent that follows is its root."""
    depths: list[int] = []
    for at, span in enumerate(query.spans):
        is_known = span.parent is not None and span.parent < at
        depths.append(depths[span.parent] + 1 if is_known and span.parent is not None else bool(at))
    return depths


def _flame_caption(query: TracedQuery) -> str:
    return (
        f"The slowest traced query, {duration(query.latency_nanoseconds)} from when it was due; "
        f"trace ID {query.trace_id}."
    )


def _summary(parts: Sequence[TracedPart], unit: Unit) -> str:
    most = max(parts, key=lambda part: part.slowest_nanoseconds)
    return (
        f"Of the slowest 1 %, {part_name(most)} takes the most: "
        f"{unit.named(most.slowest_nanoseconds)}."
    )


def _svg(key: str, height: float, title: str, summary: str, drawn: Sequence[Markup]) -> Markup:
    opening = Markup(
        '<svg class="chart" viewBox="0 0 {w:.0f} {h:.0f}" role="img" '
        'aria-labelledby="{key}-t {key}-d"><title id="{key}-t">{title}</title>'
        '<desc id="{key}-d">{summary}</desc>'
    ).format(w=WIDTH, h=height, key=key, title=title, summary=summary)
    return opening + Markup("").join(drawn) + Markup("</svg>")


def _table(tracing: StepTracing) -> Table:
    return Table(
        ("Part", "Around the median", "Slowest 1 %", "Difference"),
        tuple(
            (
                FigureCell(part_name(part)),
                FigureCell(duration(part.median_nanoseconds)),
                FigureCell(duration(part.slowest_nanoseconds)),
                FigureCell(_signed(part.slowest_nanoseconds - part.median_nanoseconds)),
            )
            for part in tracing.parts
        ),
    )


def _signed(nanoseconds: int) -> str:
    if not nanoseconds:
        return "0"
    return f"{'+' if nanoseconds > 0 else '-'}{duration(abs(nanoseconds))}"
