"""Rendering of a result as one HTML file that opens offline."""

import base64
import hashlib
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

from jinja2 import BaseLoader, Environment, PackageLoader, StrictUndefined

from inferometer_api.results.result import ResultDocument
from inferometer_results.explore.prices import PriceList
from inferometer_results.findings import by_rule, cautions_of, entry_name, reasons_of
from inferometer_results.headline import headline, model_of
from inferometer_results.layers.advice_report import base_sentence, gain_words, notes_of
from inferometer_results.quantity import PERCENTILES
from inferometer_results.report.cards import cards
from inferometer_results.report.energy_facts import HEADINGS, energy_words
from inferometer_results.report.facts import agent_facts, environment_groups, moment, spec_yaml
from inferometer_results.report.palette import css_variables
from inferometer_results.report.sections import MOST_DRAWN, section_of
from inferometer_results.report.summary import anchor, summarise
from inferometer_results.report.wording import ENERGY, GENERAL, definitions
from inferometer_results.rules import rule_page


def render_report(
    document: ResultDocument, prices: PriceList | None = None, retracted: str | None = None
) -> str:
    """Return the report of a result as one HTML page that loads nothing else.

    With `prices` the summary shows what a million inferences cost. `retracted` is the reason if a
    store has the result as retracted: the page begins with it.

    Texts from the document are escaped; the page's content security policy blocks all other
    scripts and styles.
    """
    style, script = page_style(), page_script()
    page = _templates().get_template("page.html.j2")
    return page.render(
        **report_context(document, prices),
        retracted=retracted,
        style=style,
        script=script,
        policy=content_policy(style, script),
    )


def report_context(document: ResultDocument, prices: PriceList | None = None) -> dict[str, Any]:
    """Return what the template of the report shows of a result."""
    sentence, _, rest = document.outcome.message.partition("\n")
    environment = document.environment
    reasons, cautions = by_rule(reasons_of(document)), by_rule(cautions_of(document))
    return {
        "document": document,
        "head": headline(document),
        "model": model_of(document),
        "outcome_sentence": sentence,
        "outcome_lines": rest,
        "cards": cards(document),
        "summary": summarise(document, prices),
        "percentiles": PERCENTILES,
        "sections": [section_of(document, index) for index in range(len(document.scenarios))],
        "most_drawn": MOST_DRAWN,
        "groups": environment_groups(environment) if environment is not None else [],
        "agents": agent_facts(document),
        "energy_words": energy_words(document),
        "energy_headings": HEADINGS,
        "general": GENERAL,
        "energy": ENERGY,
        "definitions": definitions(document),
        "reasons": reasons,
        "cautions": cautions,
        "contents": list(_contents(document, has_cautions=bool(cautions))),
        "rule_page": rule_page,
        "spec": spec_yaml(document),
        "moment": moment,
        "anchor": anchor,
        "gain_words": gain_words,
        "notes_of": notes_of,
        "base_sentence": base_sentence,
    }


def _contents(document: ResultDocument, *, has_cautions: bool) -> Iterator[tuple[str, str]]:
    """Yield the id and the heading of each section; of many scenarios, those with charts."""
    for index, result in enumerate(document.scenarios[:MOST_DRAWN]):
        yield anchor(index), entry_name(result)
    if has_cautions:
        yield "cautions", "Cautions"
    if document.scenarios:
        yield "summary", "Summary"
    yield "environment", "Environment"
    if document.scenarios:
        yield "method", "How it was measured"
    yield "data", "Specification and data"


def _templates() -> Environment:
    return template_environment(PackageLoader("inferometer_results.report", ""))


def template_environment(loader: BaseLoader) -> Environment:
    """Return templates that escape every text and name no value that is missing."""
    return Environment(
        loader=loader,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def page_style() -> str:
    """Return the style sheet of the report, with the colours of both themes."""
    light, dark = css_variables("light"), css_variables("dark")
    themes = (
        f":root{{color-scheme:light;{light}}}\n"
        f"@media screen and (prefers-color-scheme:dark){{:root{{color-scheme:dark;{dark}}}}}\n"
    )
    return themes + _part("style.css")


def page_script() -> str:
    """Return the script of the report, which shows values next to the pointer."""
    return _part("hover.js")


def _part(name: str) -> str:
    return files("inferometer_results.report").joinpath(name).read_text(encoding="utf-8")


def content_policy(style: str, script: str = "") -> str:
    """Return the content security policy: load nothing, allow only this style and script."""
    scripts = f"script-src '{_digest(script)}'; " if script else ""
    return (
        f"default-src 'none'; style-src '{_digest(style)}'; {scripts}"
        "base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
