"""A result as JUnit XML, for the test reports of CI servers: one test case for each scenario."""

import re
from collections.abc import Iterator
from xml.etree import ElementTree as ET

from inferometer_api.results.result import ResultDocument, ScenarioResult
from inferometer_results.export.table import figure_texts, headings
from inferometer_results.findings import entry_name
from inferometer_results.headline import headline, model_of
from inferometer_results.wording.search import found_by, steps_shown

_SECOND_NS = 1e9
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(document: ResultDocument) -> str:
    """Return the XML: an INVALID scenario is a failure, one that was not measured an error."""
    cases = [_case(document, result) for result in document.scenarios]
    if document.outcome.state != "Complete":
        cases += [_unmeasured(document, name) for name in _missing(document) or ["the run"]]
    seconds = sum(float(case.get("time", "0")) for case in cases)
    counts = {
        "tests": str(len(cases)),
        "failures": str(sum(case.find("failure") is not None for case in cases)),
        "errors": str(sum(case.find("error") is not None for case in cases)),
        "time": f"{seconds:.3f}",
    }
    name = document.run.name
    root = ET.Element("testsuites", {"name": "inferometer", **counts})
    started = document.started_at.removesuffix("Z")
    suite = ET.SubElement(root, "testsuite", {"name": name, "timestamp": started, **counts})
    properties = ET.SubElement(suite, "properties")
    for key, value in (
        ("model", model_of(document)),
        ("runId", document.run_id),
        ("inferometerVersion", document.inferometer_version),
    ):
        ET.SubElement(properties, "property", {"name": key, "value": _xml(value)})
    suite.extend(cases)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _case(document: ResultDocument, result: ScenarioResult) -> ET.Element:
    seconds = sum(step.duration_nanoseconds for step in result.steps) / _SECOND_NS
    case = _named(document, entry_name(result), seconds)
    if result.verdict.state == "INVALID":
        reasons = [f"{each.rule}: {each.message}" for each in result.verdict.reasons]
        named = result.verdict.reasons[0].rule if result.verdict.reasons else "INVALID"
        failure = ET.SubElement(case, "failure", {"type": named, "message": _first(reasons)})
        failure.text = _xml("\n".join(reasons))
    ET.SubElement(case, "system-out").text = _xml("\n".join(_output(result)))
    return case


def _output(result: ScenarioResult) -> Iterator[str]:
    """Yield the figures and the cautions of a scenario, a line each."""
    for step in steps_shown(result):
        figures = zip(headings(), figure_texts(step), strict=True)
        text = ", ".join(f"{name} {value}" for name, value in figures)
        yield f"{step.label}: {text}" if step.label else text
    yield from found_by(result)
    yield from (f"caution {each.rule}: {each.message}" for each in result.verdict.cautions)


def _unmeasured(document: ResultDocument, name: str) -> ET.Element:
    case = _named(document, name, 0.0)
    sentences = [headline(document).sentence, document.outcome.message]
    message = document.outcome.message or headline(document).sentence
    found = {"type": document.outcome.reason, "message": _first([message])}
    ET.SubElement(case, "error", found).text = _xml("\n".join(filter(None, sentences)))
    return case


def _missing(document: ResultDocument) -> list[str]:
    """Return the planned scenarios without a result, a repeat each."""
    measured = {(result.name, result.repeat) for result in document.scenarios}
    repeats = range(1, document.run.spec.validity.repeats + 1)
    return [
        scenario.name if repeat == 1 else f"{scenario.name} (repeat {repeat})"
        for repeat in repeats
        for scenario in document.run.spec.scenarios
        if (scenario.name, repeat) not in measured
    ]


def _named(document: ResultDocument, name: str, seconds: float) -> ET.Element:
    of = document.run.name
    return ET.Element("testcase", {"classname": of, "name": name, "time": f"{seconds:.3f}"})


def _first(sentences: list[str]) -> str:
    """Return the first line of the first sentence, as an attribute."""
    return _xml(sentences[0].partition("\n")[0]) if sentences else "INVALID"


def _xml(text: str) -> str:
    """Return a text without the characters that XML forbids, as a server's message may have."""
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)
