"""Exit codes, the errors that end a command, and how a command reacts to signals.

`inferometer_cli.__main__` imports this module first, so it imports nothing heavy.
"""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from inferometer_api.results.result import ResultDocument


class ExitCode(IntEnum):
    """Exit codes, the same for every command; docs/reference/exit-codes.md explains each."""

    VALID = 0
    """Every scenario is VALID, with or without cautions; or the command succeeded."""
    FAILED = 1
    """Any other failure, before, during or after the measurement."""
    REFUSED = 2
    """The request cannot be carried out; nothing was measured."""
    INVALID = 3
    """Measured, and at least one scenario is INVALID."""
    SLOWER = 4
    """`inferometer ab`, or `compare --fail-if-slower`: the second variant is slower."""
    INCONCLUSIVE = 5
    """The same: it is not shown whether the second variant is slower."""
    INTERRUPTED = 130
    """Ended by Ctrl-C (SIGINT)."""
    TERMINATED = 143
    """Ended by SIGTERM."""


_BY_SIGNAL = {
    signal.SIGINT: ExitCode.INTERRUPTED,
    signal.SIGTERM: ExitCode.TERMINATED,
    signal.SIGHUP: ExitCode.TERMINATED,
}
_BY_STATE = {
    "Failed": ExitCode.FAILED,
    "Refused": ExitCode.REFUSED,
    "Interrupted": ExitCode.INTERRUPTED,
    "Terminated": ExitCode.TERMINATED,
}


STOPPED_STATES = frozenset({"Interrupted", "Terminated"})
"""States of the outcome of a run that a signal ended."""


class RefusedError(Exception):
    """The request cannot be carried out; the message is shown to the user as it is."""


class FailedError(Exception):
    """The request failed; the message is shown to the user as it is."""


class StoppedError(SystemExit):
    """A signal ended the command before it had anything to keep."""


class StopSignal:
    """The first signal that requests the end of a run, and the callback that acts on it."""

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None
        self._callback: Callable[[signal.Signals], None] | None = None

    @property
    def exit_code(self) -> ExitCode | None:
        """The exit code of the signal, None if there was none."""
        return None if self.signal is None else exit_code_of_signal(self.signal)

    def notify(self, callback: Callable[[signal.Signals], None]) -> None:
        """Call `callback` on the first signal, at once if it has arrived already."""
        self._callback = callback
        if self.signal is not None:
            callback(self.signal)

    def receive(self, number: int, _frame: FrameType | None) -> None:
        """Handle a signal; every signal after the first is ignored."""
        if self.signal is None:
            self.signal = signal.Signals(number)
            if self._callback is not None:
                self._callback(self.signal)


def exit_code_of(document: "ResultDocument") -> ExitCode:
    """Return the exit code that a result stands for."""
    if document.outcome.state != "Complete":
        # A newer version may have more states.
        return _BY_STATE.get(document.outcome.state, ExitCode.FAILED)
    return ExitCode.VALID if document.valid else ExitCode.INVALID


def exit_code_of_signal(number: signal.Signals) -> ExitCode:
    """Return the exit code of a command that a signal ended."""
    return _BY_SIGNAL[number]


def exit_on_signals() -> None:
    """End the process on SIGINT, SIGTERM and SIGHUP, with an exit code and no traceback."""
    for number in _handled_signals():
        signal.signal(number, _exit)


@contextmanager
def deferred_signals() -> Iterator[StopSignal]:
    """Record signals within the block instead of exiting, so that a result can still be saved."""
    request = StopSignal()
    before = {number: signal.signal(number, request.receive) for number in _handled_signals()}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _handled_signals() -> list[signal.Signals]:
    # nohup makes its command ignore SIGHUP; respect that.
    return [
        number
        for number in _BY_SIGNAL
        if number is not signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN
    ]


def _exit(number: int, _frame: FrameType | None) -> None:
    raise StoppedError(exit_code_of_signal(signal.Signals(number)))
