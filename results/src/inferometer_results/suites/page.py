"""The page of a suite as one HTML file that opens offline."""

from importlib.resources import files
from typing import Any

from jinja2 import PackageLoader

from inferometer_api.suite.wording import gate_sentence, gate_sentences
from inferometer_results.report.page import content_policy, page_style, template_environment
from inferometer_results.suites.view import SuiteView


def render_suite(view: SuiteView) -> str:
    """Return the page of a suite; texts are escaped, and it loads nothing."""
    style = page_style() + suite_style()
    template = template_environment(PackageLoader("inferometer_results.suites", ""))
    page = template.get_template("suite.html.j2")
    return page.render(**suite_context(view), style=style, policy=content_policy(style))


def suite_context(view: SuiteView) -> dict[str, Any]:
    """Return what the template of a suite's page shows."""
    gate = view.gate
    return {
        "view": view,
        "gate_head": "" if gate is None else gate_sentence(gate),
        "gate_lines": [] if gate is None else list(gate_sentences(gate)),
    }


def suite_style() -> str:
    """Return the style of the heat maps, in addition to the report's."""
    return files("inferometer_results.suites").joinpath("suite.css").read_text(encoding="utf-8")
