"""How does a result become one HTML file that opens offline?"""

import base64
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from inferometer_api.result import ResultDocument, ScenarioResult
from inferometer_cli.findings import cautions_of, entry_name, reasons_of
from inferometer_cli.headline import headline, model_of
from inferometer_cli.report.chart import Chart
from inferometer_cli.report.facts import (
    Table,
    environment_groups,
    moment,
    percentile_table,
    spec_yaml,
    step_table,
)
from inferometer_cli.report.latency_charts import distribution_chart, lag_chart, percentile_chart
from inferometer_cli.report.palette import css_variables
from inferometer_cli.report.step_charts import step_latency_chart, throughput_chart
from inferometer_cli.report.summary import SUMMARY_PERCENTILES, anchor, card, summarise
from inferometer_cli.report.svg import draw
from inferometer_cli.report.time_charts import error_chart, latency_chart, rate_chart
from inferometer_cli.report.usage_charts import cpu_chart, memory_chart
from inferometer_cli.report.wording import GENERAL, bound_of, definitions, setting

_MOST_DRAWN = 16
"""Scenarios past so many have their figures in the tables but no charts: the file stays small."""


@dataclass(frozen=True, slots=True)
class _Drawn:
    title: str
    caption: str
    svg: Markup


@dataclass(frozen=True, slots=True)
class _Section:
    """A scenario's part of the page."""

    anchor: str
    name: str
    setting: str
    result: ScenarioResult
    charts: tuple[_Drawn, ...]
    steps: Table
    percentiles: Table
    errors: tuple[tuple[str, str, str], ...]


def render_report(document: ResultDocument) -> str:
    """Return the report of a result: one HTML page that asks for nothing outside itself.

    Texts of the document are escaped; the page's own policy lets no other script or style run.
    """
    loader = PackageLoader("inferometer_cli.report", "")
    templates = Environment(
        loader=loader,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style, script = _style(), _part("hover.js")
    sentence, _, rest = document.outcome.message.partition("\n")
    environment = document.environment
    return templates.get_template("page.html.j2").render(
        document=document,
        style=style,
        script=script,
        policy=_policy(style, script),
        head=headline(document),
        model=model_of(document),
        outcome_sentence=sentence,
        outcome_lines=rest,
        cards=[card(document, index) for index in range(len(document.scenarios))],
        summary=summarise(document),
        percentiles=SUMMARY_PERCENTILES,
        sections=[_section(document, index) for index in range(len(document.scenarios))],
        most_drawn=_MOST_DRAWN,
        groups=environment_groups(environment) if environment is not None else [],
        general=GENERAL,
        definitions=definitions(document),
        reasons=reasons_of(document),
        cautions=cautions_of(document),
        spec=spec_yaml(document),
        moment=moment,
        anchor=anchor,
    )


def _section(document: ResultDocument, index: int) -> _Section:
    result = document.scenarios[index]
    section = anchor(index)
    charts = _charts(document, result) if index < _MOST_DRAWN else iter(())
    return _Section(
        anchor=section,
        name=entry_name(result),
        setting=setting(document.run, result.name, result.kind),
        result=result,
        charts=tuple(_Drawn(c.title, c.caption, draw(c, section)) for c in charts),
        steps=step_table(result),
        percentiles=percentile_table(result),
        errors=tuple(_errors(result)),
    )


def _charts(document: ResultDocument, result: ScenarioResult) -> Iterator[Chart]:
    if not result.steps:
        return
    bound = bound_of(document.run, result.name)
    candidates = (
        throughput_chart(result),
        step_latency_chart(result),
        distribution_chart(result),
        percentile_chart(result, bound),
        latency_chart(result, bound),
        rate_chart(result),
        error_chart(result),
        lag_chart(result),
        cpu_chart(result),
        memory_chart(result),
    )
    yield from (chart for chart in candidates if chart is not None)


def _errors(result: ScenarioResult) -> Iterator[tuple[str, str, str]]:
    totals: dict[str, int] = {}
    for step in result.steps:
        for kind, count in step.counts.errors.items():
            totals[kind] = totals.get(kind, 0) + count
    said = {example.kind: example.message for s in result.steps for example in s.error_examples}
    for kind, count in sorted(totals.items()):
        yield kind, f"{count:,}", said.get(kind, "")


def _style() -> str:
    light, dark = css_variables("light"), css_variables("dark")
    themes = (
        f":root{{color-scheme:light;{light}}}\n"
        f"@media screen and (prefers-color-scheme:dark){{:root{{color-scheme:dark;{dark}}}}}\n"
    )
    return themes + _part("style.css")


def _part(name: str) -> str:
    return files("inferometer_cli.report").joinpath(name).read_text(encoding="utf-8")


def _policy(style: str, script: str) -> str:
    """Return the content security policy: nothing is fetched, only these two texts are run."""
    return (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
