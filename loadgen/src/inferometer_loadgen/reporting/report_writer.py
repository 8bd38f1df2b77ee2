"""How does the load generator tell what it does: one report a line on a file descriptor?"""

import os
import select
from typing import Protocol

from inferometer_api.plan.reports import (
    EnvironmentReport,
    FinalReport,
    ListeningReport,
    ProgressReport,
    RepeatsReport,
    Report,
    ScenarioReport,
)

_ATOMIC_BYTES = select.PIPE_BUF


class ReaderGoneError(OSError):
    """Nobody reads the reports any more."""


class ReportSink(Protocol):
    """Who takes what a session tells."""

    def progress(self, progress: ProgressReport) -> None:
        """Take how far the work is; raises ReaderGoneError where nobody wants to know."""

    def tell(
        self,
        report: ListeningReport | EnvironmentReport | ScenarioReport | RepeatsReport | FinalReport,
    ) -> None:
        """Take what was found; raises ReaderGoneError where nobody wants to know."""


class ReportWriter:
    """Writes reports, each whole or not at all."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def progress(self, progress: ProgressReport) -> None:
        """Write a report that may be lost: a reader that does not keep up must not be waited for.

        Raises ReaderGoneError.
        """
        line = _line(progress)
        # A pipe that is writable takes this many bytes without waiting.
        if len(line) > _ATOMIC_BYTES or not select.select([], [self._descriptor], [], 0)[1]:
            return
        self._write(line)

    def tell(
        self,
        report: ListeningReport | EnvironmentReport | ScenarioReport | RepeatsReport | FinalReport,
    ) -> None:
        """Write a report that must arrive. Raises ReaderGoneError."""
        self._write(_line(report))

    def _write(self, line: bytes) -> None:
        try:
            while line:
                line = line[os.write(self._descriptor, line) :]
        except OSError as error:
            raise ReaderGoneError(*error.args) from error


def _line(
    report: Report,
) -> bytes:
    return report.model_dump_json(exclude_none=True).encode() + b"\n"
