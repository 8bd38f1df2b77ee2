"""report.html shows what the result document holds, and nothing that the document could inject."""

import json
import re
import xml.etree.ElementTree as ET
from typing import Any

import pytest
import yaml
from hypothesis import given, settings

from inferometer_api.results.accuracy import (
    AccuracyFigure,
    AccuracyResult,
    EvaluatedDataset,
    ManifestInfo,
)
from inferometer_api.results.result import (
    ClusterNode,
    Finding,
    ResultDocument,
    ServerReplica,
    Verdict,
    percentile_of,
)
from inferometer_api.results.search import RepeatFigure, RepeatSummary
from inferometer_api.spec.run import BenchmarkRun
from inferometer_api.spec.server import External
from inferometer_loadgen.verdict.rule_table import RULES
from inferometer_results.report import render_report
from inferometer_results.report.cards import NO_BOUNDS, cards
from inferometer_results.report.facts import environment_groups
from inferometer_results.rules import rule_pages
from support.any_results import any_results
from support.html_page import HtmlPage
from support.report_pages import alone, titles
from support.results import (
    a_long_result,
    a_refused_result,
    a_result,
    a_valid_result,
    an_environment,
    an_unfinished_result,
)

_SCRIPT = "<script>alert(1)</script>"


def _page(document: ResultDocument) -> HtmlPage:
    return HtmlPage(render_report(document))


@given(any_results())
@settings(max_examples=40)
def test_any_document_renders_and_cannot_inject(document: ResultDocument) -> None:
    """Whatever a document holds, the page is well-formed and no element comes from a text."""
    page = _page(document)
    assert page.tags.count("script") == 1
    assert "img" not in page.tags
    assert len(page.values("id")) == len(set(page.values("id")))
    assert not any(name.startswith("on") for name, _ in page.attributes)
    assert "8641969" not in page.text


@pytest.mark.parametrize(
    "document",
    [a_result(), a_valid_result(), a_long_result(), a_refused_result(), an_unfinished_result()],
    ids=["three", "valid", "long", "refused", "interrupted"],
)
def test_the_page_loads_nothing(document: ResultDocument) -> None:
    """The page has no external sources, a policy that blocks them, and at most 1.5 MB."""
    html = render_report(document)
    assert len(html.encode()) < 1_500_000
    outward = [
        value
        for name, value in HtmlPage(html).attributes
        if name in {"src", "href", "srcset", "data", "action"} and not value.startswith("#")
    ]
    assert outward == []
    assert not re.search(r"@import|url\(", html)
    assert "default-src &#39;none&#39;" in html


def test_the_same_result_gives_the_same_page() -> None:
    """A page can be drawn again from result.json, byte for byte."""
    document = a_result()
    again = ResultDocument.model_validate_json(document.model_dump_json())
    assert render_report(again) == render_report(document)


def test_a_page_answers_first() -> None:
    """Verdict with reasons and figures come first, then contents, charts, cautions and tables."""
    document = a_result()
    text = _page(document).text
    order = [
        *("INVALID", document.scenarios[1].verdict.reasons[0].message, "At a glance"),
        *("p99 latency", "Contents", "Over time", "Cautions do not change the verdict"),
        *("Every scenario and step", "Frequency governor"),
    ]
    places = [text.index(part, text.index("Measured")) for part in order]
    assert places == sorted(places)
    for result in document.scenarios:
        for finding in (*result.verdict.reasons, *result.verdict.cautions):
            assert finding.message in text
            assert f"found {finding.figure} limit {finding.limit}" in text


def test_a_page_names_the_nodes_of_servers_and_says_whether_others_use_them() -> None:
    """Each node once, with its instance type; without knowledge nothing is said."""
    known = ClusterNode(instance_type="c5.xlarge", other_pods=1)
    replicas = [
        ServerReplica(url="http://a", node="n1", cluster_node=known),
        ServerReplica(url="http://b", node="n1", cluster_node=known),
        ServerReplica(url="http://c", node="n2", cluster_node=ClusterNode(other_pods=0)),
        ServerReplica(url="http://d", node="n3"),
    ]
    found = an_environment()
    server = found.server.model_copy(update={"replicas": replicas})
    text = _page(a_result(environment=found.model_copy(update={"server": server}))).text
    assert text.count("Node n1 (c5.xlarge), with 1 pod of others") == 1
    assert "Node n2, with no pods of others" in text
    assert "Node n3 " in text
    assert "n3, with" not in text


def test_a_shared_caution_is_listed_once() -> None:
    """A finding of several scenarios is listed once, with links to each of them."""
    document = a_result()
    message = document.scenarios[0].verdict.cautions[0].message
    text = _page(document).text
    assert text.count(message) == 1
    assert "CoLocated latency, traffic, throughput found same node" in text


def test_reasons_and_cautions_are_folded_with_their_rules_pages() -> None:
    """Each rule is one line, which opens to its message, its meaning and what to do, offline."""
    html = render_report(a_result())
    folded = re.findall(r"<details( open)?>\s*<summary><b class=\"name\">(.*?)</b>", html)
    assert folded == [("", "LatencyBound"), ("", "ErrorRate"), ("", "CoLocated")]
    text = _page(a_result()).text
    definition = rule_pages()["LatencyBound"].definition[0]
    assert text.count(definition.replace("`", "")) == 1
    assert "<code>server.percentile</code>" in html
    assert "the server does not keep the bound at this rate. Find the highest rate that" in text
    # A newer version's rule has no page here.
    assert "What CoLocated means" not in text


def test_every_rule_of_the_documentation_has_its_texts() -> None:
    """No Markdown is left in them but quotes of code."""
    pages = rule_pages()
    assert set(pages) == {rule.name for rule in RULES}
    for page in pages.values():
        assert page.what_to_do
        assert page.definition
        for text in (*page.what_to_do, *page.definition, page.limit):
            assert "](" not in text
            assert "**" not in text
            assert text == text.strip() != ""


def test_the_contents_lead_to_every_section() -> None:
    """Each entry of the contents is a place on the page, each scenario among them."""
    page = _page(a_result())
    nav = re.search(r"<nav.*?</nav>", render_report(a_result()), re.DOTALL)
    assert nav is not None
    keys = re.findall(r'href="#(.*?)"', nav.group())
    assert set(keys) <= set(page.values("id"))
    assert {"cautions", "scenario-1", "scenario-3", "summary", "data"} <= set(keys)
    refused = _page(a_refused_result())
    assert "summary" not in refused.values("id")


def test_a_card_has_its_figure_with_bounds() -> None:
    """A latency has the bounds of its percentile, a rate those of its seconds, if they suffice."""
    found = cards(a_result())
    assert [card.name for card in found] == ["latency", "traffic", "throughput"]
    p99 = percentile_of(a_result().scenarios[1].steps[0].latency, 99.0)
    assert p99 is not None
    low, high = ((each or 0) / 1e6 for each in (p99.low_nanoseconds, p99.high_nanoseconds))
    assert found[1].main.bounds == f"{low:.0f}\N{EN DASH}{high:.0f} ms"
    assert found[1].main.covers == "95 % within this window"
    assert re.fullmatch(r"[\d.]+\N{EN DASH}[\d.]+ samples/s", found[2].main.bounds)
    assert found[2].main.covers == "95 % within this window"
    p99_at_step = dict(found[2].main.details)["p99 at this step"]
    assert re.fullmatch(r"[\d.]+ m?s \([\d.]+\N{EN DASH}[\d.?]+\)", p99_at_step)
    steps = a_result().scenarios[2].steps
    brief = [step.model_copy(update={"windows": step.windows[:5]}) for step in steps]
    scenario = a_result().scenarios[2].model_copy(update={"steps": brief})
    (card,) = cards(a_result(scenarios=[scenario]))
    assert card.main.bounds == NO_BOUNDS


def test_a_card_of_an_evaluation_has_its_first_measure_and_its_samples() -> None:
    """Its latency is nothing that it is read for; sampled under load it is a detail."""
    latency, *_ = a_result().scenarios
    figures = [
        AccuracyFigure(metric="Top1", value=0.9, samples=10, correct=9, low=0.58, high=0.98),
        AccuracyFigure(metric="MSE", value=0.1234, samples=10),
    ]
    dataset = EvaluatedDataset(name="d", version="1", license="CC", uri="file:d", samples=20)
    accuracy = AccuracyResult(
        dataset=dataset, requested=12, processed=10, failed=2, figures=figures
    )
    evaluated = latency.model_copy(update={"kind": "accuracy", "accuracy": accuracy})
    (card,) = cards(a_result(scenarios=[evaluated]))
    assert (card.main.figure, card.main.unit, card.main.label) == ("90.00", "%", "Top1")
    assert (card.main.bounds, card.main.covers) == ("58.00 to 98.00 %", "95 % over the samples")
    assert card.main.details == (("MSE", "0.1234"), ("samples", "10 of 12"), ("failed", "2"))
    (under_load,) = cards(a_result(scenarios=[latency.model_copy(update={"accuracy": accuracy})]))
    assert under_load.main.label.endswith("latency")
    assert ("Top1", "90.00 %") in under_load.main.details
    nothing = accuracy.model_copy(update={"processed": 0, "failed": 12, "figures": []})
    (empty,) = cards(a_result(scenarios=[evaluated.model_copy(update={"accuracy": nothing})]))
    assert empty.main.label == "no sample was processed"
    assert empty.main.details == (("samples", "0 of 12"), ("failed", "12"))


def test_repeats_share_one_card_with_their_mean() -> None:
    """Over repeats a card has the mean and its interval; one INVALID repeat makes it INVALID."""
    first, traffic, _ = a_result().scenarios
    figure = RepeatFigure(name="p99Nanoseconds", values=[2e7, 3e7], mean=2.5e7, low=1e7, high=4e7)
    document = a_result(
        scenarios=[first, first.model_copy(update={"repeat": 2, "verdict": traffic.verdict})],
        repeat_summaries=[RepeatSummary(name="latency", repeats=2, figures=[figure])],
    )
    (found,) = cards(document)
    assert (found.state, found.main.figure, found.main.unit) == ("INVALID", "25.0", "ms")
    assert found.main.label.endswith("mean of 2 repeats")
    assert found.main.bounds == "10.0 ms to 40.0 ms"


def test_a_valid_run_is_reported_as_valid_without_reasons() -> None:
    """A valid run shows VALID and has neither a list of reasons nor one of cautions."""
    text = _page(a_valid_result()).text
    assert "VALID The scenario is valid." in text
    assert "Caution" not in text


def test_an_unfinished_run_explains_its_figures() -> None:
    """A failed run says so, with the server's last output and what its figures cover."""
    document = an_unfinished_result("Failed")
    html = render_report(document)
    text = HtmlPage(html).text
    assert "FAILED The run failed before it was complete." in text
    assert "The figures are what was measured until then: 2 of 3 scenarios." in text
    assert "ServerDied" in text
    assert "<pre>14:03:59 info  ready on 127.0.0.1:38211\n14:04:11 fatal" in html


def test_a_refused_run_has_a_page_without_figures() -> None:
    """If nothing was measured, the page says what was refused and has no figures."""
    page = _page(a_refused_result())
    assert "REFUSED The run cannot be carried out. Nothing was measured." in page.text
    assert "Model file not found" in page.text
    assert "Summary" not in page.text
    assert page.tags.count("figure") == 0
    assert "the run ended before the server was ready" in page.text


def test_the_summary_has_every_figure() -> None:
    """Each step's row has its counts, rates, percentiles with bounds, errors and its maximum."""
    document = a_result()
    step = document.scenarios[1].steps[0]
    assert step.latency is not None
    table = re.search(r'<table class="summary">.*?</table>', render_report(document), re.DOTALL)
    assert table is not None
    row = HtmlPage(table.group()).text.partition("traffic")[2].partition("throughput")[0]
    for text in (
        f"{step.counts.queries:,}",
        "1 connection",
        "2 timeout",
        f"of {step.scheduled_qps:.1f}",
        f"{step.latency.percentiles[4].nanoseconds / 1e6:.0f}",
        f"{(step.latency.percentiles[4].low_nanoseconds or 0) / 1e6:.0f}",
        f"{step.latency.max_nanoseconds / 1e6:.0f}",
    ):
        assert f" {text}" in row


def test_energy_without_a_source_is_unavailable_with_the_reason() -> None:
    """Missing energy is shown with its reason, once, and never as zero."""
    text = _page(a_result()).text
    assert text.count("Energy per inference is unavailable: this machine has no readable") == 1


def test_charts_are_named_and_described() -> None:
    """Each chart is a well-formed image with a title, a description and labelled axes."""
    html = render_report(a_result())
    charts = re.findall(r"<svg class=\"chart\".*?</svg>", html, re.DOTALL)
    assert len(charts) == 6 + 8 + 8
    for chart in charts:
        root = ET.fromstring(chart)  # noqa: S314 - our own page
        assert root.get("role") == "img"
        title, description = root[0].text, root[1].text
        assert title
        assert description
        assert description.endswith(".")
        axes = [e.text for e in root.iter("text") if "axis" in (e.get("class") or "").split()]
        assert all(axes)
        assert len(axes) == 2
        assert "nan" not in chart


def test_times_without_percentiles_still_have_their_chart() -> None:
    """Another program may leave them out; the histogram has them all."""
    document = json.loads(alone(a_result(), 1).model_dump_json())
    (step,) = document["scenarios"][0]["steps"]
    for times in ("latency", "serviceTime", "dispatchLag"):
        assert step[times]["percentiles"]
        step[times]["percentiles"] = []
    found = ResultDocument.model_validate(document)
    assert "Dispatch lag by percentile" in titles(render_report(found))


_OF_ALL = ["Latency distribution", "Latency by percentile"]
_OVER_TIME = ["Latency over time", "Achieved rate", "CPU", "Memory"]


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        (0, [*_OF_ALL, *_OVER_TIME]),
        (
            1,
            [
                *_OF_ALL,
                "Dispatch lag by percentile",
                "Latency over time",
                "Scheduled and achieved rate",
                "Errors over time",
                "CPU",
                "Memory",
            ],
        ),
        (2, ["Throughput by batch size", "Latency by batch size", *_OF_ALL, *_OVER_TIME]),
    ],
)
def test_each_kind_of_scenario_has_its_charts(index: int, expected: list[str]) -> None:
    """A scenario shows the charts that its kind calls for, and none that would be empty."""
    assert titles(render_report(alone(a_result(), index))) == expected


def test_the_spec_can_be_run_again() -> None:
    """The YAML on the page is the resolved run."""
    document = a_result()
    html = render_report(document)
    pre = re.findall(r"<pre>(.*?)</pre>", html, re.DOTALL)[-1].replace("&#39;", "'")
    assert BenchmarkRun.model_validate(yaml.safe_load(pre)) == document.run


def test_the_environment_is_complete() -> None:
    """The page has machine, server, model and versions, and only what applies."""
    environment = an_environment()
    text = _page(a_result()).text
    node, model = environment.node, environment.model
    for fact in (
        node.hostname,
        node.cpu_model,
        node.kernel,
        "16.0 GiB",
        "122 on CPUExecutionProvider",
        model.sha256 or "",
        "FP32 [?, 3, 224, 224]",
        *(f"{name} {version}" for name, version in environment.packages.items()),
        *environment.notes,
    ):
        assert fact in text


@pytest.mark.parametrize(
    ("engine", "version", "sentence"),
    [
        ("onnxruntime", "1.31.1", "needs onnxruntime >=1.20 <2, has onnxruntime 1.31.1"),
        ("onnxruntime", "", "has onnxruntime; the version was not checked, as the server reports"),
        ("", "", "needs onnxruntime >=1.20 <2; not checked, as the server reports no engine"),
    ],
)
def test_the_engine_of_a_manifest_is_named_or_said_to_be_unchecked(
    engine: str, version: str, sentence: str
) -> None:
    """A server of others reports no engine, and Triton no version of it."""
    manifest = ManifestInfo(
        name="digits",
        version="1.2.0",
        license="MIT",
        sha256="0" * 64,
        framework="onnxruntime",
        framework_constraint=">=1.20 <2",
        resolved_engine=engine,
        resolved_version=version,
    )
    environment = an_environment()
    model = environment.model.model_copy(update={"manifest": manifest})
    found = dict(
        fact
        for group in environment_groups(environment.model_copy(update={"model": model}))
        for fact in group.facts
    )
    assert "digits 1.2.0 (licence MIT" in found["Manifest"]
    assert sentence in found["Engine by the manifest"]


def test_the_device_of_an_external_server_is_not_guessed() -> None:
    """An External server's device is unknown, so the page does not show one."""
    document = a_result()
    spec = document.run.spec
    external = spec.server.model_copy(
        update={"runtime": "External", "external": External(url="http://127.0.0.1:8000")}
    )
    run = document.run.model_copy(update={"spec": spec.model_copy(update={"server": external})})
    assert f"OnnxRuntime on CPU, {spec.load.protocol}" in _page(document).text
    assert f"External, {spec.load.protocol}" in _page(document.model_copy(update={"run": run})).text


def test_hundreds_of_scenarios_still_make_a_small_page() -> None:
    """After the first sixteen scenarios there are only tables, and the page says so."""
    document = a_result()
    many = [document.scenarios[0].model_copy(update={"repeat": repeat}) for repeat in range(1, 101)]
    html = render_report(document.model_copy(update={"scenarios": many}))
    assert len(html.encode()) < 1_500_000
    assert html.count("Only the first 16 scenarios have charts") == 84
    assert "latency (repeat 100)" in html


@pytest.mark.parametrize("place", ["message", "rule", "figure", "limit", "step"])
def test_a_script_in_a_finding_is_text(place: str) -> None:
    """Hostile text is shown literally."""
    fields: dict[str, Any] = {"rule": "r", "message": "m", "figure": "f", "limit": "l"}
    finding = Finding(**(fields | {place: _SCRIPT}))
    document = a_valid_result()
    verdict = Verdict(state="INVALID", reasons=[finding])
    scenario = document.scenarios[0].model_copy(update={"verdict": verdict})
    page = _page(document.model_copy(update={"scenarios": [scenario]}))
    assert page.tags.count("script") == 1
    assert _SCRIPT in page.text
