"""Runs a command of `inferometer` in the test's own process, as `main` would."""

import signal
import sys
from dataclasses import dataclass

import pytest

from inferometer_cli.__main__ import main


@dataclass(frozen=True, slots=True)
class CommandOutput:
    """How a command ended and what it wrote."""

    code: int
    stdout: str
    stderr: str


@dataclass(frozen=True, slots=True)
class Command:
    """Runs commands; what it writes is taken from the test's own streams."""

    patch: pytest.MonkeyPatch
    capture: pytest.CaptureFixture[str]

    def __call__(self, *words: str) -> CommandOutput:
        """Run `inferometer` with these words and return how it ended."""
        self.capture.readouterr()
        self.patch.setattr(sys, "argv", ["inferometer", *words])
        numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        handlers = {number: signal.getsignal(number) for number in numbers}
        try:
            main()
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
        captured = self.capture.readouterr()
        return CommandOutput(code, captured.out, captured.err)
