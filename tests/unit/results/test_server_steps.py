"""The share of each step in the server stands in the report and in the table."""

from io import StringIO

import pytest
from rich.console import Console

from inferometer_api.results.result import ResultDocument, ServedStep, ServerTime
from inferometer_cli.tables.result import print_table
from inferometer_results.report import render_report
from inferometer_results.wording.search import found_by
from support.html_page import HtmlPage
from support.results import a_result

SPENT = ServerTime(
    requests=100,
    executions=100,
    queue_nanoseconds=50_000,
    compute_input_nanoseconds=30_000,
    compute_infer_nanoseconds=400_000,
    compute_output_nanoseconds=20_000,
    steps=[
        ServedStep(step="decode", nanoseconds=300_000, failed=3),
        ServedStep(step="topK", nanoseconds=200_000),
    ],
)


def a_served_result(mean_nanoseconds: int | None = 2_000_000) -> ResultDocument:
    """Return a result whose first scenario had its steps in the server."""
    document = a_result()
    first = document.scenarios[0]
    (step,) = first.steps
    assert step.latency is not None
    latency = (
        None
        if mean_nanoseconds is None
        else step.latency.model_copy(update={"mean_nanoseconds": mean_nanoseconds})
    )
    served = step.model_copy(update={"server_time": SPENT, "latency": latency})
    changed = first.model_copy(update={"steps": [served]})
    return document.model_copy(update={"scenarios": [changed, *document.scenarios[1:]]})


@pytest.mark.parametrize(
    ("mean", "shares"),
    [
        (
            2_000_000,
            (
                "Of the mean latency of 2.00 ms: decode 300 µs (15.0 %), topK 200 µs (10.0 %), "
                "the model 400 µs (20.0 %), queue, reading and writing 100 µs (5.00 %), "
                "client and network 1.00 ms (50.0 %)."
            ),
        ),
        (
            None,
            (
                "Of the mean time in the server of 1.00 ms: decode 300 µs (30.0 %), "
                "topK 200 µs (20.0 %), "
                "the model 400 µs (40.0 %), queue, reading and writing 100 µs (10.0 %)."
            ),
        ),
    ],
)
def test_the_shares_add_up_to_the_whole(mean: int | None, shares: str) -> None:
    """Of the latency if it was measured, otherwise of the time in the server."""
    first, second = list(found_by(a_served_result(mean).scenarios[0]))
    assert first == shares
    assert second == "Requests failed in steps in the server: 3 in decode."


def test_the_report_has_a_row_for_each_step() -> None:
    """With its mean time; results without steps in the server have none."""
    text = HtmlPage(render_report(a_served_result())).text
    assert "server: step decode" in text
    assert "Of the mean latency" in text
    assert "server: step" not in HtmlPage(render_report(a_result())).text


def test_the_terminal_names_the_shares() -> None:
    """Next to the outcome of the scenario."""
    console = Console(file=StringIO(), width=400)
    print_table(a_served_result(), console)
    assert "decode 300 µs (15.0 %)" in console.file.getvalue()  # type: ignore[attr-defined]  # a StringIO
