"""Settings and reports of every test."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

from support.quiet import INCONCLUSIVE
from verify import INCONCLUSIVE_VARIABLE

# A deadline for each example would be a limit on how busy the machine may be.
settings.register_profile("patient", settings.default, deadline=None)
settings.load_profile("patient")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List inconclusive tests, and hand them to `make verify`."""
    found = [
        f"{report.nodeid}: {reason}"
        for report in terminalreporter.stats.get("skipped", [])
        if (reason := _reason(report)).startswith(INCONCLUSIVE)
    ]
    if not found:
        return
    terminalreporter.section("inconclusive: the machine was not quiet")
    for line in found:
        terminalreporter.line(line)
    if path := os.environ.get(INCONCLUSIVE_VARIABLE):
        with Path(path).open("a", encoding="utf-8") as notes:
            notes.writelines(f"{line}\n" for line in found)


def _reason(report: pytest.TestReport) -> str:
    """Return why a test was skipped."""
    if not isinstance(report.longrepr, tuple):
        return ""
    return str(report.longrepr[2]).removeprefix("Skipped: ")
