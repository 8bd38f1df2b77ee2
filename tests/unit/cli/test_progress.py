"""How progress is written to a terminal, to one that cannot move, to a log and to a program."""

import io
import json
import re

import pytest
from rich.console import Console

from inferometer_api.plan.reports import ProgressReport
from inferometer_api.spec.run import BenchmarkRun
from inferometer_cli.exits import RefusedError
from inferometer_cli.progress import show_progress
from inferometer_cli.terminal import ProgressFormat, message_format, print_message
from inferometer_cli.time_left import RemainingTime
from support.runs import a_run

MEASURING = ProgressReport(
    stage="Measuring",
    scenario="a-scenario-of-some-length",
    scenario_count=1,
    fraction=0.5,
    elapsed_seconds=10,
    queries=12_345,
    qps=1234.5,
    p99_nanoseconds=9_870_000,
)


def _shown(
    wanted: ProgressFormat = "auto", *, terminal: bool = True, width: int = 80, term: str = "xterm"
) -> str:
    console = Console(
        file=io.StringIO(), width=width, force_terminal=terminal, _environ={"TERM": term}
    )
    run = BenchmarkRun.model_validate(a_run(validity={"minDurationSeconds": 20}))
    with show_progress(console, RemainingTime(run), wanted) as watch:
        watch("starting the server")
        watch(MEASURING)
        later = MEASURING.model_copy(update={"elapsed_seconds": 20.0, "fraction": 0.8})
        watch(later)
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


@pytest.mark.parametrize(
    ("wanted", "terminal", "term"),
    [("auto", True, "dumb"), ("auto", False, "xterm"), ("plain", True, "xterm")],
)
def test_progress_is_plain_lines(wanted: ProgressFormat, terminal: bool, term: str) -> None:  # noqa: FBT001 - a case of the test
    """A dumb terminal, a log and --progress plain get a line a stage and every ten seconds."""
    where = "a-scenario-of-some-length (1/1): measuring"
    assert _shown(wanted, terminal=terminal, term=term).splitlines() == [
        "starting the server",
        f"{where}, about 10 s left",
        f"{where}: 80%  1,230 queries/s  p99 9.87 ms  about 5 s left",
    ]


def test_a_server_that_is_not_ready_is_waited_for_with_the_time_left() -> None:
    """The line says why it is not ready, and how long the run waits (readyDeadlineSeconds)."""
    waiting = ProgressReport(
        stage="WaitingForServer", fraction=0.1, elapsed_seconds=30, detail="Connection refused"
    )
    console = Console(file=io.StringIO(), width=80)
    run = BenchmarkRun.model_validate(a_run(server={"readyDeadlineSeconds": 300}))
    with show_progress(console, RemainingTime(run), "plain") as watch:
        watch(waiting)
        watch(waiting.model_copy(update={"elapsed_seconds": 40.0, "fraction": 40 / 300}))
    file = console.file
    assert isinstance(file, io.StringIO)
    first, second = file.getvalue().splitlines()
    assert first.endswith("Connection refused, waits for up to 4 min 30 s")
    assert second.endswith("Connection refused, waits for up to 4 min 20 s")


def test_samples_of_a_data_set_are_counted() -> None:
    """How many of how many are sent, and how long the others take at this rate."""
    accuracy = {"dataset": {"uri": "file:data.jsonl"}, "metrics": ["Top1"]}
    run = BenchmarkRun.model_validate(a_run(scenarios=[{"name": "acc", "accuracy": accuracy}]))
    preparing = ProgressReport(stage="Preparing", scenario="acc", scenario_count=1)
    sending = preparing.model_copy(update={"stage": "Measuring", "sample_count": 1_000_000})
    counts = "7,500 of 1,000,000 samples  2 failed"
    later = {"elapsed_seconds": 10.0, "fraction": 0.0075, "queries": 7500, "failed": 2}
    console = Console(file=io.StringIO(), width=80)
    with show_progress(console, RemainingTime(run), "plain") as watch:
        watch(preparing)
        watch(sending)
        watch(sending.model_copy(update=later))
    file = console.file
    assert isinstance(file, io.StringIO)
    assert file.getvalue().splitlines() == [
        "acc (1/1): preparing requests",
        "acc (1/1): sending samples",
        f"acc (1/1): sending samples: 1%  {counts}  about 22 min 3 s left",
    ]


@pytest.mark.parametrize("width", [60, 80, 100, 120])
def test_the_moving_line_cuts_no_figure(width: int) -> None:
    """On a terminal, a figure that does not fit the line is left out; the time left comes first."""
    shown = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", _shown(width=width))
    assert "…" not in shown
    assert ("about 5 s left" in shown) is (width >= 80)
    assert ("1,230 queries/s  p99 9.87 ms" in shown) is (width >= 100)
    assert not re.search(r"\d (queries|p99 [\d.]+ *$)", shown.replace("queries/s", ""))


def test_programs_read_an_object_per_line(capsys: pytest.CaptureFixture[str]) -> None:
    """With --progress json each event, message and error is one line of JSON."""
    with pytest.raises(BaseException) as ended, message_format("json"):  # noqa: PT011, PT012
        assert _shown("json") == ""
        print_message("note: this is said")
        raise RefusedError("It cannot be run.")
    assert getattr(ended.value, "exit_code", None) == 2
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["event"] for line in lines] == [
        *("stage", "progress", "progress", "message", "error")
    ]
    assert lines[0]["message"] == "starting the server"
    assert lines[1] == {
        "event": "progress",
        "stage": "Measuring",
        "scenario": "a-scenario-of-some-length",
        "scenarioIndex": 0,
        "scenarioCount": 1,
        "step": "",
        "fraction": 0.5,
        "elapsedSeconds": 10.0,
        "repeat": 1,
        "repeatCount": 1,
        "detail": "",
        "queries": 12_345,
        "failed": 0,
        "qps": 1234.5,
        "p99Nanoseconds": 9_870_000,
        "secondsLeft": 10.0,
        "isBound": False,
    }
    assert lines[-1]["message"] == "It cannot be run."
    print_message("plain again")
    assert capsys.readouterr().err == "plain again\n"
