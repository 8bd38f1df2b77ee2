"""A run that goes wrong ends at once, keeps what it measured, and leaves nothing behind.

Each ends within seconds of the fact, with one sentence; no process, half-written result or
temporary file stays; what was measured before is kept and marked.
"""

import os
import signal
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from support.inferometer_process import END_SECONDS, Inferometer, Role, started
from support.local_runs import Act, Done, done, nothing, together
from support.onnx_models import busy
from support.waiting import wait_until

SINGLE: dict[str, Any] = {"singleStream": {}}
TWO = ({"batch": {"batchSizes": [256]}}, SINGLE)
"""The first ends after a second, the second goes on until something ends it."""
ENDLESS = {"minQueries": 200_000, "maxDurationSeconds": 600}
MEASURING = "s1 (2/2): measuring"
SLOW_TO_WARM_UP = busy(4_000_000)
"""A model whose warm-up takes tens of seconds."""

HELD_WRITES = """
import os, pathlib, threading
def fsync(_):
    pathlib.Path("writing").touch()
    while not pathlib.Path("go").exists():
        threading.Event().wait(0.01)
os.fsync = fsync
"""
"""Imported by Python at its start: makes the moment of writing as long as a test needs it."""


def kill(role: Role, number: signal.Signals = signal.SIGKILL) -> Act:
    """Send a signal to a child as soon as it is there."""
    return lambda process: os.kill(process.child(role), number)


def send(number: signal.Signals) -> Act:
    """Send a signal to the command itself."""
    return lambda process: process.signal(number)


def at(text: str, act: Act = nothing) -> Act:
    """Do something once a text was said."""

    def wait_and_act(process: Inferometer) -> None:
        process.wait_for(text)
        act(process)

    return wait_and_act


def terminate_while_starting(process: Inferometer) -> None:
    """Send SIGTERM as soon as there is a server."""
    process.child("server")
    process.signal(signal.SIGTERM)


def interrupt_frozen_fetcher(process: Inferometer) -> None:
    """Hold the moment of fetching, then press Ctrl-C."""
    kill("model fetcher", signal.SIGSTOP)(process)
    process.press_ctrl_c()


def interrupt_while_writing(process: Inferometer) -> None:
    """Press Ctrl-C while the result is being written, then let the writing go on."""
    wait_until((process.folder / "writing").exists, "the writing")
    process.press_ctrl_c()
    (process.folder / "go").touch()


def _runs(folder: Path) -> Mapping[str, Callable[[], Done]]:
    held = folder / "held"
    held.mkdir()
    (held / "sitecustomize.py").write_text(HELD_WRITES)

    def soon(name: str, act: Act) -> Callable[[], Done]:
        return lambda: done(folder / name, SINGLE, act=act, within_seconds=END_SECONDS)

    def midway(name: str, act: Act) -> Callable[[], Done]:
        return lambda: done(
            folder / name,
            *TWO,
            act=at(MEASURING, act),
            validity=ENDLESS,
            within_seconds=END_SECONDS,
        )

    return {
        "killed server": midway("killed server", kill("server")),
        "killed load": midway("killed load", kill("load generator")),
        "ctrl-c": midway("ctrl-c", Inferometer.press_ctrl_c),
        "sigterm": midway("sigterm", send(signal.SIGTERM)),
        "sigkill": lambda: done(
            folder / "sigkill",
            SINGLE,
            act=at("waiting for the server", send(signal.SIGKILL)),
            model=SLOW_TO_WARM_UP,
            within_seconds=END_SECONDS,
        ),
        "server killed at its start": soon("killed at start", kill("server")),
        "ctrl-c while fetching": soon("fetching", interrupt_frozen_fetcher),
        "sigterm while starting": soon("starting", terminate_while_starting),
        "server killed in its warm-up": lambda: done(
            folder / "server warm-up",
            SINGLE,
            act=at("waiting for the server", kill("server")),
            model=SLOW_TO_WARM_UP,
            within_seconds=END_SECONDS,
        ),
        "ctrl-c in the warm-up": lambda: done(
            folder / "warm-up",
            SINGLE,
            act=at("s0 (1/1): warming up", Inferometer.press_ctrl_c),
            validity={"warmUpSeconds": 600},
            within_seconds=END_SECONDS,
        ),
        "ctrl-c while writing": lambda: done(
            folder / "writing",
            {"server": {"targetQps": 20}},
            act=interrupt_while_writing,
            env={"PYTHONPATH": str(held)},
            within_seconds=END_SECONDS,
        ),
        "never listening": lambda: done(
            folder / "never listening",
            SINGLE,
            act=kill("server", signal.SIGSTOP),
            spec={"server": {"readyDeadlineSeconds": 1}},
            within_seconds=END_SECONDS + 1,
        ),
        "never ready": lambda: done(
            folder / "never ready",
            SINGLE,
            act=at("waiting for the server", kill("server", signal.SIGSTOP)),
            model=SLOW_TO_WARM_UP,
            spec={"server": {"readyDeadlineSeconds": 15}},
            within_seconds=END_SECONDS + 15,
        ),
        "past the deadline": lambda: done(
            folder / "deadline",
            SINGLE,
            act=at("fetching"),
            spec={"activeDeadlineSeconds": 1},
            validity={"minDurationSeconds": 60},
            within_seconds=END_SECONDS + 1,
        ),
        "frozen server": lambda: done(
            folder / "frozen",
            {"server": {"targetQps": 20}},
            act=at("s0 (1/1): measuring", kill("server", signal.SIGSTOP)),
            spec={"load": {"requestTimeoutMilliseconds": 300}},
            validity={"minDurationSeconds": 2, "maxDurationSeconds": 4},
        ),
    }


@pytest.fixture(scope="module")
def faults(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Future[Done]]]:
    """Every faulty run, three at a time."""
    with together(_runs(tmp_path_factory.mktemp("faults")), at_once=3) as runs:
        yield runs


def _left_nothing(run: Done) -> None:
    assert run.left_behind == []
    assert run.temporary == []
    assert "Traceback" not in run.ended.stderr
    assert run.ended.stderr.count("inferometer: ") == 1


@pytest.mark.parametrize(
    ("name", "code", "outcome", "sentence"),
    [
        (
            "killed server",
            1,
            ("Failed", "ServerDied"),
            "The server died during the run (signal SIGKILL). Its last output:\n",
        ),
        ("ctrl-c", 130, ("Interrupted", "Interrupted"), "The run was interrupted (SIGINT)."),
        ("sigterm", 143, ("Terminated", "Terminated"), "The run was terminated (SIGTERM)."),
    ],
)
def test_measurements_before_the_end_are_kept_and_marked(
    faults: dict[str, Future[Done]],
    name: str,
    code: int,
    outcome: tuple[str, str],
    sentence: str,
) -> None:
    """A run that ends midway keeps the scenario that was done, and the other as ended early."""
    run = faults[name].result()
    assert run.ended.code == code
    assert run.outcome == outcome
    assert run.ended.sentence.startswith(sentence)
    assert run.files == ["report.html", "result.json"]
    assert run.result is not None
    first, second = run.result.scenarios
    assert "EndedEarly" not in {reason.rule for reason in first.verdict.reasons}
    assert second.verdict.state == "INVALID"
    assert "EndedEarly" in {reason.rule for reason in second.verdict.reasons}
    assert second.steps[0].ended_early
    # The second may be ended before its first answer came.
    assert first.steps[0].counts.queries > 0
    assert run.result.environment is not None
    assert sentence.partition("\n")[0] in run.result.outcome.message
    assert sentence.partition(".")[0] in (run.directory / "report.html").read_text()
    _left_nothing(run)


def test_the_last_lines_of_a_dead_server_are_reported(faults: dict[str, Future[Done]]) -> None:
    """What the server said last stands in the sentence and in the result."""
    run = faults["killed server"].result()
    assert "event=ready" in run.ended.sentence
    assert run.result is not None
    assert "event=ready" in run.result.outcome.message


def test_a_load_generator_that_dies_leaves_what_it_had_handed_over(
    faults: dict[str, Future[Done]],
) -> None:
    """The scenario that was done is kept, and the run has failed."""
    run = faults["killed load"].result()
    assert run.ended.code == 1
    assert run.outcome == ("Failed", "LoadGeneratorDied")
    assert run.ended.sentence.startswith("The load generator died (signal SIGKILL) during the run.")
    assert run.result is not None
    assert [scenario.name for scenario in run.result.scenarios] == ["s0"]
    _left_nothing(run)


def test_children_end_with_a_command_that_is_killed(faults: dict[str, Future[Done]]) -> None:
    """SIGKILL leaves the command no time, and still neither process nor half a result stays."""
    run = faults["sigkill"].result()
    assert run.ended.code == -signal.SIGKILL
    assert run.left_behind == []
    assert run.files == []


@pytest.mark.parametrize(
    ("name", "code", "sentence"),
    [
        (
            "server killed at its start",
            1,
            "The server exited at once (signal SIGKILL). It printed nothing.",
        ),
        (
            "server killed in its warm-up",
            1,
            "The server died during the run (signal SIGKILL). Its last output:\n",
        ),
        (
            "never listening",
            1,
            "The server was not ready within 1 s (spec.server.readyDeadlineSeconds). ",
        ),
        (
            "never ready",
            1,
            "The server was not ready within 15 s (spec.server.readyDeadlineSeconds). ",
        ),
        (
            "past the deadline",
            1,
            "The run was not finished after 1 s (spec.activeDeadlineSeconds). ",
        ),
        ("ctrl-c while fetching", 130, "The run was interrupted (SIGINT)."),
        ("sigterm while starting", 143, "The run was terminated (SIGTERM)."),
        ("ctrl-c in the warm-up", 130, "The run was interrupted (SIGINT)."),
    ],
)
def test_nothing_is_left_where_nothing_was_measured(
    faults: dict[str, Future[Done]], name: str, code: int, sentence: str
) -> None:
    """A run that ends before its first measurement says why, and makes not even a directory."""
    run = faults[name].result()
    assert run.ended.code == code
    assert run.ended.sentence.startswith(sentence)
    assert run.ended.stderr.endswith("Nothing was measured, so no result was written.\n")
    assert run.ended.stdout == ""
    assert not run.directory.exists()
    _left_nothing(run)


def test_a_server_that_is_late_is_quoted(faults: dict[str, Future[Done]]) -> None:
    """The last lines of a server that never got ready stand in the sentence."""
    assert "event=listening" in faults["never ready"].result().ended.sentence


def test_writing_goes_on_when_interrupted(faults: dict[str, Future[Done]]) -> None:
    """Ctrl-C while the result is written ends 130 with the result and the report whole."""
    run = faults["ctrl-c while writing"].result()
    assert run.ended.code == 130
    assert run.files == ["report.html", "result.json"]
    assert run.outcome == ("Complete", "Measured")
    assert "the result is complete" in run.ended.sentence
    _left_nothing(run)


def test_a_frozen_server_is_measured_as_such(faults: dict[str, Future[Done]]) -> None:
    """Queries that get no answer count as timeouts, the scenario ends, and it is INVALID."""
    run = faults["frozen server"].result()
    assert run.ended.code == 3
    assert run.outcome == ("Complete", "Measured")
    assert run.result is not None
    (scenario,) = run.result.scenarios
    assert scenario.steps[0].counts.errors["timeout"] > 0
    assert "ErrorRate" in {reason.rule for reason in scenario.verdict.reasons}
    assert run.left_behind == []
    assert run.temporary == []


@pytest.mark.parametrize(
    ("number", "code", "sentence"),
    [(signal.SIGINT, 130, "interrupted."), (signal.SIGTERM, 143, "terminated.")],
)
def test_a_signal_before_the_run_begins_ends_the_command(
    tmp_path: Path, number: signal.Signals, code: int, sentence: str
) -> None:
    """While the run file is being read, a signal ends with its code and without a traceback."""
    pipe = tmp_path / "run.yaml"
    os.mkfifo(pipe)
    with started(tmp_path, "run", "run.yaml") as process:
        with pipe.open("w"):  # opens once it is opened for reading
            ended = process.signal(number).ended(END_SECONDS)
        assert ended.code == code
        assert ended.stderr == f"inferometer: {sentence}\n"
