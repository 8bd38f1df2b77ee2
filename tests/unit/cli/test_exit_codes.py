"""Does every end have its documented exit code?"""

import re
import signal
from pathlib import Path
from typing import get_args

import pytest

from inferometer_api.results.result import Outcome, OutcomeState
from inferometer_cli.ending import EndedError, Ending, end_when_asked, ending_heard, exit_for
from inferometer_cli.exits import Exit
from inferometer_cli.run_exit import exit_of
from support.results import a_result, a_valid_result

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "exit-codes.md"


def test_the_table_of_exit_codes_is_whole() -> None:
    """docs/reference/exit-codes.md has one row for each code, and no other."""
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \| (.+) \|$", PAGE.read_text(), re.MULTILINE)
    assert {(int(code), name) for code, name, _ in rows} == {
        (each.value, each.name) for each in Exit
    }
    assert len(rows) == len(Exit)


def test_a_complete_run_ends_by_its_verdicts() -> None:
    """0 where all scenarios are VALID, 3 where one is not."""
    assert exit_of(a_valid_result()) is Exit.VALID
    assert exit_of(a_result()) is Exit.INVALID


@pytest.mark.parametrize("state", get_args(OutcomeState))
def test_every_outcome_has_a_code(state: OutcomeState) -> None:
    """A run that is not complete ends by how it ended, whatever its verdicts."""
    code = exit_of(
        a_valid_result().model_copy(update={"outcome": Outcome(state=state, reason="X")})
    )
    assert (
        code
        is {
            "Complete": Exit.VALID,
            "Failed": Exit.FAILED,
            "Refused": Exit.REFUSED,
            "Interrupted": Exit.INTERRUPTED,
            "Terminated": Exit.TERMINATED,
        }[state]
    )


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (signal.SIGINT, Exit.INTERRUPTED),
        (signal.SIGTERM, Exit.TERMINATED),
        (signal.SIGHUP, Exit.TERMINATED),
    ],
)
def test_a_command_with_nothing_to_keep_ends_at_once(number: signal.Signals, code: Exit) -> None:
    """Before a run has begun a signal ends the command with the signal's code."""
    before = {each: signal.getsignal(each) for each in signal.Signals if each.value in (1, 2, 15)}
    signal.signal(number, signal.SIG_DFL)  # one that is ignored, as SIGHUP under nohup, stays so
    try:
        end_when_asked()
        with pytest.raises(EndedError) as ended:
            signal.raise_signal(number)
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
    assert ended.value.code == code == exit_for(number)


def test_a_run_hears_of_the_first_signal_only() -> None:
    """Within a run signals are remembered, the first is told on, and the handlers come back."""
    before = signal.getsignal(signal.SIGINT)
    told: list[signal.Signals] = []
    with ending_heard() as ending:
        assert ending.asked_by is None
        ending.tell(told.append)
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
    assert told == [signal.SIGTERM]
    assert ending.exit is Exit.TERMINATED
    assert signal.getsignal(signal.SIGINT) is before


def test_a_listener_that_comes_late_is_told_too() -> None:
    """A signal that came before anyone listened is not lost."""
    ending = Ending()
    ending.hear(signal.SIGINT, None)
    told: list[signal.Signals] = []
    ending.tell(told.append)
    assert told == [signal.SIGINT]


def test_nohup_is_respected() -> None:
    """A command whose SIGHUP is ignored lives on when its terminal is closed."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with ending_heard() as ending:
            signal.raise_signal(signal.SIGHUP)
        assert ending.exit is None
    finally:
        signal.signal(signal.SIGHUP, before)
