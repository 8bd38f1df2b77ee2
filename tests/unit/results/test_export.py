"""A result in the formats of spreadsheets, scripts, CI servers and Prometheus."""

import csv
import io
import json
from xml.etree import ElementTree as ET

import pytest
from prometheus_client.core import Metric as Family
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from inferometer_api.results.result import (
    ErrorExample,
    ResultDocument,
    ServedStep,
    ServerTime,
    nanoseconds_at,
)
from inferometer_results.export import FORMATS
from inferometer_results.store.transfer import as_csv
from support.results import (
    a_metered_result,
    a_refused_result,
    a_result,
    a_run,
    an_unfinished_result,
)

STEPS = ["", "", "batch 1", "batch 8", "batch 32"]


def rows(document: ResultDocument) -> list[dict[str, str]]:
    """Return the rows of the CSV."""
    return list(csv.DictReader(io.StringIO(FORMATS["csv"](document))))


def families(document: ResultDocument) -> dict[str, Family]:
    """Return the families of the OpenMetrics text by name, as a strict parser reads it."""
    text = FORMATS["openmetrics"](document)
    read = text_string_to_metric_families(text)  # type: ignore[no-untyped-call]  # theirs
    return {each.name: each for each in read}


def cases(document: ResultDocument) -> dict[str, ET.Element]:
    """Return the test cases of the JUnit XML by name."""
    root = ET.fromstring(FORMATS["junit"](document))  # noqa: S314 - our own
    return {case.attrib["name"]: case for case in root.iter("testcase")}


def test_csv_has_a_row_for_each_step_with_exact_figures() -> None:
    """Each cell is the figure of the document, in the document's unit."""
    document = a_metered_result()
    found = rows(document)
    assert [row["step"] for row in found] == STEPS
    steps = [step for result in document.scenarios for step in result.steps]
    for row, step in zip(found, steps, strict=True):
        assert int(row["queries"]) == step.counts.queries
        assert float(row["achievedQps"]) == step.achieved_qps
        assert int(row["p999Nanoseconds"]) == nanoseconds_at(step.latency, 99.9)
        assert int(row["microjoulesPerInference"]) == step.energy.microjoules_per_inference
    assert (found[1]["verdict"], found[1]["reasons"]) == ("INVALID", "LatencyBound ErrorRate")


def test_the_time_in_the_servers_is_exported() -> None:
    """CSV and OpenMetrics have its four parts, OpenMetrics the share of each step too."""
    document = a_result()
    first = document.scenarios[0]
    spent = ServerTime(
        requests=10,
        executions=10,
        queue_nanoseconds=1_000,
        compute_input_nanoseconds=2_000,
        compute_infer_nanoseconds=30_000,
        compute_output_nanoseconds=4_000,
        steps=[ServedStep(step="decode", nanoseconds=9_000, share=0.25)],
    )
    step = first.steps[0].model_copy(update={"server_time": spent})
    scenarios = [first.model_copy(update={"steps": [step]}), document.scenarios[1]]
    document = document.model_copy(update={"scenarios": scenarios})
    parts = ("queue", "computeInput", "computeInfer", "computeOutput")
    cells = [[row[f"{part}Nanoseconds"] for part in parts] for row in rows(document)]
    assert cells == [["1000", "2000", "30000", "4000"], [""] * 4]
    samples = families(document)["inferometer_run_server_seconds"].samples
    assert {each.labels["part"]: each.value for each in samples} == pytest.approx(
        {"queue": 1e-6, "compute_input": 2e-6, "compute_infer": 3e-5, "compute_output": 4e-6}
    )
    assert {each.labels["scenario"] for each in samples} == {"latency"}
    samples = families(document)["inferometer_run_pipeline_step_ratio"].samples
    assert [(each.labels["pipeline_step"], each.value) for each in samples] == [("decode", 0.25)]


@pytest.mark.parametrize("begin", ["=", "+", "-", "@", "\t"])
def test_no_cell_of_a_csv_is_a_formula(begin: str) -> None:
    """A spreadsheet would run one that a name or a message of others begins."""
    document = a_result()
    first = document.scenarios[0].model_copy(update={"name": f"{begin}HYPERLINK(1)"})
    (row, *_) = rows(document.model_copy(update={"scenarios": [first]}))
    assert row["scenario"] == f"'{begin}HYPERLINK(1)"
    assert float(row["achievedQps"]) == document.scenarios[0].steps[0].achieved_qps
    (kept,) = csv.DictReader(io.StringIO(as_csv([{"name": f"{begin}1+1", "change": -0.5}], ())))
    assert kept == {"name": f"'{begin}1+1", "change": "-0.5"}


def test_csv_has_the_same_columns_whatever_was_measured() -> None:
    """A run that measured nothing has the header of others, to which rows can be appended."""
    nothing, measured = (FORMATS["csv"](each) for each in (a_refused_result(), a_result()))
    assert nothing.partition("\n")[0] == measured.partition("\n")[0]


@pytest.mark.parametrize(
    "document", [an_unfinished_result("Failed"), a_refused_result()], ids=["failed", "refused"]
)
def test_csv_and_json_have_the_cause_of_an_incomplete_run(document: ResultDocument) -> None:
    """Each row has it; a run that measured nothing has a row for it."""
    expected = document.outcome.model_dump(include={"state", "reason", "message"})
    found = rows(document)
    assert len(found) == max(1, sum(len(each.steps) for each in document.scenarios))
    names = {"state": "outcome", "reason": "outcomeReason", "message": "outcomeMessage"}
    for each in (*found, json.loads(FORMATS["json"](document))):
        assert {name: each[column] for name, column in names.items()} == expected


def test_json_has_the_same_figures_and_the_verdict() -> None:
    """Unknown figures are left out, all others are those of the CSV."""
    document = a_result()
    found = json.loads(FORMATS["json"](document))
    assert (found["outcome"], found["valid"]) == ("Complete", False)
    assert found["message"] == "INVALID: 1 of 3 scenarios is invalid."
    for row, step in zip(rows(document), found["steps"], strict=True):
        assert {name: text for name, text in row.items() if text and "outcome" not in name} == {
            name: str(value) for name, value in step.items() if value != ""
        }


def test_junit_fails_what_is_invalid() -> None:
    """A scenario is a test case; its reasons are the failure, its figures and cautions output."""
    document = a_result()
    found = cases(document)
    assert list(found) == ["latency", "traffic", "throughput"]
    failures = {name: case.find("failure") for name, case in found.items()}
    assert [name for name, failure in failures.items() if failure is not None] == ["traffic"]
    failure = failures["traffic"]
    assert failure is not None
    assert failure.attrib["type"] == "LatencyBound"
    assert "ErrorRate: 3 of 770 queries failed" in (failure.text or "")
    output = found["throughput"].findtext("system-out") or ""
    assert "batch 8: queries" in output
    assert "caution CoLocated" in output


@pytest.mark.parametrize(
    ("document", "errors"),
    [
        (an_unfinished_result("Failed"), ["throughput"]),
        (a_refused_result(), ["latency", "traffic", "throughput"]),
    ],
    ids=["failed", "refused"],
)
def test_junit_has_an_error_for_what_was_not_measured(
    document: ResultDocument, errors: list[str]
) -> None:
    """A run that ends early never looks as if it had passed."""
    found = cases(document)
    assert [name for name, case in found.items() if case.find("error") is not None] == errors
    error = found[errors[0]].find("error")
    assert error is not None
    assert error.attrib["type"] == document.outcome.reason
    assert document.outcome.message in (error.text or "")


def test_junit_of_a_run_that_failed_after_its_last_scenario_has_an_error() -> None:
    """All scenarios may be measured, and the run fail after that."""
    failed = an_unfinished_result("Failed").outcome
    found = cases(a_result(outcome=failed))
    assert found["the run"].find("error") is not None


def test_junit_counts_its_cases() -> None:
    """The totals agree with the cases, as CI servers expect."""
    root = ET.fromstring(FORMATS["junit"](an_unfinished_result()))  # noqa: S314 - our own
    for element in (root, root[0]):
        counts = [element.attrib[name] for name in ("tests", "failures", "errors")]
        assert counts == ["3", "1", "1"]


def test_texts_of_a_server_break_no_format() -> None:
    """Control characters, markup and separators of messages are taken as text."""
    hostile = 'a\x00\x1b[31m"],|</failure>\n<script>, `x`'
    document = a_result()
    traffic = document.scenarios[1]
    finding = traffic.verdict.reasons[0].model_copy(update={"message": hostile})
    step = traffic.steps[0].model_copy(
        update={
            "label": 'x",|\n',
            "error_examples": [ErrorExample(kind="status", message=hostile)],
        }
    )
    verdict = traffic.verdict.model_copy(update={"reasons": [finding]})
    broken = traffic.model_copy(update={"steps": [step], "verdict": verdict})
    document = document.model_copy(update={"scenarios": [broken]})
    assert "<script>" in (cases(document)["traffic"].findtext("failure") or "")
    assert [row["step"] for row in rows(document)] == ['x",|\n']
    lines = FORMATS["markdown"](document).splitlines()
    assert "\\<script\\>" in lines[-2]
    assert "a\ufffd\ufffd\\[31m" in lines[-2]
    header, _, row = [line for line in lines if line.startswith("|")]
    assert row.replace("\\|", "").count("|") == header.count("|")
    found = families(document).values()
    assert {sample.labels["step"] for each in found for sample in each.samples} == {'x",|\n'}


def test_markdown_has_the_verdict_a_table_and_the_findings() -> None:
    """A job's summary shows what a terminal shows."""
    text = FORMATS["markdown"](a_result())
    assert text.startswith("### resnet50-cpu: INVALID\n")
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert len(table) == 2 + len(STEPS)
    assert "- **INVALID** traffic: The 99th percentile of the latency" in text
    assert "- **caution** latency, traffic, throughput: Server and load generator" in text


def test_openmetrics_are_those_that_the_operator_exposes() -> None:
    """Names, labels and units are those of finished runs in a cluster."""
    document = a_metered_result()
    text = FORMATS["openmetrics"](document)
    assert text.endswith("# EOF\n")
    found = families(document)
    p99 = [
        sample
        for sample in found["inferometer_run_latency_seconds"].samples
        if sample.labels["percentile"] == "99"
    ]
    steps = [step for result in document.scenarios for step in result.steps]
    assert [sample.value * 1e9 for sample in p99] == pytest.approx(
        [nanoseconds_at(step.latency, 99.0) for step in steps]
    )
    assert p99[0].labels == {
        "run_namespace": "local",
        "run": "resnet50-cpu",
        "scenario": "latency",
        "step": "",
        "percentile": "99",
    }
    valid = [sample.value for sample in found["inferometer_run_valid"].samples]
    assert valid == [1, 0, 1, 1, 1]


def test_openmetrics_have_one_series_over_repeats() -> None:
    """The figures of repeats are averaged; one INVALID repeat makes the scenario INVALID."""
    first = a_result().scenarios[0]
    step = first.steps[0].model_copy(update={"achieved_qps": first.steps[0].achieved_qps + 2})
    invalid = a_result().scenarios[1].verdict
    second = first.model_copy(update={"repeat": 2, "steps": [step], "verdict": invalid})
    document = a_result(run=a_run(), scenarios=[first, second])
    found = families(document)
    (rate,) = found["inferometer_run_queries_per_second"].samples
    assert rate.value == pytest.approx(first.steps[0].achieved_qps + 1)
    (valid,) = found["inferometer_run_valid"].samples
    assert valid.value == 0
