"""Rendering of a result as one HTML file that opens offline."""

import base64
import hashlib
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined

from inferometer_api.results.result import ResultDocument
from inferometer_results.findings import cautions_of, reasons_of
from inferometer_results.headline import headline, model_of
from inferometer_results.quantity import PERCENTILES
from inferometer_results.report.energy_facts import HEADINGS, energy_words
from inferometer_results.report.facts import agent_facts, environment_groups, moment, spec_yaml
from inferometer_results.report.palette import css_variables
from inferometer_results.report.sections import MOST_DRAWN, section_of
from inferometer_results.report.summary import anchor, card, summarise
from inferometer_results.report.wording import ENERGY, GENERAL, definitions


def render_report(document: ResultDocument) -> str:
    """Return the report of a result as one HTML page that loads nothing else.

    Texts from the document are escaped; the page's content security policy blocks all other
    scripts and styles.
    """
    templates = _templates()
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
        percentiles=PERCENTILES,
        sections=[section_of(document, index) for index in range(len(document.scenarios))],
        most_drawn=MOST_DRAWN,
        groups=environment_groups(environment) if environment is not None else [],
        agents=agent_facts(document),
        energy_words=energy_words(document),
        energy_headings=HEADINGS,
        general=GENERAL,
        energy=ENERGY,
        definitions=definitions(document),
        reasons=reasons_of(document),
        cautions=cautions_of(document),
        spec=spec_yaml(document),
        moment=moment,
        anchor=anchor,
    )


def _templates() -> Environment:
    return Environment(
        loader=PackageLoader("inferometer_results.report", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _style() -> str:
    light, dark = css_variables("light"), css_variables("dark")
    themes = (
        f":root{{color-scheme:light;{light}}}\n"
        f"@media screen and (prefers-color-scheme:dark){{:root{{color-scheme:dark;{dark}}}}}\n"
    )
    return themes + _part("style.css")


def _part(name: str) -> str:
    return files("inferometer_results.report").joinpath(name).read_text(encoding="utf-8")


def _policy(style: str, script: str) -> str:
    """Return the content security policy: load nothing, allow only this style and script."""
    return (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
