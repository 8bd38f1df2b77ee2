"""What happens to a command that is asked to end, by Ctrl-C, SIGTERM or a closed terminal?"""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from inferometer_cli.exits import Exit

_EXITS = {
    signal.SIGINT: Exit.INTERRUPTED,
    signal.SIGTERM: Exit.TERMINATED,
    signal.SIGHUP: Exit.TERMINATED,
}


class Ending:
    """Remembers the first request to end, and tells it to whoever listens."""

    def __init__(self) -> None:
        self.asked_by: signal.Signals | None = None
        self._listener: Callable[[signal.Signals], None] | None = None

    @property
    def exit(self) -> Exit | None:
        """The code to end with; None where nobody asked."""
        return None if self.asked_by is None else exit_for(self.asked_by)

    def tell(self, listener: Callable[[signal.Signals], None]) -> None:
        """Call `listener` at the first request, which may have come already."""
        self._listener = listener
        if self.asked_by is not None:
            listener(self.asked_by)

    def hear(self, number: int, _frame: FrameType | None) -> None:
        """Take up a signal; those that follow the first change nothing."""
        if self.asked_by is None:
            self.asked_by = signal.Signals(number)
            if self._listener is not None:
                self._listener(self.asked_by)


class EndedError(SystemExit):
    """The command was asked to end and had nothing to keep."""


def end_when_asked() -> None:
    """From now on end at once, with the documented exit code and without a traceback."""
    for number in _heard():
        signal.signal(number, _end)


@contextmanager
def ending_heard() -> Iterator[Ending]:
    """Within the block a request to end is only remembered: what was measured is to be kept."""
    ending = Ending()
    before = {number: signal.signal(number, ending.hear) for number in _heard()}
    try:
        yield ending
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def exit_for(number: signal.Signals) -> Exit:
    """Return the exit code of a command that a signal ended."""
    return _EXITS[number]


def _heard() -> list[signal.Signals]:
    # nohup has SIGHUP ignored, and that is what its user means.
    return [
        number
        for number in _EXITS
        if number is not signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN
    ]


def _end(number: int, _frame: FrameType | None) -> None:
    raise EndedError(exit_for(signal.Signals(number)))
