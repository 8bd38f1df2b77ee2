"""Every outcome has its documented exit code."""

import re
import signal
from pathlib import Path
from typing import get_args

import pytest

from inferometer_api.results.result import Outcome, OutcomeState
from inferometer_cli.exits import (
    ExitCode,
    StoppedError,
    StopSignal,
    deferred_signals,
    exit_code_of,
    exit_code_of_signal,
    exit_on_signals,
)
from support.results import a_result, a_valid_result

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "exit-codes.md"


def test_the_table_of_exit_codes_is_complete() -> None:
    """docs/reference/exit-codes.md has one row for each code, and no other."""
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \| (.+) \|$", PAGE.read_text(), re.MULTILINE)
    assert {(int(code), name) for code, name, _ in rows} == {
        (each.value, each.name) for each in ExitCode
    }
    assert len(rows) == len(ExitCode)


def test_a_complete_run_exits_by_its_verdicts() -> None:
    """0 if all scenarios are VALID, 3 if one is not."""
    assert exit_code_of(a_valid_result()) is ExitCode.VALID
    assert exit_code_of(a_result()) is ExitCode.INVALID


@pytest.mark.parametrize("state", get_args(OutcomeState))
def test_every_outcome_has_a_code(state: OutcomeState) -> None:
    """An incomplete run exits by its outcome, whatever its verdicts."""
    code = exit_code_of(
        a_valid_result().model_copy(update={"outcome": Outcome(state=state, reason="X")})
    )
    assert (
        code
        is {
            "Complete": ExitCode.VALID,
            "Failed": ExitCode.FAILED,
            "Refused": ExitCode.REFUSED,
            "Interrupted": ExitCode.INTERRUPTED,
            "Terminated": ExitCode.TERMINATED,
        }[state]
    )


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (signal.SIGINT, ExitCode.INTERRUPTED),
        (signal.SIGTERM, ExitCode.TERMINATED),
        (signal.SIGHUP, ExitCode.TERMINATED),
    ],
)
def test_a_signal_ends_a_command_at_once(number: signal.Signals, code: ExitCode) -> None:
    """Before a run has started, a signal ends the command with the code of the signal."""
    before = {each: signal.getsignal(each) for each in signal.Signals if each.value in (1, 2, 15)}
    signal.signal(number, signal.SIG_DFL)  # one that is ignored, as SIGHUP under nohup, stays so
    try:
        exit_on_signals()
        with pytest.raises(StoppedError) as ended:
            signal.raise_signal(number)
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
    assert ended.value.code == code == exit_code_of_signal(number)


def test_a_run_receives_the_first_signal_only() -> None:
    """Within a run the first signal is passed on, and the handlers are restored afterwards."""
    before = signal.getsignal(signal.SIGINT)
    signals: list[signal.Signals] = []
    with deferred_signals() as ending:
        assert ending.signal is None
        ending.notify(signals.append)
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
    assert signals == [signal.SIGTERM]
    assert ending.exit_code is ExitCode.TERMINATED
    assert signal.getsignal(signal.SIGINT) is before


def test_a_late_callback_is_called() -> None:
    """A signal that arrived before the callback was registered is not lost."""
    ending = StopSignal()
    ending.receive(signal.SIGINT, None)
    signals: list[signal.Signals] = []
    ending.notify(signals.append)
    assert signals == [signal.SIGINT]


def test_nohup_is_respected() -> None:
    """A command that ignores SIGHUP continues when its terminal is closed."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with deferred_signals() as ending:
            signal.raise_signal(signal.SIGHUP)
        assert ending.exit_code is None
    finally:
        signal.signal(signal.SIGHUP, before)
