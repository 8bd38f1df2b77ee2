"""Writer of reports: one JSON line per report on a file descriptor."""

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

LastingReport = ListeningReport | EnvironmentReport | ScenarioReport | RepeatsReport | FinalReport
"""A report that must arrive."""


class ReaderGoneError(OSError):
    """The reader of the reports closed its end."""


class ReportSink(Protocol):
    """Receives the reports of a session."""

    def progress(self, report: ProgressReport) -> None:
        """Take the current progress, which may be lost; raises ReaderGoneError."""

    def add(self, report: LastingReport) -> None:
        """Take a report that must arrive; raises ReaderGoneError."""


class ReportWriter:
    """Writes reports, each whole or not at all."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def progress(self, report: ProgressReport) -> None:
        """Write the progress unless that would wait for a slow reader.

        Raises ReaderGoneError.
        """
        line = _line(report)
        # A pipe that is writable takes this many bytes without waiting.
        if len(line) > _ATOMIC_BYTES or not select.select([], [self._descriptor], [], 0)[1]:
            return
        self._write(line)

    def add(self, report: LastingReport) -> None:
        """Write a report that must arrive. Raises ReaderGoneError."""
        self._write(_line(report))

    def _write(self, line: bytes) -> None:
        try:
            while line:
                line = line[os.write(self._descriptor, line) :]
        except OSError as error:
            raise ReaderGoneError(*error.args) from error


def _line(report: Report) -> bytes:
    return report.model_dump_json(exclude_none=True).encode() + b"\n"
