"""The figures of each model of a mix stand in the report, in the table and in exports."""

import csv
from io import StringIO

import pytest
from rich.console import Console

from inferometer_api.results.result import ModelFigures, ResultDocument
from inferometer_cli.tables.result import print_table
from inferometer_results.export import FORMATS
from inferometer_results.report import render_report
from support.html_page import HtmlPage
from support.results import a_result

MODELS = [
    ModelFigures(
        model="resnet50", share=0.75, queries=771, succeeded=770, failed=1, achieved_qps=12.9
    ),
    ModelFigures(
        model="squeezenet", share=0.25, queries=253, succeeded=253, failed=0, achieved_qps=4
    ),
]


def a_mixed_result() -> ResultDocument:
    """Return a result whose first scenario has a mix."""
    document = a_result()
    first = document.scenarios[0]
    step = first.steps[0]
    mixed = first.model_copy(
        update={
            "steps": [
                step.model_copy(
                    update={
                        "models": [
                            each.model_copy(update={"latency": step.latency}) for each in MODELS
                        ]
                    }
                )
            ]
        }
    )
    return document.model_copy(update={"scenarios": [mixed, *document.scenarios[1:]]})


def test_the_report_has_a_row_for_each_model() -> None:
    """The section of a scenario with a mix shows what each model got; others have no such table."""
    text = HtmlPage(render_report(a_mixed_result())).text
    assert "resnet50 (75 %)" in text
    assert "squeezenet (25 %)" in text
    assert "each model of the mix" in text
    assert "each model of the mix" not in HtmlPage(render_report(a_result())).text


@pytest.mark.parametrize("terminal", [True, False])
def test_the_table_has_a_row_for_each_model(terminal: bool) -> None:  # noqa: FBT001 - a case of the test
    """A step's row is followed by one for each model, with its queries and failures."""
    console = Console(file=StringIO(), force_terminal=terminal, width=160)
    print_table(a_mixed_result(), console)
    printed = console.file.getvalue()  # type: ignore[attr-defined]  # a StringIO
    for each in MODELS:
        line = next(line for line in printed.splitlines() if each.model in line)
        assert str(each.queries) in line


def test_an_export_has_a_row_for_each_model_below_its_step() -> None:
    """With the model's own figures; what is known of the step alone is empty."""
    document = a_mixed_result()
    found = list(csv.DictReader(StringIO(FORMATS["csv"](document))))
    step, *models = found[:3]
    assert step["mixModel"] == ""
    for row, each in zip(models, MODELS, strict=True):
        assert (row["mixModel"], row["queries"], row["failed"]) == (
            each.model,
            str(each.queries),
            str(each.failed),
        )
        assert (row["step"], row["verdict"]) == (step["step"], step["verdict"])
        assert row["p99Nanoseconds"] == step["p99Nanoseconds"] != ""
        assert row["scheduledQps"] == row["achievedSamplesPerSecond"] == ""
    assert [row["mixModel"] for row in found[3:]] == [""] * len(found[3:])
    text = FORMATS["markdown"](document)
    assert "resnet50 (75 %) |  | 771 | 1 | 12.9 |  |" in text
